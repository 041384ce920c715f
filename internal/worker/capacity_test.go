package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

func TestFreedCapacityIsAnnounced(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		for _, most := range []int{1, 2, rdb.InOrder} {
			r, g := newRig(t, 2, map[string]int{"capped": 2, "q": 1}), newGates()
			r.handle = g.handle
			r.fetcher.lane.queue("capped").maxActive = most
			r.addSilently("capped", "a")
			r.addSilently("q", "b")
			r.drainWork()
			r.addSilently("capped", "c")
			r.set(func() { r.sent = nil })
			g.end("b")
			r.pool.StopFetching() // it does not fetch for another reason
			r.drainWork()
			r.mustHaveSent("succeeded b") // a queue without a limit
			g.end("a")
			r.drainWork()
			r.mustHaveSent("succeeded a")
			if !r.queues["capped"].marker {
				t.Error("no marker for the free capacity")
			}
		}
	})
}

func TestWakeBackoff(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		r.fetcher.lane.queue("q").maxActive = 1
		r.addSilently("q", "a", "b")
		r.set(func() { r.queues["q"].tasks["a"].state, r.queues["q"].pending = "active", []string{"b"} }) // by another server
		r.drainWork()
		r.mustHaveSent("fetch 2 of q")
		r.add("q", "c")
		if _, err := r.fetcher.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		rest := r.drainWork()
		r.mustHaveSent("fetch 2 of q")
		if wanted := r.fetcher.startWaiting(); wanted != nil || rest != wakeBackoff {
			t.Errorf("waits for the markers of %q, delay %v", wanted, rest)
		}
		time.Sleep(wakeBackoff)
		r.drainWork()
		if wanted := r.fetcher.startWaiting(); !slices.Equal(wanted, []string{"q"}) {
			t.Errorf("waits for the markers of %q after the backoff", wanted)
		}
	})
}
