package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

func (r *rig) mustHaveResult(id, want string) {
	r.t.Helper()
	r.set(func() {
		if got := r.queues["q"].tasks[id].result; got != want {
			r.t.Errorf("the result of %s is %q, want %q", id, got, want)
		}
	})
}

// mustHaveWritten checks how many results the requests for results had.
func (r *rig) mustHaveWritten(want ...int) {
	r.t.Helper()
	r.set(func() {
		if fmt.Sprint(r.writes) != fmt.Sprint(want) {
			r.t.Errorf("requests with %v results, want %v", r.writes, want)
		}
	})
}

// addRetained enqueues tasks that are kept when they are completed.
func (r *rig) addRetained(ids ...string) {
	for _, id := range ids {
		r.addMessage("q", &wire.TaskMessage{Type: "test", ID: id, Queue: "q", MaxRetry: 3, Retention: 3600})
	}
}

// A result that is written right before the handler returns is sent with the outcome, whatever that
// is.
func TestResultWithOutcome(t *testing.T) {
	for _, err := range []error{nil, errors.New("failed"), ErrSkipRetry} {
		synctestRun(t, func(t *testing.T) {
			r := oneQueue(t, 2)
			r.handle = func(_ context.Context, a *Attempt) error {
				data := []byte("first")
				if err := a.WriteResult(data); err != nil {
					t.Error(err)
				}
				data[0] = 'x'
				time.Sleep(resultLinger / 2)
				if a.Message.ID == "b" {
					_ = a.WriteResult([]byte{})
				}
				return err
			}
			r.addRetained("a", "b")
			_, _ = r.roundTrip()
			time.Sleep(resultLinger / 2)
			synctest.Wait()
			r.drainWork()
			r.mustHaveResult("a", "first")
			r.mustHaveResult("b", "")
			r.mustHaveWritten()
			r.mustBeFree()
		})
	}
}

// While handlers run, their results share requests, one after the other.
func TestResultsShareRequests(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 100)
		r.latency = time.Second
		step := make(chan struct{})
		r.handle = func(_ context.Context, a *Attempt) error {
			_ = a.WriteResult([]byte("one"))
			_ = a.WriteResult([]byte("two"))
			<-step
			_ = a.WriteResult([]byte("three"))
			<-step
			return nil
		}
		for i := range 100 {
			r.addRetained(fmt.Sprint(i))
		}
		_, _ = r.roundTrip()
		time.Sleep(resultLinger + time.Second)
		synctest.Wait()
		r.mustHaveResult("7", "two")
		r.mustHaveWritten(100)
		for range 100 {
			step <- struct{}{} // before the reply
		}
		time.Sleep(time.Second)
		r.mustHaveWritten(100)
		time.Sleep(resultLinger + 2*time.Second)
		synctest.Wait()
		r.mustHaveResult("7", "three")
		r.mustHaveWritten(100, 100)
		close(step)
		synctest.Wait()
		r.drainWork()
		r.mustHaveWritten(100, 100)
		r.mustHaveResult("7", "three")
		r.mustBeFree()
	})
}

// An attempt may end while the request for its result is in flight.
func TestResultInFlight(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.handle = func(_ context.Context, a *Attempt) error {
			_ = a.WriteResult([]byte("one"))
			time.Sleep(2 * resultLinger)
			return a.WriteResult([]byte("two"))
		}
		r.addRetained("a")
		_, _ = r.roundTrip()
		r.set(func() { r.latency = time.Minute })
		time.Sleep(3 * resultLinger)
		r.set(func() { r.latency = 0 })
		r.drainWork()
		r.mustHaveResult("a", "two")
		time.Sleep(time.Hour)
		r.mustHaveResult("a", "two")
		r.mustHaveWritten(1)
		r.mustLog(0, "lost")
		r.mustBeFree()
	})
}

