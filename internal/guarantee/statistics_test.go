package guarantee_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

func TestGuarantee16Statistics(t *testing.T) {
	t.Parallel()
	t.Run("each attempt counts once", func(t *testing.T) { testenv.Each(t, func(env *testenv.Env) { countAttempts(env, false) }) })
	t.Run("each attempt counts once with lost replies", func(t *testing.T) { testenv.Each(t, func(env *testenv.Env) { countAttempts(env, true) }) })
	t.Run("IsFailure decides what counts", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			harmless := errors.New("harmless")
			env.Enqueue("t", asynq.MaxRetry(0))
			env.Serve(asynq.Config{
				IsFailure:      func(err error) bool { return !errors.Is(err, harmless) },
				RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
			}, failTimes(3, harmless))
			env.AwaitState("t", "")
			env.WantCounts(1, 0)
		})
	})
	t.Run("a snooze does not count", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("t", asynq.MaxRetry(0))
			env.Serve(asynq.Config{}, failTimes(3, asynq.Snooze(0)))
			env.AwaitState("t", "")
			env.WantCounts(1, 0)
		})
	})
	t.Run("a revoked task counts as processed", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("t")
			env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.RevokeTask })
			env.AwaitState("t", "")
			env.WantCounts(1, 0)
		})
	})
	t.Run("counters restart at the largest integer", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			ctx := context.Background()
			env.RDB.Set(ctx, env.Queue.Processed(), int64(math.MaxInt64), 0)
			env.Enqueue("t")
			env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
			env.AwaitState("t", "")
			if n := env.RDB.Get(ctx, env.Queue.Processed()).Val(); n != "1" {
				env.T.Errorf("counter after %d is %s, want 1", int64(math.MaxInt64), n)
			}
		})
	})
	t.Run("daily counters are kept for 90 days", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("t")
			env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
			env.AwaitState("t", "archived")
			days := append(env.Keys(env.Queue.Processed()+":*"), env.Keys(env.Queue.Failed()+":*")...)
			if len(days) != 2 {
				env.T.Fatalf("daily counters: %v", days)
			}
			for _, key := range days {
				if ttl := env.RDB.TTL(context.Background(), key).Val(); ttl < 89*24*time.Hour || ttl > 91*24*time.Hour {
					env.T.Errorf("the TTL of %s is %v", key, ttl)
				}
			}
		})
	})
}

// failTimes returns a handler that fails its first n calls with err.
func failTimes(n int64, err error) asynq.HandlerFunc {
	var calls atomic.Int64
	return func(context.Context, *asynq.Task) error {
		if calls.Add(1) <= n {
			return err
		}
		return nil
	}
}

// countAttempts runs tasks with all outcomes on two servers and compares the statistics with the
// attempts that the handler counted.
func countAttempts(env *testenv.Env, faults bool) {
	p, opt := env.Proxy()
	var processed, failed atomic.Int64
	handler := func(ctx context.Context, task *asynq.Task) error {
		n := processed.Add(1)
		if faults && n%20 == 0 {
			p.SwallowReplies(1, "evalsha", env.Queue.Lease())
		}
		retried, _ := asynq.GetRetryCount(ctx)
		switch kind := strings.TrimLeft(task.Type(), "t0123456789"); {
		case kind == "" && len(task.Type())%2 == 0 && retried == 0:
			failed.Add(1)
			return errors.New("failed")
		case kind == "panics" && retried < 2:
			failed.Add(1)
			panic("deliberate")
		case kind == "archived":
			failed.Add(1)
			return asynq.SkipRetry
		}
		return nil
	}
	cfg := asynq.Config{Concurrency: 5, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }}
	env.EnqueueMany(150)
	env.Enqueue("panics")
	env.Enqueue("archived", asynq.Unique(time.Hour))
	env.Enqueue("1archived")
	env.Enqueue("2panics", asynq.Retention(time.Hour))
	first, second := env.ServeOn(opt, cfg, handler), env.ServeOn(opt, cfg, handler)
	env.Eventually(func() bool {
		return len(env.Keys(env.Queue.TaskPrefix()+"*")) == 3 && env.State("2panics") == "completed"
	}, "all tasks to finish")
	first.Shutdown()
	second.Shutdown()
	env.WantCounts(processed.Load(), failed.Load())
}
