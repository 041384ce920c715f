package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// held is a handler that blocks until its context ends, sends the cause to causes, and returns when
// proceed is closed.
type held struct {
	started chan string
	causes  chan error
	proceed chan struct{}
}

func newHeld() *held {
	return &held{started: make(chan string, 100), causes: make(chan error, 100), proceed: make(chan struct{})}
}

func (h *held) handle(ctx context.Context, task *asynq.Task) error {
	h.started <- task.Type()
	<-ctx.Done()
	h.causes <- context.Cause(ctx)
	<-h.proceed
	return nil
}

func TestGuarantee05LostLease(t *testing.T) {
	t.Parallel()
	t.Run("the server is cut off", func(t *testing.T) { testenv.Each(t, loseLeaseByOutage) })
	t.Run("another server takes the task over", func(t *testing.T) { testenv.Each(t, loseLeaseByTakeover) })
	t.Run("a late result is rejected", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			first, written := make(chan struct{}), make(chan error, 1)
			env.Enqueue("t", asynq.Retention(time.Hour))
			srv := env.Serve(asynq.Config{LeaseDuration: time.Second}, func(ctx context.Context, task *asynq.Task) error {
				if n, _ := asynq.GetRetryCount(ctx); n > 0 {
					return nil
				}
				close(first)
				<-ctx.Done()
				_, err := task.ResultWriter().Write([]byte("late"))
				written <- err
				return nil
			})
			testenv.Await(env, first, "the task to start")
			env.StealLease("t")
			if err := testenv.Await(env, written, "the result to be written"); !errors.Is(err, asynq.ErrLeaseExpired) {
				env.T.Errorf("late result: %v, want ErrLeaseExpired", err)
			}
			env.AwaitState("t", "completed")
			srv.Shutdown()
			if got := env.RDB.HGet(context.Background(), env.Queue.Task("t"), wire.FieldResult).Val(); got != "" {
				env.T.Errorf("the result is %q, want none", got)
			}
		})
	})
}

func loseLeaseByOutage(env *testenv.Env) {
	p, opt := env.Proxy()
	lost, kept := newHeld(), newHeld()
	env.Enqueue("t", asynq.Retention(time.Hour))
	env.ServeOn(opt, asynq.Config{LeaseDuration: time.Second}, lost.handle)
	testenv.Await(env, lost.started, "the task to start")
	p.Blackhole()
	silent := time.Now()
	if cause := testenv.Await(env, lost.causes, "the handler to be canceled"); !errors.Is(cause, asynq.ErrLeaseExpired) {
		env.T.Errorf("cause of the context: %v, want ErrLeaseExpired", cause)
	}
	if d := time.Since(silent); d > 2*time.Second+testenv.Slack {
		env.T.Errorf("the handler was canceled %v after the last reply of Redis, want about 1 s, which is its lease", d)
	}
	env.Serve(asynq.Config{LeaseDuration: time.Second}, func(_ context.Context, task *asynq.Task) error {
		kept.started <- task.Type()
		<-kept.proceed
		return nil
	})
	testenv.Await(env, kept.started, "the task to start on the second server")
	close(lost.proceed) // the outcome of the first attempt arrives during the second
	p.Resume()
	env.Eventually(func() bool { return env.Log.Count("outcome", "task=t") > 0 }, "the late outcome to be rejected")
	if got := env.State("t"); got != "active" {
		env.T.Errorf("the late outcome moved the task to state %q", got)
	}
	env.WantCounts(1, 1) // the attempt that lost its lease
	close(kept.proceed)
	env.AwaitState("t", "completed")
	env.WantCounts(2, 1)
	if m := env.Message("t"); m.Retried != 1 {
		env.T.Errorf("Retried is %d, want 1", m.Retried)
	}
}

func loseLeaseByTakeover(env *testenv.Env) {
	h := newHeld()
	env.Enqueue("t")
	srv := env.Serve(asynq.Config{LeaseDuration: time.Second, Concurrency: 1}, func(ctx context.Context, task *asynq.Task) error {
		if n, _ := asynq.GetRetryCount(ctx); n > 0 {
			return nil
		}
		return h.handle(ctx, task)
	})
	testenv.Await(env, h.started, "the task to start")
	env.StealLease("t")
	if cause := testenv.Await(env, h.causes, "the handler to be canceled"); !errors.Is(cause, asynq.ErrLeaseExpired) {
		env.T.Errorf("cause of the context: %v, want ErrLeaseExpired", cause)
	}
	close(h.proceed)
	env.AwaitState("t", "") // the lease of the other process expires, and the task runs again
	srv.Shutdown()
	env.WantCounts(2, 1)
}

