package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/wire"
)

// held is a handler that waits until its context ends and then for the test, and tells why it ended.
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
	t.Run("cancels the handler of a server that is cut off", func(t *testing.T) { everywhere(t, loseLeaseByOutage) })
	t.Run("cancels the handler of a server whose task was taken over", func(t *testing.T) { everywhere(t, loseLeaseByTakeover) })
	t.Run("takes nothing of a result that is written late", func(t *testing.T) {
		everywhere(t, func(s *site) {
			first, written := make(chan struct{}), make(chan error, 1)
			s.enqueue("t", asynq.Retention(time.Hour))
			srv := s.serve(asynq.Config{LeaseDuration: time.Second}, func(ctx context.Context, task *asynq.Task) error {
				if n, _ := asynq.GetRetryCount(ctx); n > 0 {
					return nil
				}
				close(first)
				<-ctx.Done()
				_, err := task.ResultWriter().Write([]byte("late"))
				written <- err
				return nil
			})
			receive(s, first, "the task to start")
			s.takeOver("t")
			if err := receive(s, written, "the result to be written"); !errors.Is(err, asynq.ErrLeaseExpired) {
				s.t.Errorf("a result written late: %v, want ErrLeaseExpired", err)
			}
			s.awaitState("t", "completed")
			srv.Shutdown()
			if got := s.redis.HGet(context.Background(), s.queue.Task("t"), wire.FieldResult).Val(); got != "" {
				s.t.Errorf("the result is %q", got)
			}
		})
	})
}

// takeOver has another process hold the task that a server runs, and then die.
func (s *site) takeOver(id string) {
	s.t.Helper()
	if err := s.redis.HSet(context.Background(), s.queue.Task(id), wire.FieldToken, "another's").Err(); err != nil {
		s.t.Fatal(err)
	}
}

func loseLeaseByOutage(s *site) {
	p, opt := s.proxy()
	lost, kept := newHeld(), newHeld()
	s.enqueue("t", asynq.Retention(time.Hour))
	s.serveOn(opt, asynq.Config{LeaseDuration: time.Second}, lost.handle)
	receive(s, lost.started, "the task to start")
	p.Blackhole()
	silent := time.Now()
	if cause := receive(s, lost.causes, "the handler to be canceled"); !errors.Is(cause, asynq.ErrLeaseExpired) {
		s.t.Errorf("canceled with cause %v, want ErrLeaseExpired", cause)
	}
	if d := time.Since(silent); d > 4*time.Second {
		s.t.Errorf("the handler was canceled %v after the last sign of Redis, want about the 1 s of its lease", d)
	}
	s.serve(asynq.Config{LeaseDuration: time.Second}, func(_ context.Context, task *asynq.Task) error {
		kept.started <- task.Type()
		<-kept.proceed
		return nil
	})
	receive(s, kept.started, "the task to start elsewhere")
	close(lost.proceed) // the outcome of the first attempt comes late, while the second one is on
	p.Resume()
	s.eventually(func() bool { return s.log.count("outcome of a task", "task=t") > 0 }, "the late outcome to be refused")
	if got := s.state("t"); got != "active" {
		s.t.Errorf("the late outcome moved the task to %q", got)
	}
	s.wantCounts(1, 1) // the lost attempt
	close(kept.proceed)
	s.awaitState("t", "completed")
	s.wantCounts(2, 1)
	if m := s.message("t"); m.Retried != 1 {
		s.t.Errorf("retried %d times, want once", m.Retried)
	}
}

func loseLeaseByTakeover(s *site) {
	h := newHeld()
	s.enqueue("t")
	srv := s.serve(asynq.Config{LeaseDuration: time.Second, Concurrency: 1}, func(ctx context.Context, task *asynq.Task) error {
		if n, _ := asynq.GetRetryCount(ctx); n > 0 {
			return nil
		}
		return h.handle(ctx, task)
	})
	receive(s, h.started, "the task to start")
	s.takeOver("t")
	if cause := receive(s, h.causes, "the handler to be canceled"); !errors.Is(cause, asynq.ErrLeaseExpired) {
		s.t.Errorf("canceled with cause %v, want ErrLeaseExpired", cause)
	}
	close(h.proceed)
	s.awaitState("t", "") // the other process was never there, so its lease ends and the task runs again
	srv.Shutdown()
	s.wantCounts(2, 1)
}

