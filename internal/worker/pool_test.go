package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// drain waits for the pool, for a limited time.
func (r *rig) drain(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.pool.Drain(ctx)
}

func TestDrain(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 4, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"}), newGates()
		r.handle = g.handle
		if err := r.drain(time.Second); err != nil {
			t.Errorf("nothing is open: %v", err)
		}
		r.addSilently("p", "a")
		r.addSilently("q", "b", "c")
		loops := r.run()
		g.mustHaveStarted(t, "a", "b", "c")
		r.pool.StopFetching()
		r.pool.StopFetching()
		r.add("q", "d")
		g.end("b")
		if err := r.drain(time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two handlers run: %v", err)
		}
		time.AfterFunc(time.Second, func() { g.of("a") <- func() error { return nil } })
		time.AfterFunc(2*time.Second, func() { g.of("c") <- func() error { return nil } })
		start := time.Now()
		if err := r.drain(time.Minute); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("drained after %v, error %v", time.Since(start), err)
		}
		r.stop(loops)
		r.mustBe("p", "a", "done")
		r.mustBe("q", "b", "done")
		r.mustBe("q", "c", "done")
		r.mustBe("q", "d", "pending")
		r.mustBeFree()
	})
}

// A fetch in flight when the server stops may return tasks: they are requeued in their order.
func TestDrainWaitsForAFetch(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 4), newGates()
		r.handle = g.handle
		r.addSilently("q", "a", "b", "c")
		r.latency = time.Second
		loops := r.run()
		time.Sleep(time.Second / 2)
		r.pool.StopFetching()
		start := time.Now()
		if err := r.drain(time.Minute); err != nil || time.Since(start) < 2*time.Second {
			t.Errorf("drained after %v, error %v", time.Since(start), err)
		}
		g.mustHaveStarted(t)
		r.stop(loops)
		if got, want := r.queues["q"].pending, []string{"a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("%q are pending, want %q", got, want)
		}
		r.mustBeFree()
	})
}

// So may an unknown fetch.
func TestDrainWaitsForAReclaim(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 4)
		r.addSilently("q", "a")
		r.cutNext(replyLost)
		loops := r.run()
		synctest.Wait()
		r.mustBe("q", "a", "active")
		r.pool.StopFetching()
		if err := r.drain(time.Minute); err != nil {
			t.Error(err)
		}
		r.mustBe("q", "a", "pending")
		r.stop(loops)
		r.mustBeFree()
	})
}

// A lost task has no outcome that a round trip could settle.
func TestDrainOfALostTask(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		loops := r.run()
		g.mustHaveStarted(t, "a")
		r.set(func() { r.queues["q"].tasks["a"].token = "of another" })
		if err := r.extend(); err != nil {
			t.Error(err)
		}
		r.pool.StopFetching()
		time.AfterFunc(time.Second, func() { g.of("a") <- func() error { return nil } })
		start := time.Now()
		if err := r.drain(time.Minute); err != nil || time.Since(start) != time.Second {
			t.Errorf("drained after %v, error %v", time.Since(start), err)
		}
		r.stop(loops)
		r.mustBeFree()
	})
}

func TestAbort(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 4, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"})
		g := newGates()
		var causes []error
		ended := make(chan struct{})
		r.handle = func(ctx context.Context, a *Attempt) error {
			if a.Queue == "p" {
				return g.handle(ctx, a) // ignores its context
			}
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			close(ended)
			return ctx.Err()
		}
		r.addSilently("p", "a", "b")
		r.addSilently("q", "c")
		loops := r.run()
		g.mustHaveStarted(t, "a", "b")
		r.addSilently("p", "d")
		r.pool.StopFetching()
		if err := r.drain(time.Second); err == nil {
			t.Error("no error")
		}
		r.pool.Abort()
		r.pool.Abort()
		if err := r.drain(time.Second); err != nil {
			t.Error(err)
		}
		<-ended
		if len(causes) != 1 || !errors.Is(causes[0], ErrServerClosed) {
			t.Errorf("canceled with %v", causes)
		}
		if want := []string{"a", "b", "d"}; !slices.Equal(r.queues["p"].pending, want) {
			t.Errorf("%q are pending, want %q: requeued to the front, in their order", r.queues["p"].pending, want)
		}
		for _, id := range []string{"a", "b"} {
			if _, msg := r.state("p", id); msg.Retried != 0 {
				t.Errorf("%s: %d attempts used", id, msg.Retried)
			}
		}
		r.mustLog(3, "requeued")

		// the handlers' results change nothing now
		g.end("a")
		g.endWith("b", func() error { panic("too late") })
		r.stop(loops)
		r.mustBe("p", "a", "pending")
		r.mustBe("p", "b", "pending")
		if open := r.pool.Open(); open != 0 {
			t.Errorf("%d attempts are open", open)
		}
	})
}

// Attempts that wait for a goroutine when the server aborts never run.
func TestAbortedBeforeItRan(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = g.handle
		a := &Attempt{Message: &wire.TaskMessage{ID: "a"}, Queue: "q", fetcher: r.fetcher}
		r.fetcher.lane.register(a)
		r.pool.Abort()
		r.fetcher.process(a)
		g.mustHaveStarted(t)
		if got := a.settlement.Outcome.String(); got != "requeued" {
			t.Errorf("outcome %s", got)
		}
	})
}

// A handler may outlive the pool: its goroutine ends when it returns.
func TestHandlerOutlivesThePool(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		r.addSilently("q", "a", "b")
		loops := r.run()
		g.mustHaveStarted(t, "a", "b")
		r.pool.StopFetching()
		r.pool.Abort()
		if err := r.drain(time.Second); err != nil {
			t.Error(err)
		}
		r.stop(loops)
		t.Cleanup(func() { // after the pool is closed
			g.end("a")
			g.endWith("b", func() error { panic("too late") })
		})
	})
}

func TestCloseEndsTheWaiters(t *testing.T) {
	waiters := []*memWaiter{{}, {}}
	pool := NewPool(Config{Concurrency: 1})
	for _, w := range waiters {
		pool.AddLane([]string{"q"}, w)
	}
	pool.Close()
	for i, w := range waiters {
		if !w.closed {
			t.Errorf("waiter %d is not closed", i)
		}
	}
}

func TestLanesShareThePool(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 2, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"}), newGates()
		r.handle = g.handle
		r.addSilently("p", "a", "b", "c")
		loops := r.run()
		g.mustHaveStarted(t, "a", "b")
		r.add("q", "d")
		synctest.Wait()
		g.mustHaveStarted(t)
		g.end("a") // the lane without a slot is next, or after one more task
		g.end("b")
		g.end("c")
		g.mustHaveStarted(t, "c", "d")
		g.end("d")
		r.stop(loops)
		r.mustBeFree()
	})
}

// A lane that cannot reach its Redis does not block others.
func TestBrokenLane(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 2, map[string]int{"broken": 9, "q": 1}, []string{"broken"}, []string{"q"})
		r.set(func() { r.refuse["broken"] = errCut }) // an I/O error of this lane only
		r.addSilently("broken", "x")
		loops := r.run()
		for i := range 20 {
			id := string(rune('a' + i))
			r.add("q", id)
			synctest.Wait()
			r.mustBe("q", id, "done")
			time.Sleep(testInterval)
		}
		r.set(func() { clear(r.refuse) })
		time.Sleep(maxQueuePause + fetchValidity)
		r.mustBe("broken", "x", "done")
		r.stop(loops)
		r.mustBeFree()
	})
}
