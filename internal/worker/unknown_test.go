package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// cutNext makes the next round trip fail with an I/O error.
func (r *rig) cutNext(f failure) {
	r.failure = func(*rdb.RoundTrip) failure {
		r.failure = nil
		return f
	}
}

func TestSettlementIsRepeated(t *testing.T) {
	for _, f := range []failure{lost, replyLost} {
		for _, err := range []error{nil, errTask} {
			synctestRun(t, func(t *testing.T) {
				r := oneQueue(t, 1)
				r.handle = func(context.Context, *Attempt) error { return err }
				r.addSilently("q", "a")
				_, _ = r.roundTrip()
				r.cutNext(f)
				r.mustFail()
				if r.pool.Open() != 1 {
					t.Error("the attempt is closed, although its settlement is unknown")
				}
				r.set(func() { r.sent = nil })
				r.drainWork()
				if err == nil {
					r.mustBe("q", "a", "done")
				} else if _, msg := r.state("q", "a"); msg.Retried != 1 {
					t.Errorf("failure %v: retried %d times", f, msg.Retried)
				}
				r.mustLog(0, "outcome rejected") // by its first settlement
				r.mustBeFree()
			})
		}
	}
}

// While settlements of a queue are open, nothing is fetched from it: a server that cannot settle
// must not take more tasks.
func TestNoFetchBeforeSettlements(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		r.drainWork()
		g.end("a")
		r.cutNext(lost)
		r.mustFail()
		r.addSilently("q", "b")
		r.markNonEmpty("q")
		r.set(func() { r.sent = nil })
		_, _ = r.roundTrip()
		r.mustHaveSent("succeeded a")
		_, _ = r.roundTrip()
		r.mustHaveSent("fetch 2 of q")
		g.mustHaveStarted(t, "a", "b")
		g.end("b")
		r.drainWork()
		r.mustBeFree()
	})
}

func TestUnknownFetchIsReclaimed(t *testing.T) {
	for _, f := range []failure{lost, replyLost} {
		synctestRun(t, func(t *testing.T) {
			r := oneQueue(t, 2)
			r.drainWork() // from here on, the clock of Redis is known
			r.set(func() { r.sent = nil })
			r.add("q", "a", "b")
			time.Sleep(testInterval)
			r.cutNext(f)
			r.mustFail()
			r.mustHaveSent("fetch 2 of q")
			if free := r.pool.slots.available(); free != 2 {
				t.Errorf("%d slots are free", free)
			}
			_, _ = r.roundTrip()
			r.mustHaveSent("reclaim q") // no fetch before: the tasks must keep their order
			r.drainWork()
			r.mustBe("q", "a", "done")
			r.mustBe("q", "b", "done")
			r.set(func() { r.sent = nil })

			// The fetch can still be executed until its NotAfter: then it is reclaimed once more,
			// for the last time.
			time.Sleep(fetchValidity)
			r.drainWork()
			r.mustHaveSent("reclaim q")
			time.Sleep(testLease)
			r.drainWork()
			r.mustHaveSent()
			if f == replyLost {
				r.mustLog(1, "reclaimed tasks", "queue=q", "tasks=2")
			} else {
				r.mustLog(0, "reclaimed tasks")
			}
			r.mustBeFree()
		})
	}
}

// A delayed fetch is executed after its first reclaim, but before its NotAfter.
func TestDelayedFetchIsReclaimed(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		r.drainWork()
		time.Sleep(testInterval)
		r.addSilently("q", "a")
		var lingering rdb.Fetch
		r.failure = func(turn *rdb.RoundTrip) failure {
			lingering, r.failure = *turn.Fetch[0], nil
			return lost
		}
		r.mustFail()
		if want := time.Now().Add(fetchValidity).UnixMilli(); lingering.NotAfter != want {
			t.Errorf("executed until %d, want %d", lingering.NotAfter, want)
		}
		r.set(func() { r.fetch(r.queues["q"], &lingering) })
		r.set(func() { r.refuse["q"] = refusal("busy") }) // so that the first reclaim fails
		r.drainWork()
		r.mustBe("q", "a", "active")
		r.set(func() { delete(r.refuse, "q") })
		time.Sleep(fetchValidity)
		r.drainWork()
		r.mustBe("q", "a", "done")

		stale := lingering
		time.Sleep(time.Millisecond)
		r.set(func() { r.fetch(r.queues["q"], &stale) })
		if stale.Code != script.CodeStale {
			t.Errorf("executed after its last reclaim: code %v", stale.Code)
		}
		for range 3 {
			time.Sleep(fetchValidity)
			r.drainWork()
		}
		r.mustBeFree()
	})
}

// Before the first reply, the clock of Redis is unknown: the only limit of the first fetch is its
// lease.
func TestFirstFetchIsReclaimed(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		r.addSilently("q", "a")
		r.cutNext(replyLost)
		r.mustFail()
		r.drainWork()
		r.mustBe("q", "a", "done")
		r.set(func() { r.sent = nil })
		time.Sleep(testLease)
		r.drainWork()
		r.mustHaveSent("reclaim q")
	})
}

