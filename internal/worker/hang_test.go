package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// hanging is a broker that delays the fetches from one queue.
type hanging struct {
	*memory
	queue string
	took  time.Duration
	cut   bool // fail with a connection error at the end instead of executing them
	began chan struct{}
}

func (b *hanging) RoundTrip(ctx context.Context, turn *rdb.RoundTrip) {
	if !slices.ContainsFunc(turn.Fetch, func(fetch *rdb.Fetch) bool { return fetch.Queue == b.queue }) &&
		!slices.ContainsFunc(turn.Reclaim, func(u *rdb.Reclaim) bool { return u.Queue == b.queue }) {
		b.memory.RoundTrip(ctx, turn)
		return
	}
	notify(b.began)
	time.Sleep(b.took)
	if !b.cut {
		b.memory.RoundTrip(ctx, turn)
		return
	}
	for _, u := range turn.Reclaim {
		u.Err = errCut
	}
	for _, s := range turn.Settle {
		s.Err = errCut
	}
	for _, fetch := range turn.Fetch {
		fetch.Err = errCut
	}
}

// A hanging fetch, for example of a shard that is down, has reserved slots. Lanes that want them
// must get them after minLendDelay, not only when the fetch fails.
func TestHangingFetchDoesNotBlockOtherLanes(t *testing.T) {
	for _, strict := range []bool{false, true} {
		for _, concurrency := range []int{1, 2, 10} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, concurrency, map[string]int{"alive": 1, "dead": 9}, []string{"dead"}, []string{"alive"})
				r.cfg.Strict, r.pool.slots.strict = strict, strict
				b := &hanging{memory: r.memory, queue: "dead", took: 10 * time.Second, cut: true, began: make(chan struct{}, 1)}
				r.cfg.Broker = b
				began := make(chan time.Time, 100)
				r.handle = func(context.Context, *Attempt) error {
					began <- time.Now()
					return nil
				}
				r.fetchers[1].lane.queue("alive").phase = empty // as after a poll; the other lane has all slots
				defer r.stop(r.run())
				<-b.began
				var longest time.Duration
				for range 50 {
					at := time.Now()
					r.add("alive", at.String())
					longest = max(longest, (<-began).Sub(at))
					time.Sleep(700 * time.Millisecond)
				}
				if longest > time.Second {
					t.Errorf("strict %v, concurrency %d: a task of the other lane waited for %v", strict, concurrency, longest)
				}
				r.pool.StopFetching()
			})
		}
	}
}

// The tasks of a late fetch get the slots that are free then. The others are requeued in their
// order, and no more handlers run than there are slots.
func TestLateFetchGetsFreeSlotsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, map[string]int{"alive": 1, "slow": 9}, []string{"alive"}, []string{"slow"})
		b := &hanging{memory: r.memory, queue: "slow", took: 3 * time.Second, began: make(chan struct{}, 1)}
		r.cfg.Broker = b
		g := newGates()
		r.handle = g.handle
		r.addSilently("slow", "s1", "s2", "s3", "s4", "s5")
		defer r.stop(r.run())
		<-b.began
		r.add("alive", "a1", "a2", "a3")
		time.Sleep(time.Second)
		g.mustHaveStarted(t, "a1", "a2", "a3")
		time.Sleep(b.took)
		synctest.Wait()
		g.mustHaveStarted(t, "s1")
		for _, id := range []string{"s2", "s3", "s4", "s5"} {
			r.mustBe("slow", id, "pending")
		}
		g.end("a1", "a2")
		time.Sleep(2 * b.took)
		g.mustHaveStarted(t, "s2", "s3")
		g.end("a3", "s1", "s2", "s3")
		time.Sleep(2 * b.took)
		g.mustHaveStarted(t, "s4", "s5")
		g.end("s4", "s5")
		time.Sleep(2 * b.took)
		r.mustBeFree()
		r.pool.StopFetching()
	})
}
