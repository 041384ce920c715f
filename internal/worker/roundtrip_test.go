package worker

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// batchOf100 is the number of outcomes for a second round trip with 100 slots.
const batchOf100 = 50

// onTheWay makes a rig with 100 slots and 100 running tasks. The first one has finished, and a
// round trip for it is in flight, which takes a second each way. The returned function waits for
// that.
func onTheWay(t *testing.T) (r *rig, g *gates, wait func()) {
	r, g = oneQueue(t, 100), newGates()
	r.handle = g.handle
	for i := range 100 {
		r.addSilently("q", fmt.Sprint("t", i))
	}
	_, _ = r.roundTrip()
	r.latency = time.Second
	g.end("t0")
	synctest.Wait()
	r.set(func() { r.sent, r.trips = nil, 0 })
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = r.fetcher.lane.trips[0].Tick(context.Background())
	}()
	synctest.Wait()
	return r, g, func() { <-back }
}

// secondTrip runs the other round trip, and returns its delay.
func (r *rig) secondTrip() time.Duration {
	r.t.Helper()
	rest, err := r.fetcher.lane.trips[1].Tick(context.Background())
	if err != nil {
		r.t.Error(err)
	}
	return rest
}

func TestSecondRoundTripWaitsForABatch(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g, wait := onTheWay(t)
		for i := 1; i < batchOf100; i++ {
			g.end(fmt.Sprint("t", i))
		}
		synctest.Wait()
		if rest := r.secondTrip(); rest != untilWoken {
			t.Errorf("with too few outcomes, the delay is %v", rest)
		}
		g.end(fmt.Sprint("t", batchOf100))
		synctest.Wait()
		select {
		case <-r.fetcher.lane.trips[1].Wake():
		default:
			t.Error("the second round trip was not woken")
		}
		start := time.Now()
		if rest := r.secondTrip(); rest != 0 || time.Since(start) != 2*time.Second {
			t.Errorf("with %d outcomes, it takes %v and returns the delay %v", batchOf100, time.Since(start), rest)
		}
		r.set(func() {
			if r.trips != 2 || !slices.Contains(r.sent, fmt.Sprint("succeeded t", batchOf100)) {
				t.Errorf("%d round trips, which sent %q", r.trips, r.sent)
			}
		})
		wait()
		r.latency = 0
		for i := batchOf100 + 1; i < 100; i++ {
			g.end(fmt.Sprint("t", i))
		}
		r.secondTrip() // the next tick of its loop
		r.drainWork()
		r.mustBeFree()
	})
}

// Outcomes that are too few for a second round trip are settled by the first one when it returns.
func TestTooFewForASecondRoundTrip(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g, wait := onTheWay(t)
		g.end("t1")
		wait()
		r.latency = 0
		r.drainWork()
		r.mustBe("q", "t1", "done")
		for i := 2; i < 100; i++ {
			g.end(fmt.Sprint("t", i))
		}
		r.drainWork()
		r.mustBeFree()
	})
}

// After a failure only the round trip that failed retries, after the back-off of its loop.
func TestSecondRoundTripAfterAFailure(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 100)
		r.addSilently("q", "a")
		r.failure = func(*rdb.RoundTrip) failure { return lost }
		r.mustFail()
		r.set(func() { r.trips = 0 })
		if rest := r.secondTrip(); rest != untilWoken || r.trips != 0 {
			t.Errorf("the delay of the other round trip is %v after %d round trips", rest, r.trips)
		}
		r.failure = nil
		time.Sleep(2 * fetchValidity)
		r.drainWork()
		r.mustBe("q", "a", "done")
		r.addSilently("q", "b")
		time.Sleep(testInterval)
		for r.secondTrip() == 0 {
			synctest.Wait()
		}
		r.mustBe("q", "b", "done")
		r.mustBeFree()
	})
}

// With few slots, a round trip waits until the fetched attempts have started, but not for long.
func TestRoundTripWaitsForStarts(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for starts := range 4 {
		synctestRun(t, func(t *testing.T) {
			f := oneQueue(t, fewSlots).fetcher
			f.starting.Store(3)
			go func() {
				for range starts {
					f.starting.Add(-1)
					runtime.Gosched()
				}
			}()
			f.awaitStarting()
			if n, want := f.starting.Load(), int64(3-starts); n != want {
				t.Errorf("%d of 3 attempts start: %d have not, want %d", starts, n, want)
			}
		})
	}
}
