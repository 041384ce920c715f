package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestTurnSettlesThenFetches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.add("q", "a", "b", "c")
		for _, want := range [][]string{
			{"fetch 1 of q"},
			{"done a", "fetch 1 of q"}, // one round trip a task
			{"done b", "fetch 1 of q"},
			{"done c"}, // the queue is known to be dry
		} {
			if rest, err := r.turn(); rest != 0 || err != nil {
				t.Fatalf("rest of %v, error %v", rest, err)
			}
			r.mustHaveAsked(want...)
		}
		for _, id := range []string{"a", "b", "c"} {
			r.mustBe("q", id, "done")
		}
		r.mustBeFree()
		if rest := r.settled(); rest <= 0 || rest > testInterval {
			t.Errorf("rests for %v", rest)
		}
		r.mustHaveAsked()
	})
}

func TestTurnSettlesWhatFinishedTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := oneQueue(t, 4), newGates()
		r.handle = g.handle
		r.add("q", "a", "b", "c", "d", "e", "f", "g")
		_, _ = r.turn()
		g.mustHaveBegun(t, "a", "b", "c", "d")
		_, _ = r.turn()
		r.mustHaveAsked("fetch 4 of q") // and not again: there is no slot
		g.end("c")
		g.end("a")
		g.end("d")
		_, _ = r.turn()
		r.mustHaveAsked("done c", "done a", "done d", "fetch 3 of q")
		g.mustHaveBegun(t, "e", "f", "g")
		g.end("b", "e", "f", "g")
		r.settled()
		r.mustHaveAsked("done b", "done e", "done f", "done g")
		r.mustBeFree()
	})
}

// A turn takes along no more than can be answered in time, and the next one the others, whatever a broken queue holds back.
func TestTurnSettlesNoMoreThanItMay(t *testing.T) {
	for name, tt := range map[string]struct {
		n, payload int
		want       []int // outcomes of the turns
	}{
		"many":  {maxSettled + 10, 0, []int{maxSettled, 10}},
		"large": {5, maxSettledBytes / 2, []int{2, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
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
					_, _ = r.turn()
				}
				r.set(func() { r.refuse["broken"] = refusal("WRONGTYPE") })
				close(release["broken"])
				synctest.Wait()
				_, _ = r.turn()
				r.set(func() { r.asked = nil })
				close(release["q"])
				synctest.Wait()
				for i, want := range append(tt.want, 0) {
					_, _ = r.turn()
					n := 0
					r.set(func() {
						for _, what := range r.asked {
							if strings.HasPrefix(what, "retry ") {
								n++
							}
						}
						r.asked = nil
					})
					if n != want {
						t.Errorf("turn %d settles %d tasks, want %d", i, n, want)
					}
				}
				r.set(func() { delete(r.refuse, "broken") })
				time.Sleep(maxQueuePause)
				r.settled()
				r.mustBeFree()
			})
		})
	}
}

// What finishes while a turn is on its way goes into the next one.
func TestFinishedDuringATurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := oneQueue(t, 2), newGates()
		r.handle = g.handle
		r.add("q", "a", "b", "c")
		_, _ = r.turn()
		g.end("a")
		r.latency = time.Millisecond
		go func() {
			time.Sleep(time.Millisecond / 2)
			g.of("b") <- func() error { return nil }
		}()
		_, _ = r.turn()
		r.mustHaveAsked("fetch 2 of q", "done a", "fetch 1 of q")
		_, _ = r.turn()
		r.mustHaveAsked("done b")
		g.end("c")
		r.settled()
		r.mustBeFree()
	})
}

func TestFetchIsShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 10, map[string]int{"high": 6, "low": 3, "least": 1})
		for _, q := range []string{"high", "low", "least"} {
			for i := range 20 {
				r.addSilently(q, q+string(rune('a'+i)))
			}
		}
		_, _ = r.turn()
		r.mustHaveAsked("fetch 6 of high", "fetch 3 of low", "fetch 1 of least")
	})
}

// A fetch whose answer would be too large brings fewer tasks than there are slots. The pump asks for the others at once, and each queue
// gets its share of the slots that are left.
func TestFetchBringsFewerThanThereAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 9, map[string]int{"high": 2, "low": 1}), newGates()
		r.handle, r.most = g.handle, 2
		r.addSilently("high", "a", "b", "c", "d", "e", "f")
		r.addSilently("low", "l", "m", "n", "o")
		for _, want := range [][]string{
			{"fetch 6 of high", "fetch 3 of low"},
			{"fetch 3 of high", "fetch 2 of low"},
			{"fetch 1 of high"},
		} {
			if rest, err := r.turn(); rest != 0 || err != nil {
				t.Fatalf("rest of %v, error %v", rest, err)
			}
			r.mustHaveAsked(want...)
		}
		g.mustHaveBegun(t, "a", "b", "c", "d", "e", "l", "m", "n", "o")
		g.end("a", "b", "l", "m", "c", "d", "n", "o", "e", "f")
		r.settled()
		r.mustBeFree()
	})
}

func TestStrictPriority(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 2, map[string]int{"high": 6, "low": 3}), newGates()
		r.cfg.Strict, r.pool.slots.strict = true, true
		r.handle = g.handle
		r.addSilently("high", "a")
		r.addSilently("low", "b", "c")
		_, _ = r.turn()
		_, _ = r.turn()
		r.mustHaveAsked("fetch 2 of high", "fetch 1 of low")
		r.add("high", "d")
		g.end("a", "b")
		r.set(func() { r.asked = nil })
		r.tell("high")
		_, _ = r.turn()
		r.mustHaveAsked("done a", "done b", "fetch 2 of high")
		g.end("d")
		r.settled()
		g.end("c")
		r.settled()
		r.mustBeFree()
	})
}

func TestFetchIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1200)
		_, _ = r.turn()
		r.mustHaveAsked("fetch 500 of q")
		r.mustBeFree()
	})
}

func TestTokensDiffer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 4, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"})
		seen := make(map[string]bool)
		for range 1000 {
			for _, p := range r.pumps {
				token := p.token()
				if seen[token] || len(token) <= len("token-") {
					t.Fatalf("token %q again", token)
				}
				seen[token] = true
			}
		}
	})
}

func TestPausedAndCappedQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 4, map[string]int{"capped": 3, "paused": 2, "q": 1}), newGates()
		r.handle = g.handle
		r.pump.queue("capped").maxActive = 1
		r.set(func() { r.queues["paused"].paused = true })
		r.addSilently("capped", "a", "b")
		r.addSilently("paused", "c")
		_, _ = r.turn()
		g.mustHaveBegun(t, "a")
		r.settled()
		g.mustHaveBegun(t)

		// Neither is asked before it is time to look, or before an own task of it has ended.
		r.set(func() { r.asked = nil })
		r.settled()
		r.mustHaveAsked()
		if wanted := r.pump.wanted(); !slices.Equal(wanted, []string{"capped", "q"}) {
			t.Errorf("waits for the markers of %q, want all but that of the paused queue: it tells nothing", wanted)
		}
		time.Sleep(testInterval)
		r.settled()
		if !slices.Contains(r.asked, "fetch 1 of paused") || r.turns > 6 {
			t.Errorf("asked for %q in %d turns", r.asked, r.turns)
		}
		r.set(func() { r.asked, r.queues["paused"].paused = nil, false })
		g.end("a")
		_, _ = r.turn()
		r.mustHaveAsked("done a", "fetch 4 of capped") // there is room again once the first has been done
		g.mustHaveBegun(t, "b")
		time.Sleep(testInterval)
		r.settled()
		g.mustHaveBegun(t, "c")
		g.end("b", "c")
		r.settled()
		r.mustBeFree()
	})
}

func TestUnreadableTaskIsArchived(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := oneQueue(t, 3), newGates()
		r.handle = g.handle
		r.addRaw("q", "bad", []byte("\xff\xff"))
		other, err := (&wire.TaskMessage{ID: "other", Queue: "q"}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		r.addRaw("q", "mistaken", other)
		r.addSilently("q", "good")
		_, _ = r.turn()
		g.mustHaveBegun(t, "good")
		if free := r.pool.slots.available(); free != 2 {
			t.Errorf("%d slots are free", free)
		}
		if running := r.pool.Running(); len(running) != 1 {
			t.Errorf("%d tasks are said to run", len(running))
		}
		r.settled()
		r.mustHaveAsked("fetch 3 of q", "archive bad", "archive mistaken")
		r.mustBe("q", "bad", "archived")
		r.mustBe("q", "mistaken", "archived")
		r.mustLog(2, "cannot be read", "queue=q")
		r.mustLog(1, "cannot be read", "task=mistaken", "other")
		g.end("good")
		r.settled()
		r.mustBeFree()
	})
}

func TestDroppedIDsAreLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 3)
		r.set(func() { r.queues["q"].pending = []string{"ghost"} })
		r.addSilently("q", "a")
		r.settled()
		r.mustLog(1, "dropped an ID", "task=ghost", "queue=q")
		r.mustBe("q", "a", "done")
		r.mustBeFree()
	})
}

// A marker that leads to no task was left for a delayed one: the forwarder is told.
func TestMarkerForTheForwarder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 3)
		r.settled()
		r.set(func() { r.mark(r.queues["q"]) })
		if _, err := r.pump.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.settled()
		if want := []string{"q 0s"}; !slices.Equal(r.delayed, want) {
			t.Errorf("told %q, want %q", r.delayed, want)
		}
		time.Sleep(testInterval)
		r.addSilently("q", "a")
		r.settled() // found by looking: nobody was told
		if len(r.delayed) != 1 {
			t.Errorf("told %q", r.delayed)
		}
	})
}

func TestRetriesAreAnnounced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.handle = func(context.Context, *Attempt) error { return &RetryError{After: 3 * time.Second} }
		r.addSilently("q", "a")
		r.settled()
		if want := []string{"q 3s"}; !slices.Equal(r.delayed, want) {
			t.Errorf("told %q, want %q", r.delayed, want)
		}
		r.mustBe("q", "a", "retry")
		time.Sleep(3 * time.Second)
		r.settled()
		if _, msg := r.state("q", "a"); msg.Retried != 2 {
			t.Errorf("retried %d times", msg.Retried)
		}
	})
}

// Who lost its task learns so from the answer, which is no error of the turn.
func TestRefusedOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := oneQueue(t, 1), newGates()
		r.handle = g.handle
		r.addSilently("q", "a")
		_, _ = r.turn()
		r.set(func() { r.queues["q"].tasks["a"].token = "of another" })
		g.endWith("a", func() error { return errors.New("late") })
		r.settled()
		r.mustBe("q", "a", "active")
		r.mustLog(1, "was refused", "task=a", "outcome=retry", "queue=q", "type=test")
		if len(r.delayed) != 0 {
			t.Errorf("told %q", r.delayed)
		}
		r.mustBeFree()
	})
}
