package worker

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

func TestPollEmpty(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 2, map[string]int{"p": 1, "q": 1})
		if rest := r.drainWork(); rest != testInterval {
			t.Errorf("delay %v", rest)
		}
		r.set(func() { r.polls, r.sent = nil, nil })
		r.addSilently("q", "a")
		time.Sleep(testInterval - 1)
		r.drainWork()
		if len(r.polls) != 0 {
			t.Errorf("polled %q before it was due", r.polls)
		}
		time.Sleep(time.Nanosecond)
		_, _ = r.roundTrip()
		r.mustHaveSent("fetch 2 of q") // only the queue with a task
		if want := []string{"p", "q"}; !slices.Equal(r.polls, want) {
			t.Errorf("polled %q, want %q", r.polls, want)
		}
		r.drainWork()
		r.mustBe("q", "a", "done")
	})
}

func TestPollEmptyIsSkipped(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		r.drainWork()
		time.Sleep(testInterval)
		r.drainWork()
		if len(r.polls) != 0 {
			t.Error("polled without a free slot")
		}
		g.end("a")
		r.drainWork()
		r.pool.StopFetching()
		time.Sleep(testInterval)
		if rest := r.drainWork(); rest != untilWoken || len(r.polls) != 0 {
			t.Errorf("after StopFetching: polled %q, delay %v", r.polls, rest)
		}
	})
}

func TestPollEmptyFails(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.drainWork()
		time.Sleep(testInterval)
		r.set(func() { r.failing = refusal("NOPERM") })
		r.drainWork()
		r.mustLog(1, "rejected the check", "NOPERM")
		r.set(func() { r.failing = errCut })
		time.Sleep(testInterval)
		r.mustFail()
		if r.fetcher.demand.(*laneSlots).healthy {
			t.Error("the lane is healthy")
		}
		r.set(func() { r.failing = nil })
		r.addSilently("q", "a")
		time.Sleep(testInterval)
		r.drainWork()
		r.mustBe("q", "a", "done")
		if !r.fetcher.demand.(*laneSlots).healthy {
			t.Error("the lane is not healthy")
		}
	})
}

func TestMarkerWakes(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 2, map[string]int{"p": 1, "q": 1})
		loops := r.run()
		time.Sleep(testInterval / 2)
		r.set(func() { r.polls = nil })
		r.add("q", "a")
		synctest.Wait() // no time passes
		r.mustBe("q", "a", "done")
		r.add("p", "b")
		time.Sleep(2 * maxHold)
		r.mustBe("p", "b", "done")
		if len(r.polls) != 0 {
			t.Errorf("polled %q", r.polls)
		}
		r.stop(loops)
		if waits := r.waiters[0].waits; waits[len(waits)-1] != "p q" {
			t.Errorf("waited for %q", waits)
		}
		r.mustBeFree()
	})
}

// A wait for too few queues is restarted.
func TestWaitIsUpdated(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 2, map[string]int{"p": 1, "q": 1}), newGates()
		r.handle = g.handle
		r.addSilently("q", "a", "b", "c")
		loops := r.run()
		g.mustHaveStarted(t, "a", "b")
		g.end("a")
		g.mustHaveStarted(t, "c")
		g.end("b")
		if want, waits := "p q", r.waiters[0].waits; !slices.Contains(waits, want) {
			t.Errorf("waited for %q, want %q among it", waits, want)
		}
		g.end("c")
		r.add("p", "d")
		g.mustHaveStarted(t, "d")
		g.end("d")
		r.stop(loops)
		r.mustBeFree()
	})
}

