package rdb_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// outcomes are all ways to end an attempt, with what Redis holds afterwards: of a task a that has a
// lock and a result, next to a task b that waits.
func outcomes(t *testing.T) map[string]struct {
	s    rdb.Settlement
	want string
	code script.Code // of the same call again
} {
	const always = `
		asynq:queues = {q}
		Q:marker = [1] ttl 1m0s
		Q:t:b = {msg:test(payload) pending_since:now state:pending}
	`
	const counted = `
		Q:processed = 1
		Q:processed:today = 1 ttl 2160h0m0s
	`
	const failed = counted + `
		Q:failed = 1
		Q:failed:today = 1 ttl 2160h0m0s
	`
	const waits = always + `
		Q:pending = [b]
	`
	const locked = `
		Q:unique:test:x = a ttl 1m0s
	`
	const lock = " unique_key:asynq:{q}:unique:test:x"
	const boom = " retried=1 error=boom failed_at=now"
	as := func(message, state, key string) string {
		return fmt.Sprintf("\nQ:t:a = {msg:test(payload%s) result:half settled:f1 state:%s%s}\n", message, state, key)
	}
	pending := strings.Replace(as(boom, "pending", lock), "result", "pending_since:now result", 1)
	msg := redistest.FailedMessage(t, "a")
	return map[string]struct {
		s    rdb.Settlement
		want string
		code script.Code
	}{
		"done":    {rdb.Settlement{Outcome: rdb.Done}, waits + counted, script.CodeGone},
		"revoke":  {rdb.Settlement{Outcome: rdb.Revoke}, waits + counted, script.CodeGone},
		"expired": {rdb.Settlement{Outcome: rdb.Expire}, waits + counted, script.CodeGone},
		"discard": {rdb.Settlement{Outcome: rdb.Discard}, waits + failed, script.CodeGone},
		"complete": {rdb.Settlement{Outcome: rdb.Complete, Message: msg, Retention: 3600},
			waits + counted + "Q:completed = {a:now+1h0m0s}" + as(boom, "completed", ""), script.CodeAlready},
		"complete with a result": {rdb.Settlement{Outcome: rdb.Complete, Message: msg, Retention: 3600, Result: []byte("whole")},
			waits + counted + "Q:completed = {a:now+1h0m0s}" + strings.Replace(as(boom, "completed", ""), "half", "whole", 1), script.CodeAlready},
		"retry": {rdb.Settlement{Outcome: rdb.Retry, Message: msg, Delay: time.Minute},
			waits + failed + locked + "Q:retry = {a:now+1m0s}" + as(boom, "retry", lock), script.CodeAlready},
		"defer": {rdb.Settlement{Outcome: rdb.Defer, Message: msg, Delay: time.Minute},
			waits + locked + "Q:retry = {a:now+1m0s}" + as(boom, "retry", lock), script.CodeAlready},
		"defer with the message as it is": {rdb.Settlement{Outcome: rdb.Defer, Delay: time.Minute},
			waits + locked + "Q:retry = {a:now+1m0s}" + as("", "retry", lock), script.CodeAlready},
		"defer with a result": {rdb.Settlement{Outcome: rdb.Defer, Delay: time.Minute, Result: []byte("whole")},
			waits + locked + "Q:retry = {a:now+1m0s}" + strings.Replace(as("", "retry", lock), "half", "whole", 1), script.CodeAlready},
		"retry at once": {rdb.Settlement{Outcome: rdb.Retry, Message: msg},
			always + failed + locked + "Q:pending = [a b]" + pending, script.CodeAlready},
		"retry at once, in order": {rdb.Settlement{Outcome: rdb.Retry, Message: msg, MaxActive: rdb.InOrder},
			always + failed + locked + "Q:pending = [b a]" + pending, script.CodeAlready},
		"defer without a delay": {rdb.Settlement{Outcome: rdb.Defer, Message: msg},
			waits + locked + "Q:retry = {a:now}" + as(boom, "retry", lock), script.CodeAlready},
		"archive": {rdb.Settlement{Outcome: rdb.Archive, Message: msg},
			waits + failed + locked + "Q:archived = {a:now}" + as(boom, "archived", lock), script.CodeAlready},
		"archive with the message as it is": {rdb.Settlement{Outcome: rdb.Archive},
			waits + failed + locked + "Q:archived = {a:now}" + as("", "archived", lock), script.CodeAlready},
		"requeue": {rdb.Settlement{Outcome: rdb.Requeue}, always + locked + `
			Q:pending = [b a]
			Q:t:a = {msg:test(payload) pending_since:now result:half settled:f1 state:pending` + lock + `}`, script.CodeAlready},
	}
}

