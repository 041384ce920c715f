package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// cutNext lets the next turn end with an I/O error.
func (r *rig) cutNext(f fate) {
	r.fate = func(*rdb.Turn) fate {
		r.fate = nil
		return f
	}
}

func TestSettlementIsRepeated(t *testing.T) {
	for _, f := range []fate{lost, unanswered} {
		for _, err := range []error{nil, errTask} {
			bubble(t, func(t *testing.T) {
				r := oneQueue(t, 1)
				r.handle = func(context.Context, *Attempt) error { return err }
				r.addSilently("q", "a")
				_, _ = r.turn()
				r.cutNext(f)
				r.mustFail()
				if r.pool.Open() != 1 {
					t.Error("the attempt is closed, and nobody knows whether it is settled")
				}
				r.set(func() { r.asked = nil })
				r.settled()
				if err == nil {
					r.mustBe("q", "a", "done")
				} else if _, msg := r.state("q", "a"); msg.Retried != 1 {
					t.Errorf("fate %v: retried %d times", f, msg.Retried)
				}
				r.mustLog(0, "was refused") // by the own settlement before
				r.mustBeFree()
			})
		}
	}
}

// While outcomes of a queue are open, nothing is fetched from it: who cannot settle must not take more.
func TestNothingIsFetchedBeforeOutcomesAreThrough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		r.settled()
		g.end("a")
		r.cutNext(lost)
		r.mustFail()
		r.addSilently("q", "b")
		r.tell("q")
		r.set(func() { r.asked = nil })
		_, _ = r.turn()
		r.mustHaveAsked("done a")
		_, _ = r.turn()
		r.mustHaveAsked("fetch 2 of q")
		g.mustHaveBegun(t, "a", "b")
		g.end("b")
		r.settled()
		r.mustBeFree()
	})
}

func TestFetchIsUndone(t *testing.T) {
	for _, f := range []fate{lost, unanswered} {
		bubble(t, func(t *testing.T) {
			r := oneQueue(t, 2)
			r.settled() // now the clock of Redis is known
			r.set(func() { r.asked = nil })
			r.add("q", "a", "b")
			time.Sleep(testInterval)
			r.cutNext(f)
			r.mustFail()
			r.mustHaveAsked("fetch 2 of q")
			if free := r.pool.slots.available(); free != 2 {
				t.Errorf("%d slots are free", free)
			}
			_, _ = r.turn()
			r.mustHaveAsked("undo q") // nothing is fetched before: the tasks are to keep their order
			r.settled()
			r.mustBe("q", "a", "done")
			r.mustBe("q", "b", "done")
			r.set(func() { r.asked = nil })

			// It may still be on its way until it is too old: then it is undone once more, and that is all.
			time.Sleep(fetchPatience)
			r.settled()
			r.mustHaveAsked("undo q")
			time.Sleep(testLease)
			r.settled()
			r.mustHaveAsked()
			if f == unanswered {
				r.mustLog(1, "gave back tasks", "queue=q", "tasks=2")
			} else {
				r.mustLog(0, "gave back tasks")
			}
			r.mustBeFree()
		})
	}
}

// A fetch that lingered in a buffer is executed after its first undo, but within its time.
func TestFetchThatLingersIsUndone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		r.settled()
		time.Sleep(testInterval)
		r.addSilently("q", "a")
		var lingering rdb.Fetch
		r.fate = func(turn *rdb.Turn) fate {
			lingering, r.fate = *turn.Fetch[0], nil
			return lost
		}
		r.mustFail()
		if want := time.Now().Add(fetchPatience).UnixMilli(); lingering.NotAfter != want {
			t.Errorf("executed until %d, want %d", lingering.NotAfter, want)
		}
		r.set(func() { r.fetch(r.queues["q"], &lingering) })
		r.set(func() { r.refuse["q"] = refusal("busy") }) // so that the first undo fails
		r.settled()
		r.mustBe("q", "a", "active")
		r.set(func() { delete(r.refuse, "q") })
		time.Sleep(fetchPatience)
		r.settled()
		r.mustBe("q", "a", "done")

		stale := lingering
		time.Sleep(time.Millisecond)
		r.set(func() { r.fetch(r.queues["q"], &stale) })
		if stale.Code != rdb.CodeStale {
			t.Errorf("executed after its last undo: code %v", stale.Code)
		}
		for range 3 {
			time.Sleep(fetchPatience)
			r.settled()
		}
		r.mustBeFree()
	})
}

// Before any answer the clock of Redis is not known: the first fetch has no limit but its lease.
func TestFirstFetchIsUndone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		r.addSilently("q", "a")
		r.cutNext(unanswered)
		r.mustFail()
		r.settled()
		r.mustBe("q", "a", "done")
		r.set(func() { r.asked = nil })
		time.Sleep(testLease)
		r.settled()
		r.mustHaveAsked("undo q")
	})
}

func TestUndoIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 1, map[string]int{"p": 1, "q": 1}), newGates()
		r.handle = g.handle
		r.settled()
		time.Sleep(testInterval)
		r.addSilently("q", "a")
		r.cutNext(unanswered)
		r.mustFail()
		r.mustBe("q", "a", "active")
		r.set(func() { r.asked, r.refuse["q"] = nil, refusal("READONLY") })
		for pause := minQueuePause; pause < maxQueuePause; pause *= 2 {
			r.settled()
			if !slices.Contains(r.asked, "undo q") {
				t.Errorf("asked for %q before the pause of %v", r.asked, pause)
			}
			r.set(func() { r.asked = nil })
			time.Sleep(pause - 1)
			r.settled()
			if slices.Contains(r.asked, "undo q") {
				t.Errorf("tried again within the pause of %v", pause)
			}
			time.Sleep(time.Nanosecond)
		}
		r.mustLog(1, "a queue is in trouble", "READONLY")
		r.mustBe("q", "a", "active")
		r.set(func() { delete(r.refuse, "q") })
		time.Sleep(maxQueuePause)
		r.settled()
		g.mustHaveBegun(t, "a")
		g.end("a")
		r.settled()
		r.mustBeFree()
	})
}

// An undo takes as many turns as there are leases to look through.
func TestUndoInParts(t *testing.T) {
	now := time.Now()
	p := &Pump{cfg: oneQueue(t, 1).cfg}
	d := &doubt{undo: rdb.Undo{Queue: "q", Cursor: "17"}, due: now, final: now.Add(time.Hour)}
	p.doubts = []*doubt{d}
	trip, sent := &Trip{Pump: p}, true
	learn := func(now time.Time) {
		t.Helper()
		if sent {
			trip.undos = []*doubt{d}
		}
		if err := trip.learnUndone(now); err != nil {
			t.Error(err)
		}
	}
	learn(now.Add(time.Second))
	if len(p.doubts) != 1 || !d.due.Equal(now.Add(time.Second)) {
		t.Errorf("%d doubts, due at %v", len(p.doubts), d.due)
	}
	d.undo.Cursor = "0"
	learn(now.Add(2 * time.Second))
	if len(p.doubts) != 1 || !d.due.Equal(d.final) {
		t.Errorf("%d doubts, due at %v", len(p.doubts), d.due)
	}
	sent = false // not due
	learn(now.Add(3 * time.Second))
	if len(p.doubts) != 1 {
		t.Error("forgotten before its time")
	}
	sent, d.begun = true, d.final.Add(-1) // began when the fetch could still be executed, and took until after
	learn(d.final.Add(time.Second))
	if len(p.doubts) != 1 {
		t.Error("forgotten after an undo that may have missed tasks")
	}
	d.begun = d.final
	learn(d.final.Add(2 * time.Second))
	if len(p.doubts) != 0 {
		t.Error("not forgotten")
	}
}

// Redis answers that the fetch is too old, and tells its time: the next one goes by that.
func TestStaleFetch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 2)
		r.settled()
		r.set(func() { r.skew, r.asked = time.Hour, nil }) // another server took over
		r.add("q", "a")
		time.Sleep(testInterval)
		_, _ = r.turn()
		r.mustBe("q", "a", "pending")
		if free := r.pool.slots.available(); free != 2 {
			t.Errorf("%d slots are free", free)
		}
		r.settled()
		r.mustHaveAsked("fetch 2 of q", "fetch 2 of q", "done a")
		r.mustBe("q", "a", "done")
		r.mustBeFree()
	})
}

// An undo that fails is a failure of the turn, also where nothing else is in it: the loop must back off, and the lane is not healthy.
func TestUndoWhileRedisIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.addSilently("q", "a")
		r.fate = func(*rdb.Turn) fate { return unanswered }
		r.mustFail()
		r.set(func() { r.asked = nil })
		r.mustFail()
		r.mustHaveAsked("undo q")
		if r.pump.demand.healthy {
			t.Error("the lane counts as healthy")
		}
		loops := r.run()
		time.Sleep(time.Minute)
		r.set(func() {
			if len(r.asked) > 125 { // after the first ones every half second at most: see runner's back-off
				t.Errorf("asked %d times in a minute", len(r.asked))
			}
		})
		r.mustLog(0, "recovered")
		r.set(func() { r.fate = nil })
		time.Sleep(maxQueuePause)
		r.mustBe("q", "a", "done")
		r.stop(loops)
		r.mustBeFree()
	})
}
