package redistest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestEachTestIsAlone(t *testing.T) {
	for range 3 {
		t.Run("", func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx := context.Background()
				if n, err := r.Client().Incr(ctx, "asynq:{q}:processed").Result(); err != nil || n != 1 {
					t.Errorf("counted %d, error %v; want 1", n, err)
				}
			})
		})
	}
}

// recorder stands in for the test that the check reports to.
type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.errors++ }

func TestCheckReports(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		r.BrokerIn("other")
		for _, key := range []string{"asynq:{q}:pending", "other:{q}:pending"} {
			if err := r.Client().LPush(ctx, key, "x").Err(); err != nil {
				t.Fatal(err)
			}
		}
		to := &recorder{TB: t}
		r.Check(to)
		if to.errors != 2 {
			t.Errorf("%d violations reported, want 2", to.errors)
		}
	})
}

func TestDump(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ids := r.Enqueue(t, "q", 3)
		if want := []string{"t1", "t2", "t3"}; !slices.Equal(ids, want) {
			t.Errorf("made %v, want %v", ids, want)
		}
		f := r.Fetch(t, "q", 1)
		if f.Tasks[0].ID != "t1" || f.Token != "f1" {
			t.Errorf("fetched %+v", f)
		}
		want := []string{
			"asynq:queues = {q}",
			"asynq:{q}:active = [t1]",
			"asynq:{q}:lease = {t1:now+30s}",
			"asynq:{q}:marker = [1] ttl 1m0s",
			"asynq:{q}:pending = [t3 t2]",
			"asynq:{q}:t:t1 = {msg:test(payload) state:active token:f1}",
			"asynq:{q}:t:t2 = {msg:test(payload) pending_since:now state:pending}",
			"asynq:{q}:t:t3 = {msg:test(payload) pending_since:now state:pending}",
		}
		if diff := cmp.Diff(want, r.Dump(t)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFastForward(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		if err := r.Client().Set(ctx, "key", 1, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		could := r.FastForward(2 * time.Minute)
		exists := r.Client().Exists(ctx, "key").Val() == 1
		if could != r.IsMini() || exists == could {
			t.Errorf("could: %v, and the key exists: %v", could, exists)
		}
	})
}

func TestServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := redistest.StartServer(t, "--appendonly", "yes", "--appendfsync", "always")
	client := s.Client(t)
	if err := client.Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	if v, err := client.Get(ctx, "key").Result(); err != nil || v != "value" {
		t.Errorf("after a restart on the same port and directory: %q, error %v", v, err)
	}
	s.Stop()
	s.Stop()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a stopped server answers")
	}
}
