package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// led makes a rig with the queue q, whose workers lead once a loop has made its first turn, and found nothing.
func led(t *testing.T, concurrency int) *rig {
	r := oneQueue(t, concurrency)
	r.cfg.WorkersLead = true
	r.settled()
	return r
}

// woken reports whether a loop of the pump was woken, and takes that in.
func (r *rig) woken() bool {
	select {
	case <-r.pump.wake:
		return true
	default:
		return false
	}
}

func TestWorkersLead(t *testing.T) {
	for _, concurrency := range []int{1, 3} {
		bubble(t, func(t *testing.T) {
			r, turned := led(t, concurrency), make(chan struct{})
			var order []string
			r.handle = func(_ context.Context, a *Attempt) error {
				r.set(func() { order = append(order, a.Message.ID) })
				<-turned
				return nil
			}
			tasks := []string{"a", "b", "c", "d", "e", "f", "g"}
			r.add("q", tasks...)
			r.tell("q")
			_, _ = r.turn() // of a loop: all others are the workers'
			close(turned)
			synctest.Wait()
			for _, id := range tasks {
				r.mustBe("q", id, "done")
			}
			if concurrency == 1 && !slices.Equal(order, tasks) {
				t.Errorf("they ran in the order %q", order)
			}
			r.mustBeFree()
		})
	}
}

// A worker that leads leaves a loop what it cannot do itself.
func TestWorkerLeavesTheRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := led(t, 2), newGates()
		r.handle = g.handle
		r.add("q", "a", "b", "c")
		r.tell("q")
		_, _ = r.turn()
		r.woken()
		r.latency = time.Second
		g.end("a")
		synctest.Wait() // its turn is on its way
		g.end("b")
		synctest.Wait()
		if r.woken() {
			t.Error("a loop is woken, though a turn is on its way")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !r.woken() {
			t.Error("no loop is woken for what has ended while the turn was on its way")
		}
		r.mustBe("q", "a", "done")
		r.mustBe("q", "c", "active")
		r.settled()
		r.mustBe("q", "b", "done")
		g.end("c")
		time.Sleep(4 * time.Second)
		r.settled()
		r.mustBeFree()
	})
}

// When a queue runs dry a loop is to look at it, now and then; it is woken once to learn that.
func TestWorkerFindsAQueueDry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.cfg.WorkersLead = true
		g := newGates()
		r.handle = g.handle
		r.add("q", "a", "b")
		if rest, _ := r.turn(); rest != 0 {
			t.Errorf("rests for %v", rest)
		}
		g.end("a")
		synctest.Wait()
		g.end("b")
		synctest.Wait()
		r.mustBe("q", "b", "done")
		if !r.woken() {
			t.Error("no loop is woken")
		}
		r.settled()
		r.add("q", "c")
		r.tell("q")
		_, _ = r.turn()
		g.end("c")
		synctest.Wait()
		r.woken()
		if rest := r.settled(); rest <= 0 || rest > testInterval {
			t.Errorf("rests for %v", rest)
		}
		r.pump.mu.Lock()
		idle := !r.pump.restless(time.Now())
		r.pump.mu.Unlock()
		if !idle {
			t.Error("a loop that rests until it looks would be woken once more")
		}
	})
}

// A turn of a worker that fails is made again by a loop, which knows how to back off.
func TestLedTurnFails(t *testing.T) {
	for name, f := range map[string]fate{"lost": lost, "unanswered": unanswered} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, g := led(t, 1), newGates()
				r.handle = g.handle
				r.add("q", "a", "b")
				r.tell("q")
				_, _ = r.turn()
				r.woken()
				r.set(func() { r.fate = func(*rdb.Turn) fate { return f } })
				g.end("a")
				synctest.Wait()
				if !r.woken() {
					t.Error("no loop is woken")
				}
				r.mustFail() // the loop's own try
				r.set(func() { r.fate = nil })
				g.end("b")
				time.Sleep(2 * fetchPatience)
				r.settled()
				time.Sleep(2 * fetchPatience)
				r.settled()
				r.mustBe("q", "a", "done")
				r.mustBe("q", "b", "done")
				r.mustBeFree()
			})
		})
	}
}

// panicky panics in the place of Redis, which code of the user's may do: go-redis calls hooks.
type panicky struct {
	*memory
	on bool
}

func (p *panicky) Turn(ctx context.Context, t *rdb.Turn) {
	if p.on {
		p.on = false
		panic("a hook")
	}
	p.memory.Turn(ctx, t)
}

func TestLedTurnPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := led(t, 1), newGates()
		r.handle = g.handle
		broker := &panicky{memory: r.memory}
		r.cfg.Broker = broker
		r.add("q", "a", "b")
		r.tell("q")
		_, _ = r.turn()
		r.woken()
		broker.on = true
		g.end("a")
		synctest.Wait()
		r.mustLog(1, "a turn panicked", "a hook")
		if !r.woken() {
			t.Error("no loop is woken")
		}
		if r.pump.trips[0].busy || r.pump.flying != 0 {
			t.Error("the trip was not handed back")
		}
	})
}

// A queue that gets tasks while a worker leads, and all slots are another lane's, is asked when one of those is free.
func TestWorkerLeavesAWishForASlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newRig(t, 1, map[string]int{"p": 1, "q": 1}, []string{"p"}, []string{"q"}), newGates()
		r.cfg.WorkersLead, r.handle = true, g.handle
		r.add("p", "a")
		r.settled()
		r.latency = time.Second
		g.end("a")
		synctest.Wait() // its worker's turn is on its way
		r.add("q", "b")
		go func() { _, _ = r.pumps[1].trips[0].Turn(context.Background()) }()
		synctest.Wait()
		r.add("p", "c")
		r.tell("p")
		if rest, _ := r.turn(); rest != untilWoken {
			t.Errorf("beside a worker that leads, the loop rests for %v", rest)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.mustBe("q", "b", "active")
		r.woken()
		g.end("b")
		synctest.Wait()
		if !r.woken() {
			t.Error("a slot is free, and nobody who wants it is told")
		}
		r.settled()
		r.mustBe("p", "c", "active")
		g.end("c")
		time.Sleep(4 * time.Second)
		for _, p := range r.pumps {
			_, _ = p.trips[0].Turn(context.Background())
		}
		r.mustBeFree()
	})
}
