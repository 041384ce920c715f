package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newHandRig makes a rig whose tasks are taken by hand, from the queue q.
func newHandRig(t testing.TB) *rig {
	r := oneQueue(t, 100)
	cfg := *r.cfg
	waiter := &memWaiter{m: r.memory}
	cfg.Hand = &HandConfig{
		Lane: func(string) string { return "" }, NewWaiter: func(string) Waiter { return waiter }, Begin: func(*Pump) {},
	}
	r.pool = NewPool(cfg)
	t.Cleanup(r.pool.Close)
	r.cfg, r.waiters = &r.pool.cfg, []*memWaiter{waiter}
	r.pump = r.pool.pumpOf("q")
	return r
}

// taken is what came of a Take.
type taken struct {
	ids []string
	err error
}

// take begins a Take of tasks of q, and lets it wait.
func (r *rig) take(ctx context.Context, n int) <-chan taken {
	result := make(chan taken, 1)
	go func() {
		attempts, err := r.pool.Take(ctx, n, []string{"q"})
		got := taken{err: err}
		for _, a := range attempts {
			got.ids = append(got.ids, a.Message.ID)
		}
		result <- got
	}()
	synctest.Wait()
	return result
}

func wantTaken(t testing.TB, result <-chan taken, err error, ids ...string) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-result:
		if !errors.Is(got.err, err) || !slices.Equal(got.ids, ids) {
			t.Errorf("took %q, error %v, want %q and %v", got.ids, got.err, ids, err)
		}
	default:
		t.Errorf("the Take still waits, want %q", ids)
	}
}

func TestTakesAreServedInTheirOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newHandRig(t)
		r.add("q", "a", "b", "c", "d")
		r.settled()
		r.mustHaveAsked() // nobody waits
		first, second, third := r.take(t.Context(), 2), r.take(t.Context(), 1), r.take(t.Context(), 3)
		_, _ = r.turn()
		r.mustHaveAsked("fetch 6 of q")
		wantTaken(t, first, nil, "a", "b")
		wantTaken(t, second, nil, "c")
		wantTaken(t, third, nil, "d")
	})
}

func TestTasksOfATakeThatHasEndedGoToOthersOrBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newHandRig(t)
		r.add("q", "a", "b", "c", "d")
		r.latency = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		left := r.take(ctx, 3)
		go func() { _, _ = r.pump.trips[0].Turn(t.Context()) }()
		time.Sleep(time.Second) // the fetch is in Redis
		cancel()
		wantTaken(t, left, context.Canceled)
		late := r.take(t.Context(), 1)
		time.Sleep(2 * time.Second)
		wantTaken(t, late, nil, "a")
		r.settled()
		r.mustBe("q", "b", "pending")
		r.mustBe("q", "c", "pending")
		if got := r.queues["q"].pending; !slices.Equal(got, []string{"b", "c", "d"}) {
			t.Errorf("pending are %q", got)
		}
	})
}

func TestAMarkerForATakeThatHasEndedIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newHandRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		left := r.take(ctx, 1)
		r.settled() // q is dry
		r.add("q", "a")
		if _, err := r.pump.Wait(t.Context()); err != nil { // pops the marker
			t.Fatal(err)
		}
		cancel()
		wantTaken(t, left, context.Canceled)
		r.settled()
		if !slices.Equal(r.passed, []string{"q"}) {
			t.Errorf("the markers of %q were passed on, want that of q", r.passed)
		}
		r.mustBe("q", "a", "pending")
	})
}
