package worker

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Pool runs attempts on up to Concurrency goroutines, which it reuses, and has one fetcher per
// lane.
type Pool struct {
	cfg      Config
	slots    *slots    // unused with a receiver
	receiver *receiver // nil unless callers receive tasks

	mu       sync.Mutex // guards the fields below, with a receiver; never acquired while a fetcher's lock is held
	fetchers []*Fetcher
	lanes    map[string]*Fetcher

	queueCount int // approximate number of queues with state
	pruneAt    int // value of queueCount that triggers prune

	fetches atomic.Uint64 // so far, for tokens

	unhandledLog typeLog // of returned tasks

	work chan *Attempt
	idle atomic.Int64 // goroutines that wait on work, minus the attempts sent to them

	closed sync.Once

	resizing sync.Mutex // held by Resize

	drained chan struct{} // signaled when a fetcher has no open attempts any more
}

// NewPool returns a pool. It does nothing until the ticks of its fetchers are called.
func NewPool(cfg Config) *Pool {
	pool := &Pool{
		cfg:     cfg,
		slots:   newSlots(cfg.Concurrency, cfg.Strict),
		work:    make(chan *Attempt, cfg.Concurrency), // so that submit rarely blocks
		drained: make(chan struct{}, 1),
	}
	pool.cfg.concurrency = &atomic.Int64{}
	pool.cfg.concurrency.Store(int64(cfg.Concurrency))
	if cfg.Receiver != nil {
		pool.receiver, pool.lanes = newReceiver(&cfg), make(map[string]*Fetcher)
		pool.pruneAt = minQueueCount
	}
	return pool
}

// newDemand returns the demand of a lane. wake is called when there is some that was not met.
func (pool *Pool) newDemand(wake func()) demand {
	if pool.receiver != nil {
		return pool.receiver
	}
	return pool.slots.join(&pool.cfg, wake)
}

// newToken returns a new token for a fetch.
func (pool *Pool) newToken() string {
	token := pool.cfg.TokenPrefix + strconv.FormatUint(pool.fetches.Add(1), 36)
	if pool.receiver != nil {
		token += "-" + strconv.FormatInt(time.Now().UnixMilli(), 36) // see receivedAt
	}
	return token
}

// AddLane adds a fetcher for the queues of a lane. Lanes must be added before the first tick.
func (pool *Pool) AddLane(lane []string, waiter rdb.Waiter) *Fetcher {
	f := newFetcher(pool, lane, waiter)
	pool.fetchers = append(pool.fetchers, f)
	return f
}

// Resize changes the number of slots. Running attempts continue: after a reduction, no attempt
// starts until fewer run than there are slots.
func (pool *Pool) Resize(n int) {
	pool.resizing.Lock()
	defer pool.resizing.Unlock()
	pool.slots.resize(n)
	pool.cfg.concurrency.Store(int64(n))
	for _, f := range pool.allFetchers() {
		f.mu.Lock()
		if len(f.lane.trips) > 1 {
			f.lane.gate.Second = max(n/2, minSecond)
		}
		f.mu.Unlock()
		f.signal()
	}
}

// PauseQueue stops or resumes fetching from a queue. Tasks of a fetch in flight return to the front
// of their queue; running attempts continue.
func (pool *Pool) PauseQueue(queue string, paused bool) {
	pool.slots.setPaused(queue, paused)
	pool.signal()
}

// submit passes an attempt to an idle goroutine or to a new one. Every attempt has a slot, so there
// are at most as many goroutines as there were slots, not counting those of abandoned handlers. If
// there are more slots than at the start, submit may wait for an idle goroutine to receive.
func (pool *Pool) submit(a *Attempt) {
	if pool.idle.Add(-1) >= 0 {
		pool.work <- a
		return
	}
	pool.idle.Add(1)
	go pool.serve(a)
}

// serve runs a, unless it is nil, and then other attempts until the pool is closed.
func (pool *Pool) serve(a *Attempt) {
	for {
		for a != nil {
			a = a.fetcher.process(a)
		}
		pool.idle.Add(1)
		var ok bool
		if a, ok = <-pool.work; !ok {
			return
		}
	}
}

// StopFetching stops fetching new tasks. Open attempts continue.
func (pool *Pool) StopFetching() {
	if pool.slots.closed.Swap(true) {
		return
	}
	if pool.receiver != nil {
		requeue(pool.receiver.closeAll())
	}
	pool.signal()
}

// allFetchers returns the fetchers.
func (pool *Pool) allFetchers() []*Fetcher {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	return slices.Clip(pool.fetchers)
}

func (pool *Pool) signal() {
	for _, f := range pool.allFetchers() {
		f.signal()
	}
}

// Drain waits until every attempt is settled, or ctx ends. Call it after StopFetching, while the
// loops still run.
func (pool *Pool) Drain(ctx context.Context) error {
	for pool.Open() > 0 {
		select {
		case <-pool.drained:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Abort cancels the contexts of all running handlers with ErrServerClosed, and requeues their
// tasks. It ignores what such a handler returns later.
func (pool *Pool) Abort() {
	for _, f := range pool.allFetchers() {
		f.abort()
	}
}

// Close ends the idle goroutines, and closes the waiters' connections. The loops must have stopped.
func (pool *Pool) Close() {
	for _, f := range pool.allFetchers() {
		f.waiter.Close()
	}
	pool.closed.Do(func() {
		close(pool.work)
		if pool.receiver != nil {
			close(pool.receiver.poolClosed)
		}
	})
}

// Open returns the number of attempts that are not settled yet.
func (pool *Pool) Open() int {
	n := 0
	for _, f := range pool.allFetchers() {
		f.mu.Lock()
		n += f.lane.openCount()
		f.mu.Unlock()
	}
	return n
}

// Running returns the attempts whose handlers run.
func (pool *Pool) Running() []*Attempt {
	var all []*Attempt
	for _, f := range pool.allFetchers() {
		f.each(func(a *Attempt) bool { return a.status.Load() == running }, func(a *Attempt) { all = append(all, a) })
	}
	return all
}

// Cancel cancels the handlers of the tasks that a message names, in the format of wire.ParseCancel,
// and records the requested outcome. If a task is canceled several times, the last requested
// outcome applies; a cancellation without one keeps it.
func (pool *Pool) Cancel(message string) {
	id, fate := wire.ParseCancel(message)
	for _, f := range pool.allFetchers() {
		f.each(func(a *Attempt) bool { return a.Message.ID == id }, func(a *Attempt) {
			if fate != wire.CancelRetry {
				a.cancelOutcome.Store(int32(fate))
			}
			a.Cancel(ErrCanceled)
		})
	}
}

// PassMarkers leaves new markers for the queues that have tasks: their markers may have been lost
// with this server's connection.
func (pool *Pool) PassMarkers(ctx context.Context) error {
	var errs []error
	for _, f := range pool.allFetchers() {
		names := f.queueNames()
		waiting, err := pool.cfg.Broker.Waiting(ctx, names)
		switch {
		case err == nil:
			names = waiting // few of many
		case !script.Refused(err):
			errs = append(errs, err)
			continue
		}
		for _, name := range names {
			errs = append(errs, pool.cfg.Broker.PassMarker(ctx, name))
		}
	}
	return errors.Join(errs...)
}
