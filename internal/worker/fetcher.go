package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/batch"
	"github.com/asynq-go/asynq/internal/rdb"
)

const (
	// maxFetch limits the tasks of one fetch. The scripts have the same limit.
	maxFetch = 500
	// fewSlots is the highest Concurrency at which a round trip first yields to other goroutines.
	// Quick handlers finish in that time, and one round trip settles them all; without the yield it
	// would leave with the first, and each task would cost more of a round trip. With more slots,
	// waiting does not pay: while Redis processes one half of them, the handlers work on the other.
	fewSlots = 32
	// maxYields and maxYielding limit how long a round trip waits for attempts to start.
	maxYields   = 16
	maxYielding = time.Millisecond
	// minSecond is the least number of outcomes for a second round trip while the first is in
	// flight: each has a fixed cost. If half of the slots are fewer than that, there is no second
	// round trip; if they are more, half of the slots are needed.
	minSecond = 25
	// maxBundle limits the tasks that a queue gets at once although its share of a round trip is
	// less: a fetch costs Redis as much as two tasks. A bundle is at most an eighth of the slots.
	maxBundle = 16
	// quickAttempt is how long an attempt may take for its queue to get bundles. Slower tasks would
	// occupy the slots for which other queues wait.
	quickAttempt = 10 * time.Millisecond
	// maxSettled limits the outcomes of one round trip, and maxSettledBytes the size of their
	// messages (the last one may exceed it): all replies must arrive within the read timeout of a
	// connection.
	maxSettled      = 2000
	maxSettledBytes = 8 << 20
	// fetchValidity is the time after sending during which Redis may still execute a fetch. It is
	// longer than the read timeout.
	fetchValidity = 10 * time.Second
	// wakeBackoff is the pause before waiting again for the marker of a queue whose last marker led
	// to no task. A queue at capacity leaves a new marker with each task enqueued to it.
	wakeBackoff = 20 * time.Millisecond
	// maxHold is how long a lone outcome waits for the next marker, if the last ones followed each
	// other within this time.
	maxHold = 2 * time.Millisecond
	// The pause of a queue that rejected a round trip. It doubles with each consecutive rejection.
	minQueuePause = 100 * time.Millisecond
	maxQueuePause = 5 * time.Second
	// untilWoken is the delay of a loop that only a wake continues.
	untilWoken time.Duration = -1
	// waitTimeout limits one wait for markers, and so the time until a dead connection is detected.
	waitTimeout = 10 * time.Second
)

// Fetcher moves the tasks of one lane: it fetches tasks for the free slots, and settles them after
// they ran. Its loops call Redis; what they send and what the replies change is decided by lane.
type Fetcher struct {
	pool       *Pool
	cfg        *Config
	demand     demand
	waiter     rdb.Waiter
	extensions *batch.Batcher[[]*extension] // by callers that received tasks
	results    *batch.Batcher[*Attempt]
	reports    *batch.Batcher[*Attempt] // of progress
	reportLog  rate.Sometimes           // of their errors
	wake       chan struct{}            // ends the pause between two round trips

	starting atomic.Int64 // fetched attempts whose goroutine does not run yet

	mu         sync.Mutex
	lane       lane
	kept       bool          // an attempt was created from a lease received elsewhere
	failed     *RoundTrip    // whose last round trip failed
	idleUntil  time.Time     // when an idle loop ticks without a wake; zero: never, or it is busy
	waitingFor []string      // queues that the waiter waits for; nil: it is not waiting
	unblocked  bool          // the waiter was unblocked because its queues changed
	waitWake   chan struct{} // ends the pause of the waiter's loop
}

