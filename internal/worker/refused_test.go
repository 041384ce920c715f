package worker

import (
	"context"
	"slices"
	"testing"
	"time"
)

const errWrongType = refusal("WRONGTYPE Operation against a key holding the wrong kind of value")

// One broken queue is left alone for growing times, and does not slow the others.
func TestRefusingQueueIsPaused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 2, map[string]int{"broken": 1, "q": 1})
		r.set(func() { r.refuse["broken"] = errWrongType })
		r.addSilently("broken", "x")
		var pauses []time.Duration
		last := time.Time{}
		count := 0
		for i := range 60 {
			id := "t" + string(rune('A'+i))
			r.add("q", id)
			r.tell("q")
			r.set(func() { r.asked = nil })
			rest := r.settled()
			r.mustBe("q", id, "done")
			for _, what := range r.asked {
				if what == "fetch 1 of broken" || what == "fetch 2 of broken" {
					if count++; count > 1 {
						pauses = append(pauses, time.Since(last))
					}
					last = time.Now()
				}
			}
			if free := r.pool.slots.available(); free != 2 {
				t.Fatalf("%d slots are free", free)
			}
			time.Sleep(min(rest, time.Second))
		}
		for i, want := 0, minQueuePause; i < len(pauses); i++ {
			if pauses[i] < want || pauses[i] > want+testInterval {
				t.Errorf("pause %d is %v, want %v", i, pauses[i], want)
			}
			want = min(2*want, maxQueuePause)
		}
		if count < 8 {
			t.Errorf("asked %d times", count)
		}
		logged := r.log.count("a queue is in trouble", "queue=broken", "WRONGTYPE")
		if logged == 0 || logged >= count {
			t.Errorf("%d log lines for %d refusals", logged, count)
		}
		r.set(func() { delete(r.refuse, "broken") })
		time.Sleep(maxQueuePause)
		r.settled()
		r.mustBe("broken", "x", "done")
		if fails := r.pump.queue("broken").fails; fails != 0 {
			t.Errorf("%d failures are remembered", fails)
		}
		r.mustBeFree()
	})
}

// A refused outcome is sent again after the queue's pause; the outcomes of other queues do not wait for it.
func TestRefusedSettlementIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 4, map[string]int{"broken": 1, "q": 1}), newGates()
		r.handle = g.handle
		r.addSilently("broken", "x", "y")
		r.addSilently("q", "a", "b")
		r.settled()
		g.mustHaveBegun(t, "a", "b", "x", "y")
		r.set(func() { r.asked, r.refuse["broken"] = nil, refusal("OOM command not allowed") })
		g.end("x", "a")
		rest := r.settled()
		if rest > minQueuePause {
			t.Errorf("rests for %v", rest)
		}
		r.mustHaveAsked("done x", "done a")
		r.mustBe("q", "a", "done")
		g.end("y", "b")
		r.settled()
		r.mustHaveAsked("done b") // the other waits for the pause
		time.Sleep(minQueuePause)
		r.settled()
		r.mustHaveAsked("done x", "done y")
		r.set(func() { delete(r.refuse, "broken") })
		time.Sleep(2 * minQueuePause)
		r.settled()
		r.mustHaveAsked("done x", "done y")
		r.mustBe("broken", "x", "done")
		r.mustBe("broken", "y", "done")
		r.mustBeFree()
	})
}

// Where a server stops while a queue is in its pause, the outcomes that become known in that time are sent after the pause.
func TestSettlementAfterThePauseOfAServerThatStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		r.settled()
		time.Sleep(testInterval)
		r.addSilently("q", "b")
		r.set(func() { r.refuse["q"] = refusal("LOADING") })
		r.settled() // the fetch is refused
		loops := r.run()
		r.pool.StopFetching()
		g.end("a")
		r.set(func() { delete(r.refuse, "q") })
		ctx, cancel := context.WithTimeout(context.Background(), 2*maxQueuePause)
		defer cancel()
		if err := r.pool.Drain(ctx); err != nil {
			t.Errorf("the outcome was never sent: %v", err)
		}
		r.stop(loops)
		r.mustBe("q", "a", "done")
		r.mustBe("q", "b", "pending")
	})
}

// That outcomes go through says nothing about fetches: the pauses grow all the same.
func TestRefusedFetchOfAQueueThatSettles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := oneQueue(t, 6), newGates()
		r.handle = g.handle
		ids := []string{"a", "b", "c", "d", "e"}
		r.addSilently("q", ids...)
		r.settled()
		g.mustHaveBegun(t, ids...)
		r.set(func() { r.refuse["fetch q"] = errWrongType })
		for i, id := range ids {
			r.tell("q")
			g.end(id)
			for ; !r.isDone(id); time.Sleep(minQueuePause) {
				_, _ = r.turn()
			}
			if fails := r.pump.queue("q").fails; fails != i+1 {
				t.Errorf("after %s: %d failures", id, fails)
			}
		}
	})
}

// Where a queue has its pause, nobody looks whether it has tasks.
func TestNoLookDuringAPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1, map[string]int{"broken": 1, "q": 1})
		r.settled()
		r.pump.queue("broken").retryAt = time.Now().Add(time.Hour)
		time.Sleep(testInterval)
		r.set(func() { r.looks = nil })
		r.settled()
		if want := []string{"q"}; !slices.Equal(r.looks, want) {
			t.Errorf("looked at %q, want %q", r.looks, want)
		}
	})
}
