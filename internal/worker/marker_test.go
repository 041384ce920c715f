package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

func TestLook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2, map[string]int{"p": 1, "q": 1})
		if rest := r.settled(); rest != testInterval {
			t.Errorf("rests for %v", rest)
		}
		r.set(func() { r.looks, r.asked = nil, nil })
		r.addSilently("q", "a")
		time.Sleep(testInterval - 1)
		r.settled()
		if len(r.looks) != 0 {
			t.Errorf("looked at %q before it was time", r.looks)
		}
		time.Sleep(time.Nanosecond)
		_, _ = r.turn()
		r.mustHaveAsked("fetch 2 of q") // only where there is something
		if want := []string{"p", "q"}; !slices.Equal(r.looks, want) {
			t.Errorf("looked at %q, want %q", r.looks, want)
		}
		r.settled()
		r.mustBe("q", "a", "done")
	})
}

func TestLookIsNotMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		r.settled()
		time.Sleep(testInterval)
		r.settled()
		if len(r.looks) != 0 {
			t.Error("looked without a free slot")
		}
		g.end("a")
		r.settled()
		r.pool.StopFetching()
		time.Sleep(testInterval)
		if rest := r.settled(); rest != untilWoken || len(r.looks) != 0 {
			t.Errorf("after StopFetching: looked at %q, rests for %v", r.looks, rest)
		}
	})
}

func TestLookFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.settled()
		time.Sleep(testInterval)
		r.set(func() { r.failing = refusal("NOPERM") })
		r.settled()
		r.mustLog(1, "refused to tell", "NOPERM")
		r.set(func() { r.failing = errCut })
		time.Sleep(testInterval)
		r.mustFail()
		if r.pump.demand.healthy {
			t.Error("the lane counts as healthy")
		}
		r.set(func() { r.failing = nil })
		r.addSilently("q", "a")
		time.Sleep(testInterval)
		r.settled()
		r.mustBe("q", "a", "done")
		if !r.pump.demand.healthy {
			t.Error("the lane does not count as healthy")
		}
	})
}

func TestMarkerWakes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2, map[string]int{"p": 1, "q": 1})
		loops := r.run()
		time.Sleep(testInterval / 2)
		r.set(func() { r.looks = nil })
		r.add("q", "a")
		synctest.Wait() // no time passes
		r.mustBe("q", "a", "done")
		r.add("p", "b")
		synctest.Wait()
		r.mustBe("p", "b", "done")
		if len(r.looks) != 0 {
			t.Errorf("looked at %q", r.looks)
		}
		r.stop(loops)
		if waits := r.waiters[0].waits; waits[len(waits)-1] != "p q" {
			t.Errorf("waited for %q", waits)
		}
		r.mustBeFree()
	})
}

// A wait that began when fewer queues were dry is begun anew.
func TestWaitIsRoused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 2, map[string]int{"p": 1, "q": 1}), newGates()
		r.handle = g.handle
		r.addSilently("q", "a", "b", "c")
		loops := r.run()
		g.mustHaveBegun(t, "a", "b")
		g.end("a")
		g.mustHaveBegun(t, "c")
		g.end("b")
		if want, waits := "p q", r.waiters[0].waits; !slices.Contains(waits, want) {
			t.Errorf("waited for %q, want %q among it", waits, want)
		}
		g.end("c")
		r.add("p", "d")
		g.mustHaveBegun(t, "d")
		g.end("d")
		r.stop(loops)
		r.mustBeFree()
	})
}

func TestRousing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2, map[string]int{"p": 1, "q": 1})
		w, ctx := r.waiters[0], context.Background()
		woken := func() bool {
			select {
			case <-r.pump.WaitWake():
				return true
			default:
				return false
			}
		}
		r.pump.rouseWaiter(ctx)
		if woken() || w.rouses != 0 {
			t.Error("no queue is dry, and the waiter was told")
		}
		r.pump.queue("p").dry = true
		r.pump.rouseWaiter(ctx)
		if !woken() || w.rouses != 0 {
			t.Error("the waiter does not wait: it is woken, not roused")
		}
		r.pump.wanted()
		r.pump.rouseWaiter(ctx)
		if woken() || w.rouses != 0 {
			t.Error("it waits for the right queue, and was told")
		}
		r.pump.queue("q").dry = true
		r.pump.rouseWaiter(ctx)
		if woken() || w.rouses != 1 {
			t.Error("it waits for too few queues, and was not roused")
		}
		r.pump.rouseWaiter(ctx)
		if woken() || w.rouses != 1 {
			t.Error("it was roused again before it could react")
		}
		if rest, err := r.pump.Wait(ctx); rest != 0 || err != nil {
			t.Errorf("the roused wait: rest of %v, error %v", rest, err)
		}
		if r.pump.waiting != nil {
			t.Error("it still counts as waiting")
		}
		r.pump.waiting = []string{"p"}
		r.set(func() { r.failing = errCut })
		r.pump.rouseWaiter(ctx)
		r.mustLog(1, "could not be changed")
	})
}

func TestWaitTimesOutAndEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		ctx, cancel := context.WithCancel(context.Background())
		if rest, err := r.pump.Wait(ctx); rest != untilWoken || err != nil || len(r.waiters[0].waits) != 0 {
			t.Errorf("nothing is dry: rest of %v, error %v", rest, err)
		}
		r.settled()
		begun := time.Now()
		if rest, err := r.pump.Wait(ctx); rest != 0 || err != nil || time.Since(begun) != waitTimeout {
			t.Errorf("rest of %v, error %v after %v", rest, err, time.Since(begun))
		}
		time.AfterFunc(time.Second, cancel)
		if _, err := r.pump.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		r.pool.StopFetching()
		if rest, _ := r.pump.Wait(context.Background()); rest != untilWoken {
			t.Errorf("waits after StopFetching; rest of %v", rest)
		}
	})
}

// A server that is full when it pops a marker leaves it to another.
func TestMarkerIsPassedOn(t *testing.T) {
	for _, broken := range []error{nil, errCut} {
		bubble(t, func(t *testing.T) {
			r, g := newRig(t, 1, map[string]int{"p": 1, "q": 1}), newGates()
			r.handle = g.handle
			r.settled()
			ended := make(chan error)
			go func() {
				_, err := r.pump.Wait(context.Background())
				ended <- err
			}()
			synctest.Wait()
			r.addSilently("p", "a")
			time.Sleep(testInterval)
			r.settled()
			g.mustHaveBegun(t, "a")
			r.set(func() { r.passing = broken })
			r.add("q", "b")
			if err := <-ended; !errors.Is(err, broken) {
				t.Errorf("the wait returned %v, want %v", err, broken)
			}
			if want := []string{"q"}; !slices.Equal(r.passed, want) || !r.queues["q"].marker {
				t.Errorf("passed on %q, marker %v", r.passed, r.queues["q"].marker)
			}
			g.end("a", "b")
			r.settled()
			r.mustBeFree()
		})
	}
}

// So does one that takes no tasks any more.
func TestMarkerIsPassedOnAfterTheStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.settled()
		time.AfterFunc(time.Second, func() {
			r.pool.StopFetching()
			r.add("q", "a")
		})
		if _, err := r.pump.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		r.settled()
		if want := []string{"q"}; !slices.Equal(r.passed, want) || !r.queues["q"].marker {
			t.Errorf("passed on %q, marker %v", r.passed, r.queues["q"].marker)
		}
		r.mustBe("q", "a", "pending")
	})
}

func TestPassMarkers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"})
		if err := r.pool.PassMarkers(context.Background()); err != nil {
			t.Error(err)
		}
		if want := []string{"p", "q"}; !slices.Equal(r.passed, want) {
			t.Errorf("passed on %q, want %q", r.passed, want)
		}
		r.set(func() { r.failing = errCut })
		if err := r.pool.PassMarkers(context.Background()); !errors.Is(err, errCut) {
			t.Errorf("got %v", err)
		}
	})
}

// A lane whose queues are dry waits for markers again as soon as another lane leaves it a slot.
func TestWaitGoesOnWhenASlotIsFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 1, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"}), newGates()
		r.handle = g.handle
		r.cfg.CheckInterval = time.Hour
		loops := r.run()
		time.Sleep(time.Second)
		r.add("p", "a")
		g.mustHaveBegun(t, "a")
		time.Sleep(2 * waitTimeout) // the wait of the other lane ends, and it has no reason to begin another
		waits := len(r.waiters[1].waits)
		r.add("q", "b")
		time.Sleep(2 * waitTimeout)
		if more := len(r.waiters[1].waits) - waits; more != 0 {
			t.Errorf("waited %d times without a slot", more)
		}
		g.end("a")
		g.mustHaveBegun(t, "b")
		g.end("b")
		r.stop(loops)
		r.mustBeFree()
	})
}

// A marker that is popped while a fetch is on its way may tell of a task that this fetch does not see.
func TestMarkerDuringAFetch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.cfg.CheckInterval = time.Hour
		r.settled()
		waited := make(chan error, 1)
		go func() {
			_, err := r.pump.Wait(context.Background())
			waited <- err
		}()
		synctest.Wait()
		r.tell("q")
		r.latency = time.Second
		r.set(func() { r.asked = nil })
		time.AfterFunc(time.Second*3/2, func() { r.add("q", "a") }) // the fetch was executed, and its answer is on its way
		r.settled()
		if err := <-waited; err != nil {
			t.Error(err)
		}
		r.mustHaveAsked("fetch 1 of q", "fetch 1 of q", "done a")
		r.mustBe("q", "a", "done")
	})
}

// As long as fetches leave tasks behind, the marker that the first one left is there, or another server has taken it and leaves it in
// its turn. So only the first one asks for it, and one that this server's own waiter was told to make.
func TestMarkerIsLeftOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		fetches := func(told bool, want ...bool) {
			t.Helper()
			var marks []bool
			r.set(func() {
				r.fate = func(turn *rdb.Turn) fate {
					for _, f := range turn.Fetch {
						marks = append(marks, f.Mark)
					}
					return answered
				}
			})
			if told {
				r.pump.mu.Lock()
				r.pump.queue("q").told = true
				r.pump.mu.Unlock()
			}
			for range want {
				_, _ = r.turn()
				synctest.Wait()
			}
			if !slices.Equal(marks, want) {
				t.Errorf("the fetches asked for the marker: %v, want %v", marks, want)
			}
		}
		r.add("q", "a", "b", "c", "d", "e")
		fetches(false, true, false, false)
		fetches(true, true, false) // of d and e
		r.settled()
		r.add("q", "f", "g", "h")
		r.tell("q")
		fetches(false, true, false)
	})
}