// seedHeld creates task a, active under the token f1 with a lock and a result, and task b, pending.
func seedHeld(t *testing.T, r *redistest.Redis) {
	t.Helper()
	r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "a"), "x"), redistest.NewTask(t, "q", "b"))
	r.Fetch(t, "q", 1)
	if err := r.Broker().WriteResult(context.Background(), "q", "a", "f1", []byte("half")); err != nil {
		t.Fatal(err)
	}
}

func TestSettle(t *testing.T) {
	for name, o := range outcomes(t) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				b := r.Broker()
				seedHeld(t, r)
				s := o.s
				s.ID = "a"
				redistest.Unchanged(t, r, "a settlement by another token", func() {
					for _, token := range []string{"", "f", "f11"} {
						s.Token = token
						if code := redistest.Settle(t, b, s); code != script.CodeLost {
							t.Errorf("token %q: code %d", token, code)
						}
					}
				})
				s.Token = "f1"
				if code := redistest.Settle(t, b, s); code != script.CodeOK {
					t.Errorf("code %d", code)
				}
				redistest.WantDump(t, r, o.want)
				redistest.Unchanged(t, r, "the same call again", func() {
					if code := redistest.Settle(t, b, s); code != o.code {
						t.Errorf("the same call again: code %d, want %d", code, o.code)
					}
				})
				redistest.Unchanged(t, r, "every other outcome of the settled attempt", func() {
					for other, o2 := range outcomes(t) {
						late := o2.s
						late.ID, late.Token = "a", "f1"
						if code := redistest.Settle(t, b, late); code != o.code {
							t.Errorf("%s afterwards: code %d, want %d", other, code, o.code)
						}
					}
				})
			})
		})
	}
}

func TestSettleOfMissingTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		redistest.Must(t, r.Client().Set(context.Background(), "asynq:{q}:t:string", "no task", 0))
		for name, o := range outcomes(t) {
			for _, id := range []string{"missing", "string"} {
				o.s.ID, o.s.Token = id, "f1"
				redistest.Unchanged(t, r, name, func() {
					if code := redistest.Settle(t, r.Broker(), o.s); code != script.CodeGone {
						t.Errorf("%s of %s: code %d", name, id, code)
					}
				})
			}
		}
	})
}

// A task whose lock expired and is now held by another task does not release that lock.
func TestSettleLeavesLockOfAnother(t *testing.T) {
	for _, outcome := range []rdb.Outcome{rdb.Done, rdb.Complete} {
		t.Run(outcome.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx := context.Background()
				seedHeld(t, r)
				redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:unique:test:x"))
				r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "c"), "x"))
				redistest.Settle(t, r.Broker(), rdb.Settlement{ID: "a", Token: "f1", Outcome: outcome, Retention: 60})
				if holder := r.Client().Get(ctx, "asynq:{q}:unique:test:x").Val(); holder != "c" {
					t.Errorf("the lock is held by %q", holder)
				}
			})
		})
	}
}

// Settlements of many tasks, outcomes and queues in one round trip have their own results.
func TestSettleMixedBatch(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		const n = 1100
		made := r.Enqueue(t, "q", n)
		r.Make(t, redistest.NewTask(t, "r", "other"))
		other := r.Fetch(t, "r", 1)
		var tokens []string
		for _, part := range []int{500, 500, 100} {
			f := r.Fetch(t, "q", part)
			tokens = append(tokens, slices.Repeat([]string{f.Token}, part)...)
		}
		var batch []*rdb.Settlement
		for i, id := range made {
			s := &rdb.Settlement{Queue: "q", ID: id, Token: tokens[i], Outcome: rdb.Done}
			switch {
			case i%10 == 3:
				s.Token = "wrong"
			case i%10 == 5:
				s.Outcome, s.Message, s.Delay = rdb.Retry, redistest.FailedMessage(t, id), time.Minute
			case i%10 == 7:
				s.Outcome = rdb.Requeue
			}
			batch = append(batch, s)
		}
		batch = append(batch, &rdb.Settlement{Queue: "r", ID: "other", Token: other.Token, Outcome: rdb.Done})
		b.RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
		for i, s := range batch {
			want := script.CodeOK
			if s.Token == "wrong" {
				want = script.CodeLost
			}
			if s.Err != nil || s.Code != want {
				t.Fatalf("settlement %d: code %d, want %d, error %v", i, s.Code, want, s.Err)
			}
		}
		client := r.Client()
		counts := map[string][2]int64{
			"active":    {client.LLen(ctx, "asynq:{q}:active").Val(), n / 10},
			"lease":     {client.ZCard(ctx, "asynq:{q}:lease").Val(), n / 10},
			"retry":     {client.ZCard(ctx, "asynq:{q}:retry").Val(), n / 10},
			"pending":   {client.LLen(ctx, "asynq:{q}:pending").Val(), n / 10},
			"processed": {client.IncrBy(ctx, "asynq:{q}:processed", 0).Val(), n * 8 / 10},
			"failed":    {client.IncrBy(ctx, "asynq:{q}:failed", 0).Val(), n / 10},
		}
		for name, c := range counts {
			if c[0] != c[1] {
				t.Errorf("%s: %d, want %d", name, c[0], c[1])
			}
		}
	})
}

