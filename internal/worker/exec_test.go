package worker

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestHandlersThatPanic(t *testing.T) {
	for _, c := range []struct {
		name  string
		crash func()
		text  string
	}{
		{"text", func() { panic("no good") }, "panic: no good"},
		{"an error", func() { panic(errTask) }, "panic: task failed"},
		{"Goexit", runtime.Goexit, "panic: runtime.Goexit was called"},
	} {
		synctestRun(t, func(t *testing.T) {
			r := oneQueue(t, 1)
			var ended context.Context
			var reported error
			r.handle = func(ctx context.Context, _ *Attempt) error {
				ended = ctx
				c.crash()
				return nil
			}
			r.cfg.OnError = func(_ context.Context, _ *Attempt, err error) { reported = err }
			r.addSilently("q", "a")
			r.drainWork()
			if state, msg := r.state("q", "a"); state != "retry" || msg.Retried != 1 || msg.LastErr != c.text {
				t.Errorf("%s: %s with %+v", c.name, state, msg)
			}
			if panicked := new(PanicError); !errors.As(reported, &panicked) || len(panicked.Stack) == 0 {
				t.Errorf("%s: reported %v", c.name, reported)
			}
			r.mustLog(1, "handler panicked", "task=a", "exec_test.go")
			if ended.Err() == nil {
				t.Errorf("%s: the context was not canceled", c.name)
			}
			r.mustBeFree()
		})
	}
}

// nilError is an error type whose methods panic for a nil pointer, as many do.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestHandlerReturnsANilPointer(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		results := []error{(*nilError)(nil), (*RetryError)(nil), nil}
		r.handle = func(context.Context, *Attempt) error {
			err := results[0]
			results = results[1:]
			return err
		}
		r.addSilently("q", "a", "b", "c")
		r.drainWork()
		r.mustBe("q", "a", "retry")
		r.mustBe("q", "b", "retry")
		r.mustBe("q", "c", "done")
		r.mustLog(2, "handler panicked", "nil pointer dereference")
		r.mustBeFree()
	})
}

func TestBaseContextFails(t *testing.T) {
	for name, base := range map[string]func() context.Context{
		"it panics":      func() context.Context { panic("no context") },
		"it returns nil": func() context.Context { return nil },
		"it exits":       func() context.Context { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctestRun(t, func(t *testing.T) {
				r, g := oneQueue(t, 1), newGates()
				r.handle = g.handle
				r.cfg.BaseContext = base
				r.addSilently("q", "a")
				r.drainWork()
				g.mustHaveStarted(t)
				r.mustBe("q", "a", "retry")
				r.mustBeFree()
			})
		})
	}
}

// Goexit ends goroutines. The pool must replace them, and have no more than before.
func TestGoexitKeepsTheWorkers(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 3), newGates()
		r.handle = func(ctx context.Context, a *Attempt) error {
			if err := g.handle(ctx, a); err != nil {
				runtime.Goexit()
			}
			return nil
		}
		for range 10 {
			r.addSilently("q", "a", "b", "c")
			time.Sleep(testInterval)
			r.drainWork()
			g.mustHaveStarted(t, "a", "b", "c")
			for _, id := range []string{"a", "b", "c"} {
				g.endWith(id, func() error { return errTask })
			}
			r.drainWork()
			if idle := r.pool.idle.Load(); idle != 3 {
				t.Errorf("%d idle goroutines", idle)
			}
		}
		r.addSilently("q", "x", "y", "z")
		time.Sleep(testInterval)
		r.drainWork()
		g.mustHaveStarted(t, "x", "y", "z") // concurrently
		g.end("x", "y", "z")
		r.drainWork()
		r.mustBeFree()
	})
}

// The pool reuses goroutines: it has as many as there were concurrent tasks.
func TestGoroutinesAreReused(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 5)
		for range 20 {
			r.addSilently("q", "a")
			time.Sleep(testInterval)
			r.drainWork()
		}
		if idle := r.pool.idle.Load(); idle != 1 {
			t.Errorf("%d goroutines for one task at a time", idle)
		}
	})
}