func TestGuarantee06CrashedWorker(t *testing.T) {
	t.Parallel()
	t.Run("tasks run again soon after the lease", func(t *testing.T) { everywhere(t, recoverFromKill) })
	t.Run("while a server is idle", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueueMany(3)
			s.crashWith(3)
			ran := s.crashRecovery()
			s.wantCounts(6, 3)
			if n := len(ran.order()); n != 3 {
				s.t.Errorf("3 tasks ran %d times", n)
			}
		})
	})
	t.Run("the crash counts as a failed attempt", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("last", asynq.MaxRetry(0))
			s.enqueue("again", asynq.Retention(time.Hour))
			s.crashWith(2)
			reports := make(chan string, 10)
			s.serve(asynq.Config{ErrorHandler: reportTo(reports)}, func(ctx context.Context, task *asynq.Task) error {
				if n, _ := asynq.GetRetryCount(ctx); n != 1 {
					s.t.Errorf("task %s runs after %d failures, want 1", task.Type(), n)
				}
				return nil
			})
			s.awaitState("last", "archived")
			s.awaitState("again", "completed")
			for range 2 {
				got := receive(s, reports, "the ErrorHandler to hear of it")
				if got != "last: asynq: task lease expired" && got != "again: asynq: task lease expired" {
					s.t.Errorf("ErrorHandler heard %q", got)
				}
			}
			s.wantCounts(3, 2)
			if m := s.message("last"); m.LastErr != "asynq: task lease expired" || m.LastFailedAt == 0 {
				s.t.Errorf("its last error is %q, at %d", m.LastErr, m.LastFailedAt)
			}
		})
	})
	t.Run("unless configured not to", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("t", asynq.MaxRetry(0), asynq.Retention(time.Hour))
			s.crashWith(1)
			s.serve(asynq.Config{
				IsFailure: func(err error) bool { return !errors.Is(err, asynq.ErrLeaseExpired) },
			}, func(context.Context, *asynq.Task) error { return nil })
			s.awaitState("t", "completed")
			s.wantCounts(1, 0)
			if m := s.message("t"); m.Retried != 0 {
				s.t.Errorf("retried %d times, want 0", m.Retried)
			}
		})
	})
	t.Run("a lease is 30 s unless configured", func(t *testing.T) {
		everywhere(t, func(s *site) {
			h := newHeld()
			close(h.proceed)
			s.enqueue("t")
			before := time.Now().Unix()
			srv := s.serve(asynq.Config{ShutdownTimeout: time.Millisecond}, h.handle)
			receive(s, h.started, "the task to start")
			end := int64(s.redis.ZScore(context.Background(), s.queue.Lease(), "t").Val())
			if after := time.Now().Unix(); end < before+30 || end > after+31 {
				s.t.Errorf("its lease ends %d s after it started", end-before)
			}
			srv.Shutdown()
		})
	})
}

// reportTo is an ErrorHandler that sends what it hears, as "type: error".
func reportTo(reports chan<- string) asynq.ErrorHandler {
	return asynq.ErrorHandlerFunc(func(_ context.Context, task *asynq.Task, err error) {
		reports <- fmt.Sprintf("%s: %v", task.Type(), err)
	})
}

// recoverFromKill kills a process with servers idle beside it, which have looked for crashed workers before.
func recoverFromKill(s *site) {
	s.enqueueMany(5)
	p := s.startCrashable()
	p.awaitTasks(s, 5)
	starts := make(chan time.Time, 10)
	s.serve(asynq.Config{LeaseDuration: time.Second}, func(context.Context, *asynq.Task) error {
		starts <- time.Now()
		return nil
	})
	p.kill()
	ends := s.redis.ZRangeWithScores(context.Background(), s.queue.Lease(), 0, -1).Val()
	if len(ends) != 5 {
		s.t.Fatalf("%d tasks are held after the crash, want 5", len(ends))
	}
	last := time.Unix(int64(ends[len(ends)-1].Score), 0)
	for range 5 {
		if d := receive(s, starts, "the tasks to run again").Sub(last); d < 0 || d > 10*time.Second {
			s.t.Errorf("a task ran again %v after its lease ended, want 0 to 10 s", d)
		}
	}
	s.awaitEmpty()
	s.wantCounts(10, 5)
}
