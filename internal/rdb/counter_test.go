package rdb_test

import (
	"context"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// attempt fetches the next task of queue q and ends it, with a failure or without.
func attempt(t *testing.T, r *redistest.Redis, failed bool) {
	t.Helper()
	f := r.Fetch(t, "q", 1)
	s := rdb.Settlement{ID: f.Tasks[0].ID, Token: f.Token, Outcome: rdb.Done}
	if failed {
		s.Outcome, s.Failed = rdb.Archive, true
	}
	if code := settle(t, r.Broker(), s); code != rdb.CodeOK {
		t.Fatalf("code %d", code)
	}
}

func TestCounters(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, client := context.Background(), r.Client()
		r.Enqueue(t, "q", 4)
		attempt(t, r, false)
		attempt(t, r, true)
		b := r.Broker()
		days := []string{b.Keys("q").ProcessedOn(time.Now()), b.Keys("q").FailedOn(time.Now())}
		for _, day := range days {
			must(t, client.Expire(ctx, day, time.Hour)) // only the first attempt of a day sets the TTL
		}
		attempt(t, r, false)
		attempt(t, r, true)
		for key, want := range map[string]int64{"asynq:{q}:processed": 4, "asynq:{q}:failed": 2, days[0]: 4, days[1]: 2} {
			if n := client.IncrBy(ctx, key, 0).Val(); n != want {
				t.Errorf("%s is %d, want %d", key, n, want)
			}
		}
		for _, day := range days {
			if ttl := client.TTL(ctx, day).Val(); ttl > time.Hour {
				t.Errorf("the TTL of %s was set again, to %v", day, ttl)
			}
		}
	})
}

func TestCounterStartsAgainPastMaxInt64(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, client := context.Background(), r.Client()
		r.Enqueue(t, "q", 3)
		for _, key := range []string{"asynq:{q}:processed", "asynq:{q}:failed"} {
			must(t, client.Set(ctx, key, strconv.Itoa(math.MaxInt64-1), 0))
		}
		for i, want := range []string{"9223372036854775807", "1", "2"} {
			attempt(t, r, true)
			for _, key := range []string{"asynq:{q}:processed", "asynq:{q}:failed"} {
				if got := client.Get(ctx, key).Val(); got != want {
					t.Errorf("attempt %d: %s is %s, want %s", i, key, got, want)
				}
			}
		}
	})
}

// Whatever stands in place of a counter, the attempt ends.
func TestBrokenCounterHoldsUpNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, client, keys := context.Background(), r.Client(), r.Broker().Keys("q")
		r.Enqueue(t, "q", 1)
		must(t, client.Set(ctx, keys.Processed(), "many", 0))
		must(t, client.LPush(ctx, keys.Failed(), "many"))
		must(t, client.LPush(ctx, keys.ProcessedOn(time.Now()), "many"))
		attempt(t, r, true)
		if n := client.ZCard(ctx, keys.Archived()).Val(); n != 1 {
			t.Errorf("%d tasks in the archive", n)
		}
		if v := client.Get(ctx, keys.Processed()).Val(); v != "many" {
			t.Errorf("processed is now %q", v)
		}
		if n := client.IncrBy(ctx, keys.FailedOn(time.Now()), 0).Val(); n != 1 {
			t.Errorf("%d failed today", n)
		}
	})
}