func TestDeadlineBeforeStart(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = g.handle
		r.addMessage("q", &wire.TaskMessage{ID: "a", Queue: "q", MaxRetry: 3, Deadline: time.Now().Unix() - 1})
		r.drainWork()
		g.mustHaveStarted(t)
		if state, msg := r.state("q", "a"); state != "retry" || msg.LastErr != context.DeadlineExceeded.Error() {
			t.Errorf("%s with %+v", state, msg)
		}
		r.mustBeFree()
	})
}

// A handler that runs after its context ended keeps its slot for Grace. Then its task is settled.
func TestStuckHandler(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(r *rig) // of the context, at 60s
		cause error
	}{
		{"timeout", func(*rig) {}, context.DeadlineExceeded},
		{"cancellation", func(r *rig) { r.pool.Cancel("a") }, context.Canceled},
	} {
		synctestRun(t, func(t *testing.T) {
			r, g := oneQueue(t, 1), newGates()
			r.handle = g.handle
			var reported error
			r.cfg.OnError = func(_ context.Context, _ *Attempt, err error) { reported = err }
			timeout := int64(60)
			if c.cause == context.Canceled { //nolint:errorlint // Exactly this one.
				timeout = 0
			}
			r.addMessage("q", &wire.TaskMessage{ID: "a", Queue: "q", MaxRetry: 3, Timeout: timeout})
			r.addSilently("q", "b")
			loops := r.run()
			time.Sleep(time.Minute)
			c.end(r)
			time.Sleep(testGrace)
			g.mustHaveStarted(t, "a")
			r.mustBe("q", "a", "active")
			time.Sleep(2 * time.Second)
			g.mustHaveStarted(t, "b")
			if state, msg := r.state("q", "a"); state != "retry" || msg.Retried != 1 {
				t.Errorf("%s: %s with %+v", c.name, state, msg)
			}
			if !errors.Is(reported, ErrStuck) || !errors.Is(reported, c.cause) {
				t.Errorf("%s: reported %v", c.name, reported)
			}
			r.mustLog(1, "handler is stuck", "task=a")

			g.end("a") // a late return changes nothing
			if state, _ := r.state("q", "a"); state != "retry" {
				t.Errorf("%s: %s", c.name, state)
			}
			g.end("b")
			r.mustBe("q", "b", "done")
			r.stop(loops)
			r.mustBeFree()
		})
	}
}

func TestHandlerThatEndsWithinItsGrace(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = g.handle
		r.addMessage("q", &wire.TaskMessage{ID: "a", Queue: "q", MaxRetry: 3, Timeout: 60})
		loops := r.run()
		time.Sleep(time.Minute + testGrace - 1)
		g.end("a")
		r.mustBe("q", "a", "done")
		time.Sleep(time.Minute)
		r.mustLog(0, "stuck")
		r.stop(loops)
		r.mustBeFree()
	})
}

func TestStuckHandlerThatLostItsLease(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		r.drainWork()
		r.set(func() { r.queues["q"].tasks["a"].token = "of another" })
		if err := r.extend(); err != nil {
			t.Error(err)
		}
		time.Sleep(testGrace + 1)
		rest, err := r.fetcher.WatchStuck(context.Background())
		if rest != time.Second || err != nil {
			t.Errorf("delay %v, error %v", rest, err)
		}
		synctest.Wait()
		r.mustBeFree()
		r.mustBe("q", "a", "active")
		g.end("a")
		r.mustBeFree()
	})
}

func TestWatchStuckInterval(t *testing.T) {
	r := oneQueue(t, 1)
	for grace, want := range map[time.Duration]time.Duration{
		0: 10 * time.Millisecond, time.Second: 250 * time.Millisecond, time.Hour: time.Second,
	} {
		r.cfg.Grace = grace
		if rest, err := r.fetcher.WatchStuck(context.Background()); rest != want || err != nil {
			t.Errorf("grace %v: delay %v, error %v, want %v", grace, rest, err, want)
		}
	}
}

