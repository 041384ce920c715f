package worker

import (
	"cmp"
	"context"
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
	// fewSlots is up to which Concurrency a turn waits until other goroutines have run. Handlers that are quick have ended then, and it
	// settles all of them; otherwise it would leave with the first one, and each task would cost more of a round trip. With more
	// slots it does better not to wait: while Redis works on one half of them, the handlers work on the other.
	fewSlots = 32
	// minSecond is how many outcomes a second trip leaves with at least, while the first is on its way: each has a cost of its own. Where
	// half of the slots are fewer there is no second trip; where they are more, it leaves with those.
	minSecond = 25
	// maxSettled is how many outcomes a turn takes along, and maxSettledBytes how large their messages are, beyond the last one's: all
	// answers of a turn must come within the time that a connection has for one reading.
	maxSettled      = 2000
	maxSettledBytes = 8 << 20
	// fetchPatience is how long after it was sent a fetch may still be executed. It is longer than a reply may take.
	fetchPatience = 10 * time.Second
	// quiet is for how long a queue's marker is not waited for after it told nothing: each task that is enqueued where as many are active as
	// allowed leaves it anew.
	quiet = 20 * time.Millisecond
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

	trips []*Trip
	batch int // finished tasks that are worth a second trip while the first is on its way

	mu        sync.Mutex
	queues    []*queueState // most important first
	byName    map[string]*queueState
	finished  []*Attempt // since the last turn
	unsettled []*Attempt // finished, but not through with their last turn
	open      []*Attempt // not settled yet
	begun     uint64     // attempts so far
	flying    int        // trips that are out
	failed    *Trip      // whose last turn did not go through
	doubts    []*doubt
	clock     redisClock
	nextLook  time.Time     // at queues whose tasks may come without a marker
	waiting   []string      // the queues that the waiter waits for now; nil: it does not wait
	roused    bool          // the waiter was told that the queues are others now
	waitWake  chan struct{} // ends the waiter loop's rest

	ctx        context.Context // of the loops; nil before their first turn
	restsUntil time.Time       // when a loop goes on by itself; zero: when it is woken, or it is at work
}

// doubt is a fetch whose reply was lost.
type doubt struct {
	undo   rdb.Undo
	due    time.Time // when to undo it
	begun  time.Time // when the undo that is on began to look through the leases
	final  time.Time // after which it can no longer be executed: the undo after that is the last
	sent   bool      // in a turn that is on its way
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
		wake: make(chan struct{}, 1), waitWake: make(chan struct{}, 1), byName: make(map[string]*queueState, len(lane)),
	}
	for _, name := range lane {
		p.addQueue(name)
	}
	p.sortQueues()
	p.demand = pool.slots.join(p.signal)
	p.batch = max(minSecond, pool.cfg.Concurrency/2)
	p.trips = append(p.trips, &Trip{Pump: p, portions: make(map[string][]portion)})
	if p.batch <= pool.cfg.Concurrency/2 {
		p.trips = append(p.trips, &Trip{Pump: p, portions: make(map[string][]portion)})
	}
	return p
}

// addQueue adds a queue to the lane. The caller holds the lock, or has the pump for itself.
func (p *Pump) addQueue(name string) {
	q := &queueState{
		name: name, weight: max(p.cfg.Queues[name], 1), maxActive: p.cfg.MaxActive[name],
		complain: rate.Sometimes{First: 1, Interval: 30 * time.Second}, // a queue may stay broken for long
	}
	p.queues = append(p.queues, q)
	p.byName[name] = q
}

// sortQueues puts the most important queues first. The caller holds the lock, or has the pump for itself.
func (p *Pump) sortQueues() {
	slices.SortFunc(p.queues, func(a, b *queueState) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
}

// Trips are the pump's turns, each to be made by a loop of its own.
func (p *Pump) Trips() []*Trip { return p.trips }

func (p *Pump) signal() { notify(p.wake) }

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// finish hands an attempt over to be settled, and wakes a loop if a turn is to be made for it.
func (p *Pump) finish(a *Attempt) {
	if p.add(a) {
		p.signal()
	}
}

// add hands an attempt over to be settled, and reports whether a turn is to be made for it.
func (p *Pump) add(a *Attempt) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = append(p.finished, a)
	return p.worthATrip()
}

// token makes a token that no other fetch has.
func (p *Pump) token() string {
	token := p.cfg.TokenPrefix + strconv.FormatUint(p.pool.fetches.Add(1), 36)
	if p.pool.hand != nil {
		token += "-" + strconv.FormatInt(time.Now().UnixMilli(), 36) // see takenAt
	}
	return token
}