// Requeued tasks return in the reverse order of their settlements.
func TestSettleRequeueOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 4)
		f := r.Fetch(t, "q", 3)
		var batch []*rdb.Settlement
		for _, task := range slices.Backward(f.Tasks) {
			batch = append(batch, &rdb.Settlement{Queue: "q", ID: task.ID, Token: f.Token, Outcome: rdb.Requeue})
		}
		r.Broker().RoundTrip(context.Background(), &rdb.RoundTrip{Settle: batch})
		if f := r.Fetch(t, "q", 4); !slices.Equal(redistest.IDs(f), []string{"t1", "t2", "t3", "t4"}) {
			t.Errorf("fetched %v", redistest.IDs(f))
		}
	})
}

// A retry must not start before its delay ends, so its due time is rounded up to a whole second.
func TestSettleRetryIsNotSooner(t *testing.T) {
	r := redistest.Mini(t)
	r.Enqueue(t, "q", 4)
	f := r.Fetch(t, "q", 4)
	for i, tt := range []struct {
		micros int64
		delay  time.Duration
		want   int64
	}{
		{0, time.Minute, 60}, {1, time.Minute, 61}, {998_000, time.Millisecond, 1}, {999_999, 2 * time.Millisecond, 2},
	} {
		r.SetTime(time.Unix(1_800_000_000, tt.micros*1000))
		redistest.Settle(t, r.Broker(), rdb.Settlement{ID: f.Tasks[i].ID, Token: f.Token, Outcome: rdb.Retry, Delay: tt.delay})
		score := r.Client().ZScore(context.Background(), "asynq:{q}:retry", f.Tasks[i].ID).Val()
		if got := int64(score) - 1_800_000_000; got != tt.want {
			t.Errorf("%d µs and %v: due at second %d, want %d", tt.micros, tt.delay, got, tt.want)
		}
	}
}

func TestOutcomeNames(t *testing.T) {
	for o, want := range map[rdb.Outcome]string{
		rdb.Done: "succeeded", rdb.Complete: "succeeded", rdb.Retry: "retried", rdb.Defer: "deferred", rdb.Archive: "archived",
		rdb.Requeue: "requeued", rdb.Revoke: "revoked", rdb.Expire: "expired", rdb.Discard: "revoked", rdb.Lost: "lease_lost",
	} {
		if o.String() != want {
			t.Errorf("%d is %q, want %q", int(o), o, want)
		}
	}
}

// attempt fetches the next task of queue q and settles it, as failed or not.
func attempt(t *testing.T, r *redistest.Redis, failed bool) {
	t.Helper()
	f := r.Fetch(t, "q", 1)
	s := rdb.Settlement{ID: f.Tasks[0].ID, Token: f.Token, Outcome: rdb.Done}
	if failed {
		s.Outcome, s.Failed = rdb.Archive, true
	}
	if code := redistest.Settle(t, r.Broker(), s); code != script.CodeOK {
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
			redistest.Must(t, client.Expire(ctx, day, time.Hour)) // only the first attempt of a day sets the TTL
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
			redistest.Must(t, client.Set(ctx, key, strconv.Itoa(math.MaxInt64-1), 0))
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

// An attempt is settled even if a counter has an invalid value or type.
func TestBrokenCounterHoldsUpNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, client, keys := context.Background(), r.Client(), r.Broker().Keys("q")
		r.Enqueue(t, "q", 1)
		redistest.Must(t, client.Set(ctx, keys.Processed(), "many", 0))
		redistest.Must(t, client.LPush(ctx, keys.Failed(), "many"))
		redistest.Must(t, client.LPush(ctx, keys.ProcessedOn(time.Now()), "many"))
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
