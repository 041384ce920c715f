package worker

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/rdb"
)

const (
	// maxFetch bounds the tasks of one fetch; so do the scripts.
	maxFetch = 500
	// fewSlots is up to which Concurrency the pump lets other goroutines run after it has handed out tasks. Handlers that are
	// quick have ended then, and the next turn settles all of them; without that it would leave with the first few, and each
	// task would cost more of a round trip. With more slots it does better not to wait: while Redis works on one half of them,
	// the handlers work on the other.
	fewSlots = 32
	// fetchPatience is how long after it was sent a fetch may still be executed. It is longer than a reply may take.
	fetchPatience = 10 * time.Second
	// The pause before a queue is asked again that refused a turn, doubled with each refusal in a row.
	minQueuePause = 100 * time.Millisecond
	maxQueuePause = 5 * time.Second
)

// Pump moves the tasks of one lane: fetches them for the free slots and settles them when they have run.
type Pump struct {
	pool   *Pool
	cfg    *Config
	slots  *slots
	demand *demand
	waiter Waiter
	wake   chan struct{} // ends the rest between two turns

	// Of the turn alone: no other goroutine touches these.
	turn      rdb.Turn
	unsettled []*Attempt // finished, and not in this turn
	sent      []*Attempt // whose settlements are in this turn
	doubts    []*doubt
	nextLook  time.Time // at queues whose tasks may come without a marker
	clock     redisClock
	begun     uint64 // attempts so far

	mu       sync.Mutex
	queues   []*queueState // most important first
	finished []*Attempt    // since the last turn
	open     []*Attempt    // not settled yet
	inFlight bool          // the turn that is on its way fetches
	waiting  []string      // the queues that the waiter waits for now; nil: it does not wait
	roused   bool          // the waiter was told that the queues are others now
	waitWake chan struct{} // ends the waiter loop's rest
}

// doubt is a fetch whose reply was lost.
type doubt struct {
	undo   rdb.Undo
	due    time.Time // when to undo it
	begun  time.Time // when the undo that is on began to look through the leases
	final  time.Time // after which it can no longer be executed: the undo after that is the last
	sent   bool      // in this turn
	undone bool      // once at least
}

// redisClock estimates the time that Redis has from the replies of fetches.
type redisClock struct {
	known  bool
	redis  int64 // unix ms
	seenAt time.Time
}

func (c *redisClock) learn(ms int64, at time.Time) {
	*c = redisClock{known: true, redis: ms, seenAt: at}
}

// in returns the time of Redis after d from now in unix ms, 0 if it is not known.
func (c *redisClock) in(d time.Duration, now time.Time) int64 {
	if !c.known {
		return 0
	}
	return c.redis + (now.Sub(c.seenAt) + d).Milliseconds()
}

func newPump(pool *Pool, lane []string, waiter Waiter) *Pump {
	p := &Pump{
		pool: pool, cfg: &pool.cfg, slots: pool.slots, waiter: waiter,
		wake: make(chan struct{}, 1), waitWake: make(chan struct{}, 1),
	}
	for _, name := range lane {
		p.queues = append(p.queues, &queueState{
			name: name, weight: max(pool.cfg.Queues[name], 1), maxActive: pool.cfg.MaxActive[name],
			complain: rate.Sometimes{First: 1, Interval: 30 * time.Second}, // a queue may stay broken for long
		})
	}
	slices.SortFunc(p.queues, func(a, b *queueState) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	p.demand = pool.slots.join(p.signal)
	return p
}

// Wake ends the rest between two turns.
func (p *Pump) Wake() <-chan struct{} { return p.wake }

func (p *Pump) signal() { notify(p.wake) }

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// finish hands an attempt over to be settled.
func (p *Pump) finish(a *Attempt) {
	p.mu.Lock()
	p.finished = append(p.finished, a)
	p.mu.Unlock()
	p.signal()
}

// Turn is one round trip: settle what has finished, fetch for the free slots. It is the pump loop's tick: the duration is how
// long there is nothing to do, unless woken.
func (p *Pump) Turn(ctx context.Context) (time.Duration, error) {
	now := time.Now()
	if err := p.look(ctx, now); err != nil {
		p.slots.setHealthy(p.demand, false)
		return 0, err
	}
	p.plan(now)
	if p.turn.Empty() {
		p.rouseWaiter(ctx)
		return p.rest(now), nil
	}
	sent, before := uptime(), p.begun
	p.cfg.Broker.Turn(ctx, &p.turn)
	err := p.learn(sent)
	p.slots.setHealthy(p.demand, err == nil)
	p.rouseWaiter(ctx)
	if p.begun > before && p.cfg.Concurrency <= fewSlots {
		runtime.Gosched()
	}
	return 0, err
}

// plan decides what this turn does.
func (p *Pump) plan(now time.Time) {
	t := &p.turn
	t.Undo, t.Settle, t.Fetch = t.Undo[:0], t.Settle[:0], t.Fetch[:0]
	for _, d := range p.doubts {
		if d.sent = !now.Before(d.due); d.sent {
			if d.undo.Begins() {
				d.begun = now
			}
			t.Undo = append(t.Undo, &d.undo)
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsettled = append(p.unsettled, p.finished...)
	clear(p.finished)
	p.finished = p.finished[:0]
	later := p.unsettled[:0]
	for _, a := range p.unsettled {
		if now.Before(p.queue(a.Queue).retryAt) {
			later = append(later, a)
			continue
		}
		p.sent = append(p.sent, a)
		t.Settle = append(t.Settle, &a.settlement)
	}
	clear(p.unsettled[len(later):])
	p.unsettled = later

	if !p.pool.fetching.Load() {
		p.slots.reserve(p.demand, 0, 0)
		return
	}
	var ready []*queueState
	weight, priority := 0, 0
	for _, q := range p.queues {
		if q.shut && slices.ContainsFunc(t.Settle, func(s *rdb.Settlement) bool { return s.Queue == q.name }) {
			q.shut, q.dry = false, false // a task of it ends in this very turn, before the fetch: there may be room again
		}
		if q.ready(now) {
			ready = append(ready, q)
			weight += q.weight
			priority = max(priority, q.weight)
		}
	}
	free := p.slots.reserve(p.demand, weight, priority)
	used := 0
	share(free, ready, p.cfg.Strict, func(q *queueState, n int) {
		n = min(n, maxFetch)
		used += n
		q.asked, q.told = q.told, false
		t.Fetch = append(t.Fetch, &rdb.Fetch{
			Queue: q.name, N: n, Token: p.token(), Lease: p.cfg.Lease, MaxActive: q.maxActive,
			NotAfter: p.clock.in(fetchPatience, now),
		})
	})
	p.slots.release(free - used)
	p.inFlight = len(t.Fetch) > 0
}

// token makes a token that no other fetch has.
func (p *Pump) token() string {
	return p.cfg.TokenPrefix + strconv.FormatUint(p.pool.fetches.Add(1), 36)
}