// Redis reports with the reply to a result that the lease is lost.
func TestResultOfLostLease(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		var late error
		r.handle = func(ctx context.Context, a *Attempt) error {
			r.set(func() { r.queues["q"].tasks["a"].token = "of another" })
			if err := a.WriteResult([]byte("one")); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			late = a.WriteResult([]byte("two"))
			return context.Cause(ctx)
		}
		r.addRetained("a")
		_, _ = r.roundTrip()
		time.Sleep(2 * resultLinger)
		synctest.Wait()
		if !errors.Is(late, ErrLeaseExpired) {
			t.Errorf("the next write returned %v", late)
		}
		r.mustHaveResult("a", "")
		r.mustLog(1, "lease lost, handler canceled", "task=a")
		r.mustBeFree()
	})
}

func TestResultIsRepeated(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = func(ctx context.Context, a *Attempt) error {
			_ = a.WriteResult([]byte("one"))
			return g.handle(ctx, a)
		}
		r.addRetained("a")
		r.set(func() { r.failing = errCut })
		_, _ = r.roundTrip()
		time.Sleep(time.Second)
		r.mustLog(1, "results not stored", "tasks=1")
		r.set(func() { r.failing = nil })
		if _, err := r.fetcher.WatchLeases(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		r.mustHaveResult("a", "one")
		if _, err := r.fetcher.WatchLeases(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		r.mustHaveWritten(1, 1)
		g.end("a")
		r.drainWork()
		r.mustBeFree()
	})
}

// A large result is not kept in memory, and neither is that of a lease: Write waits for the reply.
func TestLargeResult(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		large := strings.Repeat("x", maxLingering+1)
		r.handle = func(_ context.Context, a *Attempt) error {
			_ = a.WriteResult([]byte("small"))
			r.set(func() { r.failing = errCut })
			if err := a.WriteResult([]byte(large)); err != errCut { //nolint:errorlint // Exactly this one.
				t.Errorf("returned %v", err)
			}
			r.set(func() { r.failing = nil })
			if err := a.WriteResult([]byte(large)); err != nil {
				t.Errorf("returned %v", err)
			}
			r.mustHaveResult("a", large)
			if a.takeResult() != nil {
				t.Error("a stored result is kept")
			}
			return nil
		}
		r.addRetained("a")
		_, _ = r.roundTrip()
		time.Sleep(time.Second)
		synctest.Wait()
		r.drainWork()
		r.mustHaveResult("a", large)
		r.mustHaveWritten(1, 1)
		r.mustBeFree()
	})
}

// A flushed result is stored while the handler still runs; without one, a flush does nothing.
func TestFlushResult(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.handle = func(_ context.Context, a *Attempt) error {
			if err := a.FlushResult(); err != nil {
				t.Error(err)
			}
			if err := a.WriteResult([]byte("seen")); err != nil {
				t.Error(err)
			}
			r.mustHaveResult("a", "")
			if err := a.FlushResult(); err != nil {
				t.Error(err)
			}
			r.mustHaveResult("a", "seen")
			r.mustHaveWritten(1)
			return nil
		}
		r.addRetained("a")
		_, _ = r.roundTrip()
		time.Sleep(time.Second)
		synctest.Wait()
		r.drainWork()
		r.mustHaveWritten(1)
		r.mustBeFree()
	})
}

func TestResultOfReceiver(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newReceiverRig(t)
		r.addRetained("a", "b")
		var all sync.WaitGroup
		all.Go(func() {
			attempts, err := r.pool.Receive(t.Context(), 2, []string{"q"})
			if err != nil {
				t.Error(err)
				return
			}
			for _, a := range attempts {
				all.Go(func() {
					if err := a.WriteResult([]byte("of " + a.Message.ID)); err != nil {
						t.Error(err)
					}
					r.mustHaveResult(a.Message.ID, "of "+a.Message.ID)
				})
			}
		})
		synctest.Wait()
		_, _ = r.roundTrip()
		all.Wait()
		r.mustHaveWritten(2)
	})
}
