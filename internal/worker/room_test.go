package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

func TestRoomIsToldOf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, most := range []int{1, 2, rdb.InOrder} {
			r, g := newRig(t, 2, map[string]int{"capped": 2, "q": 1}), newGates()
			r.handle = g.handle
			r.pump.queue("capped").maxActive = most
			r.addSilently("capped", "a")
			r.addSilently("q", "b")
			r.settled()
			r.addSilently("capped", "c")
			r.set(func() { r.asked = nil })
			g.end("b")
			r.pool.StopFetching() // whatever keeps it from the fetch
			r.settled()
			r.mustHaveAsked("done b") // of its queue any number may be active
			g.end("a")
			r.settled()
			r.mustHaveAsked("done a", "pass capped")
			if !r.queues["capped"].marker {
				t.Error("nobody else hears that there is room")
			}
		}
	})
}

func TestAMarkerThatTellsNothingIsLeftAloneForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		r.pump.queue("q").maxActive = 1
		r.addSilently("q", "a", "b")
		r.set(func() { r.queues["q"].tasks["a"].state, r.queues["q"].pending = "active", []string{"b"} }) // elsewhere
		r.settled()
		r.mustHaveAsked("fetch 2 of q")
		r.add("q", "c")
		if _, err := r.pump.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		rest := r.settled()
		r.mustHaveAsked("fetch 2 of q")
		if wanted := r.pump.wanted(); wanted != nil || rest != quiet {
			t.Errorf("waits for the markers of %q, rests for %v", wanted, rest)
		}
		time.Sleep(quiet)
		r.settled()
		if wanted := r.pump.wanted(); !slices.Equal(wanted, []string{"q"}) {
			t.Errorf("waits for the markers of %q then", wanted)
		}
	})
}