func TestCancel(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 4, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"})
		canceled := make(chan string)
		r.handle = func(ctx context.Context, a *Attempt) error {
			<-ctx.Done()
			canceled <- a.Queue + " " + a.Message.ID + ": " + context.Cause(ctx).Error()
			return ctx.Err()
		}
		r.addSilently("p", "a")
		r.addSilently("q", "a")
		r.addSilently("q", "b")
		for _, f := range r.fetchers {
			if _, err := f.lane.trips[0].Tick(context.Background()); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		r.pool.Cancel("nobody")
		r.pool.Cancel("a") // IDs are unique only within a queue
		got, want := []string{<-canceled, <-canceled}, []string{"p a: " + ErrCanceled.Error(), "q a: " + ErrCanceled.Error()}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("canceled %q, want %q", got, want)
		}
		synctest.Wait()
		if running := r.pool.Running(); len(running) != 1 || running[0].Message.ID != "b" {
			t.Errorf("%d attempts run", len(running))
		}
		r.pool.Cancel("b")
		<-canceled
	})
}

// The outcome requested with a cancellation is kept if the task is canceled again without one.
func TestCancelOutcome(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 3)
		r.handle = func(ctx context.Context, _ *Attempt) error {
			<-ctx.Done()
			return ctx.Err()
		}
		r.addSilently("q", "a", "b", "c")
		r.drainWork()
		for id, outcome := range map[string]wire.CancelOutcome{"a": wire.CancelArchive, "b": wire.CancelDelete, "c": wire.CancelRetry} {
			r.pool.Cancel(wire.CancelMessage(id, outcome))
			r.pool.Cancel(id)
		}
		synctest.Wait()
		r.drainWork()
		r.mustBe("q", "a", "archived")
		r.mustBe("q", "b", "done")
		r.mustBe("q", "c", "retry")
	})
}

// An ErrorHandler that blocks on a stuck handler must only block that task.
func TestBlockedErrorHandlerDoesNotBlockWatch(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		blocked := make(chan struct{})
		r.cfg.OnError = func(_ context.Context, a *Attempt, _ error) {
			if a.Message.ID == "a" {
				<-blocked
			}
		}
		r.addSilently("q", "a", "b")
		r.drainWork()
		r.pool.Cancel("a")
		time.Sleep(time.Second)
		r.pool.Cancel("b")
		loops := r.run()
		time.Sleep(testGrace + 3*time.Second)
		r.mustBe("q", "a", "active")
		r.mustBe("q", "b", "retry")
		close(blocked)
		synctest.Wait()
		r.mustBe("q", "a", "retry")
		g.end("a", "b")
		r.stop(loops)
		r.mustBeFree()
	})
}

// Every callback sees the value of the public package, also if the handler never ran or still runs.
func TestPreparedValue(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		check := func(a *Attempt) {
			if a.Value != "prepared" {
				t.Errorf("%s has the value %v", a.Message.ID, a.Value)
			}
		}
		r.handle = func(ctx context.Context, a *Attempt) error {
			check(a)
			return g.handle(ctx, a)
		}
		r.cfg.OnError = func(_ context.Context, a *Attempt, _ error) { check(a) }
		r.cfg.RetryDelay = func(a *Attempt, _ error) time.Duration { check(a); return time.Minute }
		r.addMessage("q", &wire.TaskMessage{ID: "late", Queue: "q", MaxRetry: 3, Deadline: time.Now().Unix() - 1})
		r.addMessage("q", &wire.TaskMessage{ID: "stuck", Queue: "q", MaxRetry: 3, Timeout: 1})
		loops := r.run()
		time.Sleep(testGrace + 3*time.Second)
		r.mustBe("q", "late", "retry")
		r.mustBe("q", "stuck", "retry")
		g.end("stuck")
		r.stop(loops)
		r.mustBeFree()
	})
}

// The deadline of a task may have passed long before its fetch. That does not make its handler
// stuck.
func TestOverdueCountsFromTheStart(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		started, deadline time.Duration // relative to now
		want              bool
	}{
		"deadline long ago, just started":     {0, time.Hour, false},
		"deadline long ago, started long ago": {time.Minute, time.Hour, true},
		"deadline just over":                  {time.Hour, time.Second, false},
		"deadline over for long":              {time.Hour, time.Minute, true},
	} {
		a := &Attempt{Started: now.Add(-tc.started), Deadline: now.Add(-tc.deadline)}
		if got := a.overdue(now, 10*time.Second); got != tc.want {
			t.Errorf("%s: overdue is %t", name, got)
		}
	}
}