func TestUpdateWaiter(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 2, map[string]int{"p": 1, "q": 1})
		w, ctx := r.waiters[0], context.Background()
		woken := func() bool {
			select {
			case <-r.fetcher.WaitWake():
				return true
			default:
				return false
			}
		}
		r.fetcher.updateWaiter(ctx)
		if woken() || w.unblocks != 0 {
			t.Error("the waiter was unblocked although no queue is empty")
		}
		r.fetcher.lane.queue("p").phase = empty
		r.fetcher.updateWaiter(ctx)
		if !woken() || w.unblocks != 0 {
			t.Error("the waiter was unblocked although it is not waiting")
		}
		r.fetcher.startWaiting()
		r.fetcher.updateWaiter(ctx)
		if woken() || w.unblocks != 0 {
			t.Error("the waiter was unblocked although its queues are right")
		}
		r.fetcher.lane.queue("q").phase = empty
		r.fetcher.updateWaiter(ctx)
		if woken() || w.unblocks != 1 {
			t.Error("the waiter was not unblocked although queues are missing")
		}
		r.fetcher.updateWaiter(ctx)
		if woken() || w.unblocks != 1 {
			t.Error("the waiter was unblocked twice")
		}
		if rest, err := r.fetcher.Wait(ctx); rest != 0 || err != nil {
			t.Errorf("the unblocked wait: delay %v, error %v", rest, err)
		}
		if r.fetcher.waitingFor != nil {
			t.Error("the wait is still recorded")
		}
		r.fetcher.waitingFor = []string{"p"}
		r.set(func() { r.failing = errCut })
		r.fetcher.updateWaiter(ctx)
		r.mustLog(1, "not updated")
	})
}

func TestWaitTimesOutAndEnds(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		ctx, cancel := context.WithCancel(context.Background())
		if rest, err := r.fetcher.Wait(ctx); rest != untilWoken || err != nil || len(r.waiters[0].waits) != 0 {
			t.Errorf("no queue is empty: delay %v, error %v", rest, err)
		}
		r.drainWork()
		start := time.Now()
		if rest, err := r.fetcher.Wait(ctx); rest != 0 || err != nil || time.Since(start) != waitTimeout {
			t.Errorf("delay %v, error %v after %v", rest, err, time.Since(start))
		}
		time.AfterFunc(time.Second, cancel)
		if _, err := r.fetcher.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("returned %v", err)
		}
		r.pool.StopFetching()
		if rest, _ := r.fetcher.Wait(context.Background()); rest != untilWoken {
			t.Errorf("waits after StopFetching; delay %v", rest)
		}
	})
}

// A server without a free slot passes on a marker that it popped.
func TestMarkerIsPassedOn(t *testing.T) {
	for _, broken := range []error{nil, errCut} {
		synctestRun(t, func(t *testing.T) {
			r, g := newRig(t, 1, map[string]int{"p": 1, "q": 1}), newGates()
			r.handle = g.handle
			r.drainWork()
			ended := make(chan error)
			go func() {
				_, err := r.fetcher.Wait(context.Background())
				ended <- err
			}()
			synctest.Wait()
			r.addSilently("p", "a")
			time.Sleep(testInterval)
			r.drainWork()
			g.mustHaveStarted(t, "a")
			r.set(func() { r.passing = broken })
			r.add("q", "b")
			if err := <-ended; err != nil {
				t.Errorf("the wait returned %v", err)
			}
			r.drainWork()
			if broken != nil {
				r.mustLog(1, "marker not passed on", "queue=q")
			}
			if want := []string{"q"}; !slices.Equal(r.passed, want) || !r.queues["q"].marker {
				t.Errorf("passed on %q, marker %v", r.passed, r.queues["q"].marker)
			}
			g.end("a", "b")
			r.drainWork()
			r.mustBeFree()
		})
	}
}

// So does a server that no longer fetches.
func TestMarkerIsPassedOnAfterTheStop(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.drainWork()
		time.AfterFunc(time.Second, func() {
			r.pool.StopFetching()
			r.add("q", "a")
		})
		if _, err := r.fetcher.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		r.drainWork()
		if want := []string{"q"}; !slices.Equal(r.passed, want) || !r.queues["q"].marker {
			t.Errorf("passed on %q, marker %v", r.passed, r.queues["q"].marker)
		}
		r.mustBe("q", "a", "pending")
	})
}

func TestPassMarkers(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 1, map[string]int{"p": 1, "q": 1, "empty": 1}, []string{"p", "empty"}, []string{"q"})
		r.add("p", "a")
		r.add("q", "b")
		if err := r.pool.PassMarkers(context.Background()); err != nil {
			t.Error(err)
		}
		if want := []string{"p", "q"}; !slices.Equal(r.passed, want) {
			t.Errorf("passed on %q, want %q", r.passed, want)
		}
		r.set(func() { r.failing = errCut })
		if err := r.pool.PassMarkers(context.Background()); !errors.Is(err, errCut) {
			t.Errorf("returned %v", err)
		}
	})
}