func TestReclaimIsRepeated(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 1, map[string]int{"p": 1, "q": 1}), newGates()
		r.handle = g.handle
		r.drainWork()
		time.Sleep(testInterval)
		r.addSilently("q", "a")
		r.cutNext(replyLost)
		r.mustFail()
		r.mustBe("q", "a", "active")
		r.set(func() { r.sent, r.refuse["q"] = nil, refusal("READONLY") })
		for pause := minQueuePause; pause < maxQueuePause; pause *= 2 {
			r.drainWork()
			if !slices.Contains(r.sent, "reclaim q") {
				t.Errorf("sent %q before the pause of %v", r.sent, pause)
			}
			r.set(func() { r.sent = nil })
			time.Sleep(pause - 1)
			r.drainWork()
			if slices.Contains(r.sent, "reclaim q") {
				t.Errorf("retried within the pause of %v", pause)
			}
			time.Sleep(time.Nanosecond)
		}
		r.mustLog(1, "queue error, backing off", "READONLY")
		r.mustBe("q", "a", "active")
		r.set(func() { delete(r.refuse, "q") })
		time.Sleep(maxQueuePause)
		r.drainWork()
		g.mustHaveStarted(t, "a")
		g.end("a")
		r.drainWork()
		r.mustBeFree()
	})
}

// A reclaim takes as many round trips as there are pages of leases to scan.
func TestReclaimInPages(t *testing.T) {
	now := time.Now()
	r := oneQueue(t, 1)
	l, trip, sent := &r.fetcher.lane, r.fetcher.lane.trips[0], true
	d := &unknownFetch{reclaim: rdb.Reclaim{Queue: "q", Cursor: "17"}, due: now, final: now.Add(time.Hour)}
	l.unknown = []*unknownFetch{d}
	learn := func(now time.Time) {
		t.Helper()
		trip.clear()
		if sent {
			trip.reclaims = []*unknownFetch{d}
		}
		if e := l.apply(trip, now); e.cut != nil {
			t.Error(e.cut)
		}
	}
	learn(now.Add(time.Second))
	if len(l.unknown) != 1 || !d.due.Equal(now.Add(time.Second)) {
		t.Errorf("%d unknown fetches, due at %v", len(l.unknown), d.due)
	}
	d.reclaim.Cursor = "0"
	learn(now.Add(2 * time.Second))
	if len(l.unknown) != 1 || !d.due.Equal(d.final) {
		t.Errorf("%d unknown fetches, due at %v", len(l.unknown), d.due)
	}
	sent = false // not due
	learn(now.Add(3 * time.Second))
	if len(l.unknown) != 1 {
		t.Error("dropped too early")
	}
	sent, d.started = true, d.final.Add(-1) // started when the fetch could still be executed, and took until after that
	learn(d.final.Add(time.Second))
	if len(l.unknown) != 1 {
		t.Error("dropped after a reclaim that may have missed tasks")
	}
	d.started = d.final
	learn(d.final.Add(2 * time.Second))
	if len(l.unknown) != 0 {
		t.Error("not dropped")
	}
}

// Redis rejects a fetch that is too old, and returns its time: the next fetch uses that.
func TestStaleFetch(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		r.drainWork()
		r.set(func() { r.skew, r.sent = time.Hour, nil }) // another server took over
		r.add("q", "a")
		time.Sleep(testInterval)
		_, _ = r.roundTrip()
		r.mustBe("q", "a", "pending")
		if free := r.pool.slots.available(); free != 2 {
			t.Errorf("%d slots are free", free)
		}
		r.drainWork()
		r.mustHaveSent("fetch 2 of q", "fetch 2 of q", "succeeded a")
		r.mustBe("q", "a", "done")
		r.mustBeFree()
	})
}

// A failed reclaim is a failure of the round trip, even without anything else in it: the loop must
// back off, and the lane is not healthy.
func TestReclaimWhileRedisIsDown(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.addSilently("q", "a")
		r.failure = func(*rdb.RoundTrip) failure { return replyLost }
		r.mustFail()
		r.set(func() { r.sent = nil })
		r.mustFail()
		r.mustHaveSent("reclaim q")
		if r.fetcher.demand.(*laneSlots).healthy {
			t.Error("the lane is healthy")
		}
		loops := r.run()
		time.Sleep(time.Minute)
		r.set(func() {
			if len(r.sent) > 125 { // at most every half second after the first ones: see the back-off of package runner
				t.Errorf("%d requests in a minute", len(r.sent))
			}
		})
		r.mustLog(0, "recovered")
		r.set(func() { r.failure = nil })
		time.Sleep(maxQueuePause)
		r.mustBe("q", "a", "done")
		r.stop(loops)
		r.mustBeFree()
	})
}
