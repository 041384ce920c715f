package worker

import (
	"context"
	"slices"
	"testing"
	"time"
)

const errWrongType = refusal("WRONGTYPE Operation against a key holding the wrong kind of value")

// A failing queue is paused for increasing times, and does not slow down the others.
func TestFailingQueueIsPaused(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 2, map[string]int{"broken": 1, "q": 1})
		r.set(func() { r.refuse["broken"] = errWrongType })
		r.addSilently("broken", "x")
		var pauses []time.Duration
		last := time.Time{}
		count := 0
		for i := range 60 {
			id := "t" + string(rune('A'+i))
			r.add("q", id)
			r.markNonEmpty("q")
			r.set(func() { r.sent = nil })
			rest := r.drainWork()
			r.mustBe("q", id, "done")
			for _, what := range r.sent {
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
			t.Errorf("%d requests", count)
		}
		logged := r.log.count("queue error, backing off", "queue=broken", "WRONGTYPE")
		if logged == 0 || logged >= count {
			t.Errorf("%d log lines for %d errors", logged, count)
		}
		r.set(func() { delete(r.refuse, "broken") })
		time.Sleep(maxQueuePause)
		r.drainWork()
		r.mustBe("broken", "x", "done")
		if fails := r.fetcher.lane.queue("broken").failures; fails != 0 {
			t.Errorf("%d failures are recorded", fails)
		}
		r.mustBeFree()
	})
}

// A rejected outcome is sent again after the queue's pause. Outcomes of other queues do not wait
// for it.
func TestRejectedSettlementIsRepeated(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 4, map[string]int{"broken": 1, "q": 1}), newGates()
		r.handle = g.handle
		r.addSilently("broken", "x", "y")
		r.addSilently("q", "a", "b")
		r.drainWork()
		g.mustHaveStarted(t, "a", "b", "x", "y")
		r.set(func() { r.sent, r.refuse["broken"] = nil, refusal("OOM command not allowed") })
		g.end("x", "a")
		rest := r.drainWork()
		if rest > minQueuePause {
			t.Errorf("delay %v", rest)
		}
		r.mustHaveSent("succeeded x", "succeeded a")
		r.mustBe("q", "a", "done")
		g.end("y", "b")
		r.drainWork()
		r.mustHaveSent("succeeded b") // the other one waits for the pause
		time.Sleep(minQueuePause)
		r.drainWork()
		r.mustHaveSent("succeeded x", "succeeded y")
		r.set(func() { delete(r.refuse, "broken") })
		time.Sleep(2 * minQueuePause)
		r.drainWork()
		r.mustHaveSent("succeeded x", "succeeded y")
		r.mustBe("broken", "x", "done")
		r.mustBe("broken", "y", "done")
		r.mustBeFree()
	})
}

// If a server stops during the pause of a queue, outcomes that are held back are sent after the
// pause.
func TestSettlementDuringPauseAndShutdown(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		r.drainWork()
		time.Sleep(testInterval)
		r.addSilently("q", "b")
		r.set(func() { r.refuse["q"] = refusal("LOADING") })
		r.drainWork() // the fetch is rejected
		loops := r.run()
		r.pool.StopFetching()
		g.end("a")
		r.set(func() { delete(r.refuse, "q") })
		ctx, cancel := context.WithTimeout(context.Background(), 2*maxQueuePause)
		defer cancel()
		if err := r.pool.Drain(ctx); err != nil {
			t.Errorf("outcome not sent: %v", err)
		}
		r.stop(loops)
		r.mustBe("q", "a", "done")
		r.mustBe("q", "b", "pending")
	})
}

// Successful settlements do not reset the pauses after rejected fetches.
func TestRejectedFetchWithSuccessfulSettlements(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 6), newGates()
		r.handle = g.handle
		ids := []string{"a", "b", "c", "d", "e"}
		r.addSilently("q", ids...)
		r.drainWork()
		g.mustHaveStarted(t, ids...)
		r.set(func() { r.refuse["fetch q"] = errWrongType })
		for i, id := range ids {
			r.markNonEmpty("q")
			g.end(id)
			for ; !r.isDone(id); time.Sleep(minQueuePause) {
				_, _ = r.roundTrip()
			}
			if fails := r.fetcher.lane.queue("q").failures; fails != i+1 {
				t.Errorf("after %s: %d failures", id, fails)
			}
		}
	})
}

// A paused queue is not polled.
func TestNoPollDuringAPause(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 1, map[string]int{"broken": 1, "q": 1})
		r.drainWork()
		r.fetcher.lane.queue("broken").retryAt = time.Now().Add(time.Hour)
		time.Sleep(testInterval)
		r.set(func() { r.polls = nil })
		r.drainWork()
		if want := []string{"q"}; !slices.Equal(r.polls, want) {
			t.Errorf("polled %q, want %q", r.polls, want)
		}
	})
}
