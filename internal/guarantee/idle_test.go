package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

func TestIdleServer(t *testing.T) {
	t.Parallel()
	t.Run("woken by a new task", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			starts := make(chan time.Time)
			env.Serve(asynq.Config{TaskCheckInterval: time.Minute}, func(context.Context, *asynq.Task) error {
				starts <- time.Now()
				return nil
			})
			latencies := make([]time.Duration, 20)
			for i := range latencies {
				before := time.Now()
				env.Enqueue(fmt.Sprint("t", i))
				latencies[i] = testenv.Await(env, starts, "a task to start").Sub(before)
				env.AwaitState(fmt.Sprint("t", i), "") // and the server is idle again
			}
			slices.Sort(latencies)
			if median := latencies[len(latencies)/2]; median > time.Second { // without a wake-up it is a minute
				env.T.Errorf("the median time from enqueue to start is %v: %v", median, latencies)
			}
		})
	})
	t.Run("finds tasks without a wake marker", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			var ran testenv.Tally
			env.Serve(asynq.Config{TaskCheckInterval: 20 * time.Millisecond}, ran.Handle)
			env.Enqueue("first")
			env.AwaitState("first", "")
			ctx := context.Background()
			env.Enqueue("foreign", asynq.ProcessIn(time.Hour))
			pipe := env.RDB.TxPipeline() // as the forwarder of the reference library does
			pipe.ZRem(ctx, env.Queue.Scheduled(), "foreign")
			pipe.HSet(ctx, env.Queue.Task("foreign"), "state", "pending", "pending_since", time.Now().UnixNano())
			pipe.LPush(ctx, env.Queue.Pending(), "foreign")
			if _, err := pipe.Exec(ctx); err != nil {
				env.T.Fatal(err)
			}
			env.AwaitState("foreign", "")
		})
	})
	t.Run("sends few commands", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			p, opt := env.Proxy()
			var ran testenv.Tally
			env.ServeOn(opt, asynq.Config{}, ran.Handle)
			env.Enqueue("t")
			env.AwaitState("t", "")
			// The first period may include commands of the start, and a longer one more of them.
			env.Eventually(func() bool {
				before, start := p.Commands(), time.Now()
				<-time.After(2 * time.Second) // the commands of this period are counted
				n, per := p.Commands()-before, time.Since(start)
				env.T.Logf("%d commands in %v", n, per)
				return float64(n) <= 6*per.Seconds()
			}, "an idle server to send at most 6 commands a second")
		})
	})
	t.Run("shares the queue with other servers", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			ran := make(chan string, 100)
			handler := func(_ context.Context, task *asynq.Task) error {
				ran <- task.Type()
				return nil
			}
			for range 3 {
				env.Serve(asynq.Config{TaskCheckInterval: time.Minute}, handler)
			}
			for i := range 30 {
				id := fmt.Sprint("t", i)
				env.Enqueue(id)
				if got := testenv.Await(env, ran, "a task to run"); got != id {
					env.T.Fatalf("task %s ran, want %s", got, id)
				}
			}
			env.AwaitEmpty()
			env.WantCounts(30, 0)
		})
	})
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	type key struct{}
	t.Run("arguments and contexts", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			failure := errors.New("failed")
			delays := make(chan int, 10)
			reports := make(chan string, 10)
			env.Enqueue("t", asynq.MaxRetry(2), asynq.Header("trace", "7"))
			env.Serve(asynq.Config{
				BaseContext: func() context.Context { return context.WithValue(context.Background(), key{}, "base") },
				RetryDelayFunc: func(n int, err error, task *asynq.Task) time.Duration {
					if err.Error() != failure.Error() || task.Type() != "t" || task.Headers()["trace"] != "7" {
						env.T.Errorf("RetryDelayFunc got %v and %q", err, task.Type())
					}
					delays <- n
					return 0
				},
				ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
					id, _ := asynq.GetTaskID(ctx)
					n, _ := asynq.GetRetryCount(ctx)
					most, _ := asynq.GetMaxRetry(ctx)
					reports <- fmt.Sprintln(id, n, most, ctx.Value(key{}), task.Type(), err, ctx.Err())
				}),
			}, func(ctx context.Context, _ *asynq.Task) error {
				if ctx.Value(key{}) != "base" {
					env.T.Error("the context of the handler does not derive from BaseContext")
				}
				return failure
			})
			env.AwaitState("t", "archived")
			for n := range 3 {
				if got, want := testenv.Await(env, reports, "the call of ErrorHandler"), fmt.Sprintln("t", n, 2, "base", "t", failure, nil); got != want {
					env.T.Errorf("ErrorHandler got %q, want %q", got, want)
				}
			}
			for n := range 2 {
				if got := testenv.Await(env, delays, "RetryDelayFunc"); got != n {
					env.T.Errorf("RetryDelayFunc was called with n = %d, want %d", got, n)
				}
			}
		})
	})
	t.Run("health checks report an outage and its end", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			p, opt := env.Proxy()
			checks := make(chan error)
			done := make(chan struct{})
			defer close(done)
			env.ServeOn(opt, asynq.Config{HealthCheckInterval: 10 * time.Millisecond, HealthCheckFunc: func(err error) {
				select {
				case checks <- err:
				case <-done:
				}
			}}, func(context.Context, *asynq.Task) error { return nil })
			next := func() error { return testenv.Await(env, checks, "a health check") }
			if err := next(); err != nil {
				env.T.Errorf("health check at the start: %v", err)
			}
			p.Down()
			env.Eventually(func() bool { return next() != nil }, "a health check that fails")
			p.Resume()
			env.Eventually(func() bool { return next() == nil }, "a health check that succeeds")
		})
	})
}
