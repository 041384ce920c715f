package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestRoundTripSettlesThenFetches(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.add("q", "a", "b", "c")
		for _, want := range [][]string{
			{"fetch 1 of q"},
			{"succeeded a", "fetch 1 of q"}, // one round trip per task
			{"succeeded b", "fetch 1 of q"},
			{"succeeded c"}, // the queue is known to be empty
		} {
			if rest, err := r.roundTrip(); rest != 0 || err != nil {
				t.Fatalf("delay %v, error %v", rest, err)
			}
			r.mustHaveSent(want...)
		}
		for _, id := range []string{"a", "b", "c"} {
			r.mustBe("q", id, "done")
		}
		r.mustBeFree()
		if rest := r.drainWork(); rest <= 0 || rest > testInterval {
			t.Errorf("delay %v", rest)
		}
		r.mustHaveSent()
	})
}

func TestRoundTripSettlesAllFinished(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 4), newGates()
		r.handle = g.handle
		r.add("q", "a", "b", "c", "d", "e", "f", "g")
		_, _ = r.roundTrip()
		g.mustHaveStarted(t, "a", "b", "c", "d")
		_, _ = r.roundTrip()
		r.mustHaveSent("fetch 4 of q") // and no further fetch: no slot is free
		g.end("c")
		g.end("a")
		g.end("d")
		_, _ = r.roundTrip()
		r.mustHaveSent("succeeded c", "succeeded a", "succeeded d", "fetch 3 of q")
		g.mustHaveStarted(t, "e", "f", "g")
		g.end("b", "e", "f", "g")
		r.drainWork()
		r.mustHaveSent("succeeded b", "succeeded e", "succeeded f", "succeeded g")
		r.mustBeFree()
	})
}

// A round trip settles a limited number of outcomes, and the next one the rest, regardless of
// outcomes that a failing queue holds back.
func TestRoundTripSettlesUpToLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		n, payload int
		want       []int // outcomes by round trip
	}{
		"many":  {maxSettled + 10, 0, []int{maxSettled, 10}},
		"large": {5, maxSettledBytes / 2, []int{2, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctestRun(t, func(t *testing.T) {
				r := newRig(t, tt.n+1, map[string]int{"q": 1, "broken": 1})
				release := map[string]chan struct{}{"q": make(chan struct{}), "broken": make(chan struct{})}
				r.handle = func(_ context.Context, a *Attempt) error {
					<-release[a.Queue]
					return errors.New("try again") // so that the message is sent
				}
				for i := range tt.n {
					r.addMessage("q", &wire.TaskMessage{Type: "test", ID: fmt.Sprint(i), Queue: "q", MaxRetry: 3, Payload: make([]byte, tt.payload)})
				}
				r.addSilently("broken", "b")
				for r.pool.slots.available() > 0 {
					_, _ = r.roundTrip()
				}
				r.set(func() { r.refuse["broken"] = refusal("WRONGTYPE") })
				close(release["broken"])
				synctest.Wait()
				_, _ = r.roundTrip()
				r.set(func() { r.sent = nil })
				close(release["q"])
				synctest.Wait()
				for i, want := range append(tt.want, 0) {
					_, _ = r.roundTrip()
					n := 0
					r.set(func() {
						for _, what := range r.sent {
							if strings.HasPrefix(what, "retried ") {
								n++
							}
						}
						r.sent = nil
					})
					if n != want {
						t.Errorf("round trip %d settles %d tasks, want %d", i, n, want)
					}
				}
				r.set(func() { delete(r.refuse, "broken") })
				time.Sleep(maxQueuePause)
				r.drainWork()
				r.mustBeFree()
			})
		})
	}
}

// Attempts that finish during a round trip are settled by the next one.
func TestFinishedDuringRoundTrip(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		r.add("q", "a", "b", "c")
		_, _ = r.roundTrip()
		g.end("a")
		r.latency = time.Millisecond
		go func() {
			time.Sleep(time.Millisecond / 2)
			g.of("b") <- func() error { return nil }
		}()
		_, _ = r.roundTrip()
		r.mustHaveSent("fetch 2 of q", "succeeded a", "fetch 1 of q")
		_, _ = r.roundTrip()
		r.mustHaveSent("succeeded b")
		g.end("c")
		r.drainWork()
		r.mustBeFree()
	})
}

func TestFetchIsShared(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 10, map[string]int{"high": 6, "low": 3, "least": 1})
		for _, q := range []string{"high", "low", "least"} {
			for i := range 20 {
				r.addSilently(q, q+string(rune('a'+i)))
			}
		}
		_, _ = r.roundTrip()
		r.mustHaveSent("fetch 6 of high", "fetch 3 of low", "fetch 1 of least")
	})
}

