package worker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// batchOf100 is with how many outcomes a second trip leaves where there are 100 slots.
const batchOf100 = 50

// onTheWay makes a rig with 100 slots and as many tasks whose handlers run, of which the first has ended, and lets a trip leave with it
// that takes a second there and a second back. The returned function waits until it is back.
func onTheWay(t *testing.T) (r *rig, g *gates, wait func()) {
	r, g = oneQueue(t, 100), newGates()
	r.handle = g.handle
	for i := range 100 {
		r.addSilently("q", fmt.Sprint("t", i))
	}
	_, _ = r.turn()
	r.latency = time.Second
	g.end("t0")
	synctest.Wait()
	r.set(func() { r.asked, r.turns = nil, 0 })
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = r.pump.trips[0].Turn(context.Background())
	}()
	synctest.Wait()
	return r, g, func() { <-back }
}

// second lets the other trip try its luck, and returns how long it would rest.
func (r *rig) second() time.Duration {
	r.t.Helper()
	rest, err := r.pump.trips[1].Turn(context.Background())
	if err != nil {
		r.t.Error(err)
	}
	return rest
}

func TestSecondTripWaitsForABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g, wait := onTheWay(t)
		for i := 1; i < batchOf100; i++ {
			g.end(fmt.Sprint("t", i))
		}
		synctest.Wait()
		if rest := r.second(); rest != untilWoken {
			t.Errorf("with too few outcomes it rests for %v", rest)
		}
		g.end(fmt.Sprint("t", batchOf100))
		synctest.Wait()
		select {
		case <-r.pump.trips[1].Wake():
		default:
			t.Error("nothing wakes the second trip")
		}
		begun := time.Now()
		if rest := r.second(); rest != 0 || time.Since(begun) != 2*time.Second {
			t.Errorf("with %d outcomes it takes %v, and rests for %v", batchOf100, time.Since(begun), rest)
		}
		r.set(func() {
			if r.turns != 2 || !slices.Contains(r.asked, fmt.Sprint("done t", batchOf100)) {
				t.Errorf("%d turns, which asked for %q", r.turns, r.asked)
			}
		})
		wait()
		r.latency = 0
		for i := batchOf100 + 1; i < 100; i++ {
			g.end(fmt.Sprint("t", i))
		}
		r.second() // its loop's next turn
		r.settled()
		r.mustBeFree()
	})
}

// What is too little for a second trip, the first one takes along when it is back.
func TestRestOfASecondTrip(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g, wait := onTheWay(t)
		g.end("t1")
		wait()
		r.latency = 0
		r.settled()
		r.mustBe("q", "t1", "done")
		for i := 2; i < 100; i++ {
			g.end(fmt.Sprint("t", i))
		}
		r.settled()
		r.mustBeFree()
	})
}

// After a failure only the trip that failed tries again, when its loop has backed off.
func TestSecondTripAfterAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 100)
		r.addSilently("q", "a")
		r.fate = func(*rdb.Turn) fate { return lost }
		r.mustFail()
		r.set(func() { r.turns = 0 })
		if rest := r.second(); rest != untilWoken || r.turns != 0 {
			t.Errorf("the other trip rests for %v after %d turns", rest, r.turns)
		}
		r.fate = nil
		time.Sleep(2 * fetchPatience)
		r.settled()
		r.mustBe("q", "a", "done")
		r.addSilently("q", "b")
		time.Sleep(testInterval)
		for r.second() == 0 {
			synctest.Wait()
		}
		r.mustBe("q", "b", "done")
		r.mustBeFree()
	})
}