func TestGuarantee06CrashedWorker(t *testing.T) {
	t.Parallel()
	t.Run("tasks run again soon after their lease", func(t *testing.T) { testenv.Each(t, recoverFromKill) })
	t.Run("an idle server takes over", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.EnqueueMany(3)
			env.FetchAndCrash(3)
			ran := finishCrashed(env)
			env.WantCounts(6, 3)
			if n := len(ran.Order()); n != 3 {
				env.T.Errorf("3 tasks ran %d times", n)
			}
		})
	})
	t.Run("the crash counts as a failed attempt", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("last", asynq.MaxRetry(0))
			env.Enqueue("again", asynq.Retention(time.Hour))
			env.FetchAndCrash(2)
			reports := make(chan string, 10)
			env.Serve(asynq.Config{ErrorHandler: reportTo(reports)}, func(ctx context.Context, task *asynq.Task) error {
				if n, _ := asynq.GetRetryCount(ctx); n != 1 {
					env.T.Errorf("task %s runs with retry count %d, want 1", task.Type(), n)
				}
				return nil
			})
			env.AwaitState("last", "archived")
			env.AwaitState("again", "completed")
			for range 2 {
				got := testenv.Await(env, reports, "the call of ErrorHandler")
				if got != "last: asynq: task lease expired" && got != "again: asynq: task lease expired" {
					env.T.Errorf("ErrorHandler got %q", got)
				}
			}
			env.WantCounts(3, 2)
			if m := env.Message("last"); m.LastErr != "asynq: task lease expired" || m.LastFailedAt == 0 {
				env.T.Errorf("last error %q at %d", m.LastErr, m.LastFailedAt)
			}
		})
	})
	t.Run("the crash does not count if IsFailure says so", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("t", asynq.MaxRetry(0), asynq.Retention(time.Hour))
			env.FetchAndCrash(1)
			env.Serve(asynq.Config{
				IsFailure: func(err error) bool { return !errors.Is(err, asynq.ErrLeaseExpired) },
			}, func(context.Context, *asynq.Task) error { return nil })
			env.AwaitState("t", "completed")
			env.WantCounts(1, 0)
			if m := env.Message("t"); m.Retried != 0 {
				env.T.Errorf("Retried is %d, want 0", m.Retried)
			}
		})
	})
	t.Run("a lease is 30 s by default", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			h := newHeld()
			close(h.proceed)
			env.Enqueue("t")
			before := time.Now().Unix()
			srv := env.Serve(asynq.Config{ShutdownTimeout: time.Millisecond}, h.handle)
			testenv.Await(env, h.started, "the task to start")
			end := int64(env.RDB.ZScore(context.Background(), env.Queue.Lease(), "t").Val())
			if after := time.Now().Unix(); end < before+30 || end > after+31 {
				env.T.Errorf("the lease expires %d s after the start", end-before)
			}
			srv.Shutdown()
		})
	})
}

// reportTo returns an ErrorHandler that sends "type: error" for each call.
func reportTo(reports chan<- string) asynq.ErrorHandler {
	return asynq.ErrorHandlerFunc(func(_ context.Context, task *asynq.Task, err error) {
		reports <- fmt.Sprintf("%s: %v", task.Type(), err)
	})
}

// recoverFromKill kills a process while idle servers run that have already searched for expired
// leases.
func recoverFromKill(env *testenv.Env) {
	env.EnqueueMany(5)
	p := startCrashable(env)
	p.awaitTasks(env, 5)
	starts := make(chan time.Time, 10)
	env.Serve(asynq.Config{LeaseDuration: time.Second}, func(context.Context, *asynq.Task) error {
		starts <- time.Now()
		return nil
	})
	p.kill()
	ends := env.RDB.ZRangeWithScores(context.Background(), env.Queue.Lease(), 0, -1).Val()
	if len(ends) != 5 {
		env.T.Fatalf("%d tasks are active after the crash, want 5", len(ends))
	}
	last := time.Unix(int64(ends[len(ends)-1].Score), 0)
	for range 5 {
		if d := testenv.Await(env, starts, "the tasks to run again").Sub(last); d < 0 || d > 10*time.Second+testenv.Slack {
			env.T.Errorf("a task ran again %v after its lease expired, want 0 to 10 s", d)
		}
	}
	env.AwaitEmpty()
	env.WantCounts(10, 5)
}