// Queues whose tasks are quick get bundles of them alternately. Others get their share of each
// round trip, so that slow tasks of one queue do not occupy the slots of the rest.
func TestQuickTasksAreFetchedInBundles(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		want  []string
	}{
		{quickAttempt - 1, []string{"fetch 2 of q0", "fetch 2 of q1", "fetch 2 of q2", "fetch 2 of q3"}},
		{quickAttempt, []string{
			"fetch 1 of q0", "fetch 1 of q1", "fetch 1 of q2", "fetch 1 of q3", "fetch 1 of q4", "fetch 1 of q5",
			"fetch 1 of q6", "fetch 1 of q7",
		}},
	} {
		synctestRun(t, func(t *testing.T) {
			const slots, queues = 16, 16
			weights := make(map[string]int)
			for i := range queues {
				weights["q"+strconv.FormatInt(int64(i), queues)] = 1
			}
			r, early, late := newRig(t, slots, weights), make(chan struct{}), make(chan struct{})
			r.handle = func(_ context.Context, a *Attempt) error {
				if strings.HasSuffix(a.Message.ID, "-0") && a.Queue < "q8" {
					<-early
				} else {
					<-late
				}
				return nil
			}
			for q := range weights {
				for i := range 10 {
					r.addSilently(q, q+"-"+strconv.Itoa(i))
				}
			}
			_, _ = r.roundTrip() // one task of each queue
			time.Sleep(c.takes)
			close(early) // for one half of the slots
			synctest.Wait()
			r.set(func() { r.sent = nil })
			_, _ = r.roundTrip()
			var fetched []string
			r.set(func() {
				for _, s := range r.sent {
					if strings.HasPrefix(s, "fetch") {
						fetched = append(fetched, s)
					}
				}
			})
			close(late)
			synctest.Wait()
			r.drainWork()
			r.mustBeFree()
			if !slices.Equal(fetched, c.want) {
				t.Errorf("after attempts of %v: %q, want %q", c.takes, fetched, c.want)
			}
		})
	}
}

// A fetch returns fewer tasks than requested if the reply would be too large. The fetcher fetches
// again at once, and divides the remaining slots by weight.
func TestFetchReturnsFewerThanRequested(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 9, map[string]int{"high": 2, "low": 1}), newGates()
		r.handle, r.most = g.handle, 2
		r.addSilently("high", "a", "b", "c", "d", "e", "f")
		r.addSilently("low", "l", "m", "n", "o")
		for _, want := range [][]string{
			{"fetch 6 of high", "fetch 3 of low"},
			{"fetch 3 of high", "fetch 2 of low"},
			{"fetch 1 of high"},
		} {
			if rest, err := r.roundTrip(); rest != 0 || err != nil {
				t.Fatalf("delay %v, error %v", rest, err)
			}
			r.mustHaveSent(want...)
		}
		g.mustHaveStarted(t, "a", "b", "c", "d", "e", "l", "m", "n", "o")
		g.end("a", "b", "l", "m", "c", "d", "n", "o", "e", "f")
		r.drainWork()
		r.mustBeFree()
	})
}

func TestStrictPriority(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 2, map[string]int{"high": 6, "low": 3}), newGates()
		r.cfg.Strict, r.pool.slots.strict = true, true
		r.handle = g.handle
		r.addSilently("high", "a")
		r.addSilently("low", "b", "c")
		_, _ = r.roundTrip()
		_, _ = r.roundTrip()
		r.mustHaveSent("fetch 2 of high", "fetch 1 of low")
		r.add("high", "d")
		g.end("a", "b")
		r.set(func() { r.sent = nil })
		r.markNonEmpty("high")
		_, _ = r.roundTrip()
		r.mustHaveSent("succeeded a", "succeeded b", "fetch 2 of high")
		g.end("d")
		r.drainWork()
		g.end("c")
		r.drainWork()
		r.mustBeFree()
	})
}

func TestFetchIsBounded(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1200)
		_, _ = r.roundTrip()
		r.mustHaveSent("fetch 500 of q")
		r.mustBeFree()
	})
}

func TestTokensDiffer(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newRig(t, 4, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"})
		seen := make(map[string]bool)
		for range 1000 {
			for _, f := range r.fetchers {
				token := f.lane.newToken()
				if seen[token] || len(token) <= len("token-") {
					t.Fatalf("duplicate token %q", token)
				}
				seen[token] = true
			}
		}
	})
}

