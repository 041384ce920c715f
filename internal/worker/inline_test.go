package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// newInlineRig makes a rig with the queue q and inline flush, whose loop has made its first round
// trip and found nothing.
func newInlineRig(t *testing.T, concurrency int) *rig {
	r := oneQueue(t, concurrency)
	r.cfg.InlineFlush = true
	r.drainWork()
	return r
}

// woken reports whether a loop of the fetcher was woken, and consumes the wake.
func (r *rig) woken() bool {
	select {
	case <-r.fetcher.wake:
		return true
	default:
		return false
	}
}

func TestInlineFlush(t *testing.T) {
	for _, concurrency := range []int{1, 3} {
		synctestRun(t, func(t *testing.T) {
			r, released := newInlineRig(t, concurrency), make(chan struct{})
			var order []string
			r.handle = func(_ context.Context, a *Attempt) error {
				r.set(func() { order = append(order, a.Message.ID) })
				<-released
				return nil
			}
			tasks := []string{"a", "b", "c", "d", "e", "f", "g"}
			r.add("q", tasks...)
			r.markNonEmpty("q")
			_, _ = r.roundTrip() // by a loop: workers make the following ones
			close(released)
			synctest.Wait()
			for _, id := range tasks {
				r.mustBe("q", id, "done")
			}
			if concurrency == 1 && !slices.Equal(order, tasks) {
				t.Errorf("tasks ran in the order %q", order)
			}
			r.mustBeFree()
		})
	}
}

// An inline flush wakes a loop for the work that it cannot do itself.
func TestInlineFlushWakesLoop(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newInlineRig(t, 2), newGates()
		r.handle = g.handle
		r.add("q", "a", "b", "c")
		r.markNonEmpty("q")
		_, _ = r.roundTrip()
		r.woken()
		r.latency = time.Second
		g.end("a")
		synctest.Wait() // its round trip is in flight
		g.end("b")
		synctest.Wait()
		if r.woken() {
			t.Error("a loop was woken while a round trip is in flight")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !r.woken() {
			t.Error("no loop was woken for the attempts that finished during the round trip")
		}
		r.mustBe("q", "a", "done")
		r.mustBe("q", "c", "active")
		r.drainWork()
		r.mustBe("q", "b", "done")
		g.end("c")
		time.Sleep(4 * time.Second)
		r.drainWork()
		r.mustBeFree()
	})
}

// After a queue becomes empty, a loop must poll it: the flush wakes the loop once, to set its
// delay.
func TestInlineFlushOfEmptyQueue(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.cfg.InlineFlush = true
		g := newGates()
		r.handle = g.handle
		r.add("q", "a", "b")
		if rest, _ := r.roundTrip(); rest != 0 {
			t.Errorf("delay %v", rest)
		}
		g.end("a")
		synctest.Wait()
		g.end("b")
		synctest.Wait()
		r.mustBe("q", "b", "done")
		if !r.woken() {
			t.Error("no loop was woken")
		}
		r.drainWork()
		r.add("q", "c")
		r.markNonEmpty("q")
		_, _ = r.roundTrip()
		g.end("c")
		synctest.Wait()
		r.woken()
		if rest := r.drainWork(); rest <= 0 || rest > testInterval {
			t.Errorf("delay %v", rest)
		}
		r.fetcher.mu.Lock()
		idle := !r.fetcher.lane.needsWake(time.Now(), r.fetcher.idleUntil)
		r.fetcher.mu.Unlock()
		if !idle {
			t.Error("a loop with the right delay would be woken again")
		}
	})
}

// A loop repeats a failed inline flush, because it can back off.
func TestInlineFlushFails(t *testing.T) {
	for name, f := range map[string]failure{"lost": lost, "replyLost": replyLost} {
		t.Run(name, func(t *testing.T) {
			synctestRun(t, func(t *testing.T) {
				r, g := newInlineRig(t, 1), newGates()
				r.handle = g.handle
				r.add("q", "a", "b")
				r.markNonEmpty("q")
				_, _ = r.roundTrip()
				r.woken()
				r.set(func() { r.failure = func(*rdb.RoundTrip) failure { return f } })
				g.end("a")
				synctest.Wait()
				if !r.woken() {
					t.Error("no loop was woken")
				}
				r.mustFail() // the retry of the loop
				r.set(func() { r.failure = nil })
				g.end("b")
				time.Sleep(2 * fetchValidity)
				r.drainWork()
				time.Sleep(2 * fetchValidity)
				r.drainWork()
				r.mustBe("q", "a", "done")
				r.mustBe("q", "b", "done")
				r.mustBeFree()
			})
		})
	}
}

// panicky is a broker that panics, as user code in hooks of go-redis may.
type panicky struct {
	*memory
	on bool
}

func (p *panicky) RoundTrip(ctx context.Context, t *rdb.RoundTrip) {
	if p.on {
		p.on = false
		panic("a hook")
	}
	p.memory.RoundTrip(ctx, t)
}

func TestInlineFlushPanics(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newInlineRig(t, 1), newGates()
		r.handle = g.handle
		broker := &panicky{memory: r.memory}
		r.cfg.Broker = broker
		r.add("q", "a", "b")
		r.markNonEmpty("q")
		_, _ = r.roundTrip()
		r.woken()
		broker.on = true
		g.end("a")
		synctest.Wait()
		r.mustLog(1, "round trip panicked", "a hook")
		if !r.woken() {
			t.Error("no loop was woken")
		}
		if r.fetcher.lane.trips[0].acquired || !r.fetcher.lane.gate.None() {
			t.Error("the round trip was not released")
		}
	})
}

// A queue gets tasks during an inline flush, while another lane has all slots. It must be fetched
// from when a slot is free.
func TestInlineFlushKeepsSlotDemand(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r, g := newRig(t, 1, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"}), newGates()
		r.cfg.InlineFlush, r.handle = true, g.handle
		other := r.fetchers[1]
		_, _ = other.lane.trips[0].Tick(context.Background()) // finds nothing
		r.add("p", "a")
		r.drainWork()
		r.latency = minLendDelay / 8 // each way, so that lanes keep their slots
		g.end("a")
		synctest.Wait() // its worker's round trip is in flight
		r.add("q", "b")
		other.mu.Lock()
		other.lane.queue("q").wake()
		other.mu.Unlock()
		go func() { _, _ = other.lane.trips[0].Tick(context.Background()) }()
		synctest.Wait()
		r.add("p", "c")
		r.markNonEmpty("p")
		if rest, _ := r.roundTrip(); rest != untilWoken {
			t.Errorf("during an inline flush, the delay of the loop is %v", rest)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.mustBe("q", "b", "active")
		r.woken()
		g.end("b")
		synctest.Wait()
		if !r.woken() {
			t.Error("a slot is free, but the lane that needs it was not woken")
		}
		r.drainWork()
		r.mustBe("p", "c", "active")
		g.end("c")
		time.Sleep(4 * time.Second)
		for _, f := range r.fetchers {
			_, _ = f.lane.trips[0].Tick(context.Background())
		}
		r.mustBeFree()
	})
}