func newFetcher(pool *Pool, queues []string, waiter rdb.Waiter) *Fetcher {
	f := &Fetcher{
		pool: pool, cfg: &pool.cfg, waiter: waiter, wake: make(chan struct{}, 1), waitWake: make(chan struct{}, 1),
		reportLog: rate.Sometimes{First: 1, Interval: 30 * time.Second},
	}
	f.results, f.reports = f.newResults(), f.newReports()
	f.extensions = batch.New(batch.Config[[]*extension]{Send: func(calls [][]*extension) {
		f.extend(context.Background(), slices.Concat(calls...))
	}})
	f.demand = pool.newDemand(f.signal)
	f.lane = lane{
		cfg: f.cfg, demand: f.demand, newToken: pool.newToken, byName: make(map[string]*queueState, len(queues)),
		trips: []*RoundTrip{f.newRoundTrip()},
	}
	for _, name := range queues {
		f.lane.queue(name)
	}
	if half := pool.cfg.Concurrency / 2; half >= minSecond {
		f.lane.gate.Second = half
		f.lane.trips = append(f.lane.trips, f.newRoundTrip())
	}
	return f
}

// RoundTrips returns the round trips that may be in flight at the same time. Each needs a loop.
func (f *Fetcher) RoundTrips() []*RoundTrip { return f.lane.trips }

func (f *Fetcher) signal() { notify(f.wake) }

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// addFinished adds an attempt to those to settle, and reports whether a round trip should start
// now.
func (f *Fetcher) addFinished(a *Attempt) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &f.lane
	l.finished = append(l.finished, a)
	if !l.worthSending() || !l.trickle {
		return l.worthSending()
	}
	now := time.Now()
	if !l.holds(now) {
		return true
	}
	if l.needsWake(now, f.idleUntil) {
		f.signal() // a loop sends it when it has waited long enough
	}
	return false
}

// each calls fn for every open attempt for which keep returns true. It does not hold the lock
// during fn.
func (f *Fetcher) each(keep func(a *Attempt) bool, fn func(a *Attempt)) {
	f.mu.Lock()
	var some []*Attempt
	for _, a := range f.lane.open {
		if keep(a) {
			some = append(some, a)
		}
	}
	f.mu.Unlock()
	for _, a := range some {
		fn(a)
	}
}

// queueNames returns the queues of the lane.
func (f *Fetcher) queueNames() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, len(f.lane.queues))
	for i, q := range f.lane.queues {
		names[i] = q.name
	}
	return names
}

// Wait blocks until an idle queue has a marker. It is the tick of a loop.
func (f *Fetcher) Wait(ctx context.Context) (time.Duration, error) {
	queues := f.startWaiting()
	if len(queues) == 0 {
		return untilWoken, nil
	}
	name, err := f.waiter.Wait(ctx, queues, waitTimeout)
	f.mu.Lock()
	f.waitingFor, f.unblocked = nil, false
	if name != "" {
		f.lane.woken(name, time.Now())
	}
	f.mu.Unlock()
	if err != nil || name == "" {
		return 0, err
	}
	f.signal()
	return untilWoken, nil // the next round trip finds out which queues are empty
}

// WaitWake ends the pause between two waits.
func (f *Fetcher) WaitWake() <-chan struct{} { return f.waitWake }

// startWaiting returns the queues to wait for, and records them as those of the waiter.
func (f *Fetcher) startWaiting() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waitingFor = f.lane.awaited(time.Now())
	return f.waitingFor
}

// updateWaiter makes the waiter wait for the queues that are idle now.
func (f *Fetcher) updateWaiter(ctx context.Context) {
	f.mu.Lock()
	idle := f.lane.awaited(time.Now())
	waiting := f.waitingFor
	unblock := waiting != nil && !f.unblocked && !containsAll(waiting, idle)
	f.unblocked = f.unblocked || unblock
	f.mu.Unlock()
	switch {
	case len(idle) == 0:
	case waiting == nil:
		notify(f.waitWake)
	case unblock:
		if err := f.waiter.Unblock(ctx); err != nil {
			f.cfg.Log.Warn("wait for tasks not updated, relying on polling", "error", err)
		}
	}
}

// containsAll reports whether others contains all names. Both have the order of lane.queues, unless
// that has changed in between; a false result then only costs another wait.
func containsAll(others, names []string) bool {
	for _, name := range names {
		i := slices.Index(others, name)
		if i < 0 {
			return false
		}
		others = others[i+1:]
	}
	return true
}
