package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestIdleServer(t *testing.T) {
	t.Parallel()
	t.Run("is woken by a new task", func(t *testing.T) {
		everywhere(t, func(s *site) {
			starts := make(chan time.Time)
			s.serve(asynq.Config{TaskCheckInterval: time.Minute}, func(context.Context, *asynq.Task) error {
				starts <- time.Now()
				return nil
			})
			latencies := make([]time.Duration, 20)
			for i := range latencies {
				before := time.Now()
				s.enqueue(fmt.Sprint("t", i))
				latencies[i] = receive(s, starts, "a task to start").Sub(before)
				s.awaitState(fmt.Sprint("t", i), "") // and idle again
			}
			slices.Sort(latencies)
			if median := latencies[len(latencies)/2]; median > 100*time.Millisecond {
				s.t.Errorf("from enqueue to start it took %v in the median: %v", median, latencies)
			}
		})
	})
	t.Run("finds tasks that come without a marker", func(t *testing.T) {
		everywhere(t, func(s *site) {
			var ran tally
			s.serve(asynq.Config{TaskCheckInterval: 20 * time.Millisecond}, ran.handle)
			s.enqueue("first")
			s.awaitState("first", "")
			ctx := context.Background()
			s.enqueue("foreign", asynq.ProcessIn(time.Hour))
			pipe := s.redis.TxPipeline() // as the forwarder of another library's process
			pipe.ZRem(ctx, s.queue.Scheduled(), "foreign")
			pipe.HSet(ctx, s.queue.Task("foreign"), "state", "pending", "pending_since", time.Now().UnixNano())
			pipe.LPush(ctx, s.queue.Pending(), "foreign")
			if _, err := pipe.Exec(ctx); err != nil {
				s.t.Fatal(err)
			}
			s.awaitState("foreign", "")
		})
	})
	t.Run("leaves Redis in peace", func(t *testing.T) {
		everywhere(t, func(s *site) {
			p, opt := s.proxy()
			var ran tally
			s.serveOn(opt, asynq.Config{}, ran.handle)
			s.enqueue("t")
			s.awaitState("t", "")
			const while = 2 * time.Second
			<-time.After(100 * time.Millisecond) // for what follows the start
			before := p.Commands()
			<-time.After(while) // what happens meanwhile is the subject
			if n := p.Commands() - before; n > 12 {
				s.t.Errorf("%d commands were sent in %v", n, while)
			}
		})
	})
	t.Run("shares a task with others", func(t *testing.T) {
		everywhere(t, func(s *site) {
			ran := make(chan string, 100)
			handler := func(_ context.Context, task *asynq.Task) error {
				ran <- task.Type()
				return nil
			}
			for range 3 {
				s.serve(asynq.Config{TaskCheckInterval: time.Minute}, handler)
			}
			for i := range 30 {
				id := fmt.Sprint("t", i)
				s.enqueue(id)
				if got := receive(s, ran, "a task to run"); got != id {
					s.t.Fatalf("ran %s, want %s", got, id)
				}
			}
			s.awaitEmpty()
			s.wantCounts(30, 0)
		})
	})
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	type key struct{}
	t.Run("get what they need", func(t *testing.T) {
		everywhere(t, func(s *site) {
			failure := errors.New("failed")
			delays := make(chan int, 10)
			reports := make(chan string, 10)
			s.enqueue("t", asynq.MaxRetry(2), asynq.Header("trace", "7"))
			s.serve(asynq.Config{
				BaseContext: func() context.Context { return context.WithValue(context.Background(), key{}, "base") },
				RetryDelayFunc: func(n int, err error, task *asynq.Task) time.Duration {
					if err.Error() != failure.Error() || task.Type() != "t" || task.Headers()["trace"] != "7" {
						s.t.Errorf("RetryDelayFunc got %v and %q", err, task.Type())
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
					s.t.Error("the handler's context is not of BaseContext")
				}
				return failure
			})
			s.awaitState("t", "archived")
			for n := range 3 {
				if got, want := receive(s, reports, "the ErrorHandler"), fmt.Sprintln("t", n, 2, "base", "t", failure, nil); got != want {
					s.t.Errorf("ErrorHandler heard %q, want %q", got, want)
				}
			}
			for n := range 2 {
				if got := receive(s, delays, "RetryDelayFunc"); got != n {
					s.t.Errorf("RetryDelayFunc was asked for attempt %d, want %d", got, n)
				}
			}
		})
	})
	t.Run("health checks tell of an outage and its end", func(t *testing.T) {
		everywhere(t, func(s *site) {
			p, opt := s.proxy()
			checks := make(chan error)
			done := make(chan struct{})
			defer close(done)
			s.serveOn(opt, asynq.Config{HealthCheckInterval: 10 * time.Millisecond, HealthCheckFunc: func(err error) {
				select {
				case checks <- err:
				case <-done:
				}
			}}, func(context.Context, *asynq.Task) error { return nil })
			next := func() error { return receive(s, checks, "a health check") }
			if err := next(); err != nil {
				s.t.Errorf("at the start: %v", err)
			}
			p.Down()
			s.eventually(func() bool { return next() != nil }, "an outage to be told of")
			p.Resume()
			s.eventually(func() bool { return next() == nil }, "the end of the outage to be told of")
		})
	})
}