func TestPausedAndCappedQueues(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 4, map[string]int{"capped": 3, "paused": 2, "q": 1}), newGates()
		r.handle = g.handle
		r.fetcher.lane.queue("capped").maxActive = 1
		r.set(func() { r.queues["paused"].paused = true })
		r.addSilently("capped", "a", "b")
		r.addSilently("paused", "c")
		_, _ = r.roundTrip()
		g.mustHaveStarted(t, "a")
		r.drainWork()
		g.mustHaveStarted(t)

		// Neither queue is fetched from before a poll is due or one of its tasks ended.
		r.set(func() { r.sent = nil })
		r.drainWork()
		r.mustHaveSent()
		if wanted := r.fetcher.startWaiting(); !slices.Equal(wanted, []string{"capped", "q"}) {
			t.Errorf("waits for the markers of %q, want all but that of the paused queue", wanted)
		}
		time.Sleep(testInterval)
		r.drainWork()
		if !slices.Contains(r.sent, "fetch 1 of paused") || r.trips > 6 {
			t.Errorf("sent %q in %d round trips", r.sent, r.trips)
		}
		r.set(func() { r.sent, r.queues["paused"].paused = nil, false })
		g.end("a")
		_, _ = r.roundTrip()
		r.mustHaveSent("succeeded a", "fetch 4 of capped") // there is capacity after the first settlement
		g.mustHaveStarted(t, "b")
		time.Sleep(testInterval)
		r.drainWork()
		g.mustHaveStarted(t, "c")
		g.end("b", "c")
		r.drainWork()
		r.mustBeFree()
	})
}

func TestUnreadableTaskIsArchived(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 3), newGates()
		r.handle = g.handle
		r.addRaw("q", "bad", []byte("\xff\xff"))
		other, err := (&wire.TaskMessage{ID: "other", Queue: "q"}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		r.addRaw("q", "mistaken", other)
		r.addSilently("q", "good")
		_, _ = r.roundTrip()
		g.mustHaveStarted(t, "good")
		if free := r.pool.slots.available(); free != 2 {
			t.Errorf("%d slots are free", free)
		}
		if running := r.pool.Running(); len(running) != 1 {
			t.Errorf("%d tasks run", len(running))
		}
		r.drainWork()
		r.mustHaveSent("fetch 3 of q", "archived bad", "archived mistaken")
		r.mustBe("q", "bad", "archived")
		r.mustBe("q", "mistaken", "archived")
		r.mustLog(2, "unreadable", "queue=q")
		r.mustLog(1, "unreadable", "task=mistaken", "other")
		g.end("good")
		r.drainWork()
		r.mustBeFree()
	})
}

func TestDroppedIDsAreLogged(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 3)
		r.set(func() { r.queues["q"].pending = []string{"ghost"} })
		r.addSilently("q", "a")
		r.drainWork()
		r.mustLog(1, "dropped an ID", "task=ghost", "queue=q")
		r.mustBe("q", "a", "done")
		r.mustBeFree()
	})
}

// A marker without a task was left for a delayed task: the forwarder is notified.
func TestMarkerForTheForwarder(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 3)
		r.drainWork()
		r.set(func() { r.mark(r.queues["q"]) })
		if _, err := r.fetcher.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.drainWork()
		if want := []string{"q 0s"}; !slices.Equal(r.delayed, want) {
			t.Errorf("notified %q, want %q", r.delayed, want)
		}
		time.Sleep(testInterval)
		r.addSilently("q", "a")
		r.drainWork() // found by polling: no notification
		if len(r.delayed) != 1 {
			t.Errorf("notified %q", r.delayed)
		}
	})
}

func TestRetriesAreAnnounced(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.handle = func(context.Context, *Attempt) error { return &RetryError{After: 3 * time.Second} }
		r.addSilently("q", "a")
		r.drainWork()
		if want := []string{"q 3s"}; !slices.Equal(r.delayed, want) {
			t.Errorf("notified %q, want %q", r.delayed, want)
		}
		r.mustBe("q", "a", "retry")
		time.Sleep(3 * time.Second)
		r.drainWork()
		if _, msg := r.state("q", "a"); msg.Retried != 2 {
			t.Errorf("retried %d times", msg.Retried)
		}
	})
}

// A lost task is reported in the reply. It is not an error of the round trip.
func TestRejectedOutcome(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		_, _ = r.roundTrip()
		r.set(func() { r.queues["q"].tasks["a"].token = "of another" })
		g.endWith("a", func() error { return errors.New("late") })
		r.drainWork()
		r.mustBe("q", "a", "active")
		r.mustLog(1, "outcome rejected", "task=a", "outcome=retried", "queue=q", "type=test")
		if len(r.delayed) != 0 {
			t.Errorf("notified %q", r.delayed)
		}
		r.mustBeFree()
	})
}
