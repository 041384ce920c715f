package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

func TestGuarantee14Durations(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("options under a second round up", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			for _, d := range []time.Duration{1, time.Millisecond, 999 * time.Millisecond, time.Second} {
				id := fmt.Sprint("t", int64(d))
				before := time.Now()
				info := env.Enqueue(id, asynq.Timeout(d), asynq.Retention(d), asynq.Unique(d), asynq.Deadline(before.Add(time.Hour+d)))
				m := env.Message(id)
				if m.Timeout != 1 || m.Retention != 1 || info.Timeout != time.Second || info.Retention != time.Second {
					env.T.Errorf("%v: the timeout is %d s and the retention %d s, want 1", d, m.Timeout, m.Retention)
				}
				if got := time.Unix(m.Deadline, 0); got.Before(before.Add(time.Hour+d)) || got.After(before.Add(time.Hour+d+time.Second)) {
					env.T.Errorf("%v: the deadline is %v, want %v rounded up", d, got, before.Add(time.Hour+d))
				}
				if ttl := env.RDB.PTTL(ctx, env.Queue.Unique(id, nil)).Val(); ttl > time.Second || ttl <= 0 && !isGone(env, env.Queue.Unique(id, nil)) {
					env.T.Errorf("%v: the TTL of the lock is %v, want 1 s", d, ttl)
				}
			}
			env.Enqueue("longer", asynq.Timeout(1001*time.Millisecond), asynq.Retention(59*time.Second+1))
			if m := env.Message("longer"); m.Timeout != 2 || m.Retention != 60 {
				env.T.Errorf("the timeout is %d s and the retention %d s, want 2 and 60", m.Timeout, m.Retention)
			}
			env.Enqueue("none", asynq.Timeout(0))
			if m := env.Message("none"); m.Timeout != 30*60 {
				env.T.Errorf("without a timeout and a deadline, the timeout is %d s, want 30 minutes", m.Timeout)
			}
		})
	})
	t.Run("a task past its deadline does not run", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			var ran testenv.Tally
			reports := make(chan string, 1)
			env.Enqueue("t", asynq.Deadline(time.Now().Add(-time.Minute)), asynq.MaxRetry(0))
			env.Serve(asynq.Config{ErrorHandler: reportTo(reports)}, ran.Handle)
			env.AwaitState("t", "archived")
			if got := testenv.Await(env, reports, "the call of ErrorHandler"); got != "t: context deadline exceeded" || ran.Of("t") > 0 {
				env.T.Errorf("the task ran %d times, error %q", ran.Of("t"), got)
			}
		})
	})
	t.Run("no task runs early", func(t *testing.T) { testenv.Each(t, neverEarly) })
	t.Run("a setting under a second does not become the default", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			checks := make(chan error, 1000)
			h := newHeld()
			env.Enqueue("t")
			env.Enqueue("kept", asynq.Retention(time.Millisecond))
			before := time.Now()
			srv := env.Serve(asynq.Config{
				Concurrency: 2, LeaseDuration: time.Millisecond, ShutdownTimeout: time.Millisecond, JanitorInterval: 10 * time.Millisecond,
				HealthCheckInterval: time.Millisecond, HealthCheckFunc: func(err error) {
					select {
					case checks <- err:
					default:
					}
				},
			}, func(ctx context.Context, task *asynq.Task) error {
				if task.Type() == "kept" {
					return nil
				}
				return h.handle(ctx, task)
			})
			testenv.Await(env, h.started, "the task to start")
			lease := time.Unix(int64(env.RDB.ZScore(ctx, env.Queue.Lease(), "t").Val()), 0)
			if lease.After(time.Now().Add(2*time.Second)) || !lease.After(before) {
				env.T.Errorf("a lease of 1 ms expires %v after the start, want 1 s, rounded up", lease.Sub(before))
			}
			for range 20 {
				if err := testenv.Await(env, checks, "20 health checks"); err != nil {
					env.T.Errorf("a health check failed: %v", err)
				}
			}
			env.AwaitState("kept", "") // after a second at most
			if d := time.Since(before); d > 7*time.Second+testenv.Slack {
				env.T.Errorf("health checks and janitor took %v at intervals of milliseconds", d)
			}
			start := time.Now()
			srv.Shutdown()
			if d := time.Since(start); d > 2*time.Second+testenv.Slack {
				env.T.Errorf("Shutdown took %v with a timeout of 1 ms", d)
			}
			close(h.proceed)
		})
	})
}

// isGone reports whether a key does not exist.
func isGone(env *testenv.Env, key string) bool {
	return env.RDB.Exists(context.Background(), key).Val() == 0
}

// neverEarly checks the start times of delayed tasks and retries.
func neverEarly(env *testenv.Env) {
	type start struct {
		id string
		at time.Time
	}
	starts := make(chan start, 20)
	due := make(map[string]time.Time)
	env.Serve(asynq.Config{
		Concurrency: 10, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond },
	}, func(ctx context.Context, task *asynq.Task) error {
		if n, _ := asynq.GetRetryCount(ctx); task.Type() == "retried" && n == 0 {
			starts <- start{"first", time.Now()}
			return errors.New("failed")
		}
		starts <- start{task.Type(), time.Now()}
		return nil
	})
	for i := range 5 {
		d := time.Duration(i*i*77+1) * time.Millisecond
		in, at := fmt.Sprint("in", i), fmt.Sprint("at", i)
		due[in], due[at] = time.Now().Add(d), time.Now().Add(d)
		env.Enqueue(in, asynq.ProcessIn(d))
		env.Enqueue(at, asynq.ProcessAt(due[at]))
	}
	env.Enqueue("retried")
	for range 12 {
		got := testenv.Await(env, starts, "all tasks to start")
		switch want, ok := due[got.id]; {
		case got.id == "first":
			due["retried"] = got.at.Add(100 * time.Millisecond)
		case !ok:
			env.T.Errorf("unknown task %s started", got.id)
		case got.at.Before(want):
			env.T.Errorf("%s started %v early", got.id, want.Sub(got.at))
		case got.at.Sub(want) > 8*time.Second+testenv.Slack: // without a wake-up, delayed tasks are polled every 5 s
			env.T.Errorf("%s started %v late", got.id, got.at.Sub(want))
		}
	}
	if info := env.Enqueue("past", asynq.ProcessAt(time.Now().Add(-time.Hour))); info.State != asynq.TaskStatePending {
		env.T.Errorf("a task with a past ProcessAt is %v", info.State)
	}
	testenv.Await(env, starts, "a task with a past ProcessAt")
}