// A lane with empty queues waits for markers again as soon as another lane leaves it a slot.
func TestWaitContinuesWhenASlotIsFree(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 1, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"}), newGates()
		r.handle = g.handle
		r.cfg.CheckInterval = time.Hour
		loops := r.run()
		time.Sleep(time.Second)
		r.add("p", "a")
		g.mustHaveStarted(t, "a")
		time.Sleep(2 * waitTimeout) // ends the wait of the other lane, which has no reason for another one
		waits := len(r.waiters[1].waits)
		r.add("q", "b")
		time.Sleep(2 * waitTimeout)
		if more := len(r.waiters[1].waits) - waits; more != 0 {
			t.Errorf("waited %d times without a slot", more)
		}
		g.end("a")
		g.mustHaveStarted(t, "b")
		g.end("b")
		r.stop(loops)
		r.mustBeFree()
	})
}

// A marker that is popped during a fetch may announce a task that the fetch does not see.
func TestMarkerDuringAFetch(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.cfg.CheckInterval = time.Hour
		r.drainWork()
		waited := make(chan error, 1)
		go func() {
			_, err := r.fetcher.Wait(context.Background())
			waited <- err
		}()
		synctest.Wait()
		r.markNonEmpty("q")
		r.latency = time.Second
		r.set(func() { r.sent = nil })
		time.AfterFunc(time.Second*3/2, func() { r.add("q", "a") }) // the fetch is executed, the reply in flight
		r.drainWork()
		if err := <-waited; err != nil {
			t.Error(err)
		}
		r.mustHaveSent("fetch 1 of q", "fetch 1 of q", "succeeded a")
		r.mustBe("q", "a", "done")
	})
}

// While fetches leave tasks behind, the marker that the first one left exists, or another server
// has popped it and leaves a new one. So only the first fetch requests it, and a fetch after a
// wake.
func TestMarkerIsLeftOnce(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		fetches := func(calls bool, want ...bool) {
			t.Helper()
			var marks []bool
			r.set(func() {
				r.failure = func(turn *rdb.RoundTrip) failure {
					for _, fetch := range turn.Fetch {
						marks = append(marks, fetch.Mark)
					}
					return noFailure
				}
			})
			if calls {
				r.fetcher.mu.Lock()
				r.fetcher.lane.queue("q").wakePending = true
				r.fetcher.mu.Unlock()
			}
			for range want {
				_, _ = r.roundTrip()
				synctest.Wait()
			}
			if !slices.Equal(marks, want) {
				t.Errorf("fetches with a marker: %v, want %v", marks, want)
			}
		}
		r.add("q", "a", "b", "c", "d", "e")
		fetches(false, true, false, false)
		fetches(true, true, false) // of d and e
		r.drainWork()
		r.add("q", "f", "g", "h")
		r.markNonEmpty("q")
		fetches(false, true, false)
	})
}

// If tasks trickle in one by one, the round trip that fetches one settles the one before. A task
// that nothing follows is settled soon, and one that is not part of a trickle at once.
func TestTrickle(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 10)
		r.cfg.CheckInterval = time.Hour // a poll that finds a task before its marker is popped costs a round trip
		loops := r.run()
		time.Sleep(time.Second)
		step := func(id string, pause time.Duration, trips int, state string) {
			t.Helper()
			r.set(func() { r.trips = 0 })
			r.add("q", id)
			time.Sleep(pause)
			synctest.Wait()
			r.mustBe("q", id, state)
			r.set(func() {
				if r.trips != trips {
					t.Errorf("%d round trips for %s, want %d", r.trips, id, trips)
				}
			})
		}
		step("a", time.Second, 2, "done")
		step("b", time.Millisecond, 2, "done")
		for i := range 100 {
			step(strconv.Itoa(i), time.Millisecond, 1, "active")
		}
		step("c", maxHold+time.Millisecond, 2, "done")
		r.mustBe("q", "99", "done")
		step("d", time.Second, 2, "done")
		step("e", time.Millisecond, 2, "done")
		step("f", time.Millisecond, 1, "active")
		r.pool.StopFetching()
		synctest.Wait()
		r.mustBe("q", "f", "done")
		r.stop(loops)
		r.mustBeFree()
	})
}
