package worker

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// newReceiverRig makes a rig with a receiver and the queue q.
func newReceiverRig(t testing.TB) *rig {
	r := oneQueue(t, 100)
	cfg := *r.cfg
	waiter := &memWaiter{m: r.memory}
	cfg.Receiver = &ReceiverConfig{
		Lane: func(string) string { return "" }, NewWaiter: func(string) rdb.Waiter { return waiter }, Start: func(*Fetcher) {},
	}
	r.pool = NewPool(cfg)
	t.Cleanup(r.pool.Close)
	r.cfg, r.waiters = &r.pool.cfg, []*memWaiter{waiter}
	r.fetcher = r.pool.fetcherFor("q", false)
	return r
}

// received is the result of a call of Receive.
type received struct {
	ids []string
	err error
}

// receive starts a call of Receive for tasks of q, and waits until it blocks.
func (r *rig) receive(ctx context.Context, n int) <-chan received {
	result := make(chan received, 1)
	go func() {
		attempts, err := r.pool.Receive(ctx, n, []string{"q"})
		got := received{err: err}
		for _, a := range attempts {
			got.ids = append(got.ids, a.Message.ID)
		}
		result <- got
	}()
	synctest.Wait()
	return result
}

func wantReceived(t testing.TB, result <-chan received, err error, ids ...string) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-result:
		if !errors.Is(got.err, err) || !slices.Equal(got.ids, ids) {
			t.Errorf("received %q, error %v, want %q and %v", got.ids, got.err, ids, err)
		}
	default:
		t.Errorf("Receive still waits, want %q", ids)
	}
}

func TestReceiversAreServedInOrder(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newReceiverRig(t)
		r.add("q", "a", "b", "c", "d")
		r.drainWork()
		r.mustHaveSent() // no call waits
		first, second, third := r.receive(t.Context(), 2), r.receive(t.Context(), 1), r.receive(t.Context(), 3)
		_, _ = r.roundTrip()
		r.mustHaveSent("fetch 6 of q")
		wantReceived(t, first, nil, "a", "b")
		wantReceived(t, second, nil, "c")
		wantReceived(t, third, nil, "d")
	})
}

func TestTasksOfACanceledReceive(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newReceiverRig(t)
		r.add("q", "a", "b", "c", "d")
		r.latency = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		left := r.receive(ctx, 3)
		go func() { _, _ = r.fetcher.lane.trips[0].Tick(t.Context()) }()
		time.Sleep(time.Second) // the fetch is in Redis
		cancel()
		wantReceived(t, left, context.Canceled)
		late := r.receive(t.Context(), 1)
		time.Sleep(2 * time.Second)
		wantReceived(t, late, nil, "a")
		r.drainWork()
		r.mustBe("q", "b", "pending")
		r.mustBe("q", "c", "pending")
		if got := r.queues["q"].pending; !slices.Equal(got, []string{"b", "c", "d"}) {
			t.Errorf("pending are %q", got)
		}
	})
}

func TestMarkerOfACanceledReceiveIsPassedOn(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newReceiverRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		left := r.receive(ctx, 1)
		r.drainWork() // q is empty
		r.add("q", "a")
		if _, err := r.fetcher.Wait(t.Context()); err != nil { // pops the marker
			t.Fatal(err)
		}
		cancel()
		wantReceived(t, left, context.Canceled)
		r.drainWork()
		if !slices.Equal(r.passed, []string{"q"}) {
			t.Errorf("the markers of %q were passed on, want that of q", r.passed)
		}
		r.mustBe("q", "a", "pending")
	})
}

// Queues of a lane of their own leave nothing behind when no call waits for them, including loops.
func TestUnusedQueuesArePruned(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newReceiverRig(t)
		pool := r.pool
		var start, ended []*Fetcher
		pool.cfg.Receiver.Lane = func(queue string) string { return queue }
		pool.cfg.Receiver.Start = func(f *Fetcher) { start = append(start, f) }
		pool.cfg.Receiver.Stop = func(f *Fetcher) { ended = append(ended, f) }
		pool.receiver.weights = map[string]int{"q": 1}
		r.fetcher = pool.fetcherFor("q", false)
		wait := func(ctx context.Context, queues ...string) {
			go func() { _, _ = pool.Receive(ctx, 1, queues) }()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx, "gone", "q")
		wait(t.Context(), "waited for")
		pool.fetcherFor("adopted", true)
		pool.Prune()
		if len(ended) != 0 {
			t.Errorf("%d fetchers were stopped while a call waits", len(ended))
		}
		cancel()
		synctest.Wait()
		pool.Prune()
		if _, kept := pool.lanes["gone"]; kept || len(ended) != 1 || len(start) != 4 || pool.lanes["q"] == nil || pool.lanes["adopted"] == nil {
			t.Errorf("%d fetchers were started and %d stopped, want the unused one to be stopped", len(start), len(ended))
		}
		wait(t.Context(), "gone") // a new request for it
		if pool.lanes["gone"] == nil || pool.lanes["gone"] == ended[0] || len(pool.lanes["gone"].lane.queues) != 1 {
			t.Error("no wait for the pruned queue")
		}
	})
}

// Between two calls of Prune, the number of queues with state is limited.
func TestQueueCountIsBounded(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newReceiverRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 3 * minQueueCount / 1000 {
			queues := make([]string, 1000)
			for j := range queues {
				queues[j] = "unknown:" + strconv.Itoa(1000*i+j)
			}
			if _, err := r.pool.Receive(ctx, 1, queues); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if n := len(r.fetcher.lane.queues); n > minQueueCount+1000 || n != len(r.fetcher.lane.byName) || len(r.pool.receiver.demand) != 0 {
			t.Errorf("%d queues have state, want at most %d", n, minQueueCount+1000)
		}
		r.pool.Prune()
		if n := len(r.fetcher.lane.queues); n != len(r.pool.receiver.weights) {
			t.Errorf("%d unused queues have state", n)
		}
	})
}

// Concurrent calls of Extend share requests, and each gets its own replies.
func TestExtensionsShareRequests(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := newReceiverRig(t)
		const n = 20
		for i := range n {
			r.addSilently("q", strconv.Itoa(i))
		}
		got := make(chan []*Attempt, 1)
		go func() {
			attempts, _ := r.pool.Receive(t.Context(), n, []string{"q"})
			got <- attempts
		}()
		synctest.Wait()
		_, _ = r.roundTrip()
		attempts := <-got
		r.set(func() { r.queues["q"].tasks["7"].token = "of another" })
		r.set(func() { r.latency = time.Second })
		start := time.Now()
		var all sync.WaitGroup
		for i, a := range attempts {
			all.Go(func() {
				var want error
				if i == 7 {
					want = ErrLeaseExpired
				}
				if err := r.pool.Extend(t.Context(), []*Attempt{a})[0]; !errors.Is(err, want) {
					t.Errorf("extension %d: %v", i, err)
				}
				if took := time.Since(start); took > 4*time.Second {
					t.Errorf("extension %d took %v", i, took)
				}
			})
		}
		all.Wait()
		r.set(func() {
			if r.extends > 2 {
				t.Errorf("%d requests", r.extends)
			}
		})
	})
}
