package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynq-go/asynq/internal/wire"
)

// Pool runs attempts on up to Concurrency goroutines, which live on between attempts, and has a pump per lane to feed them.
type Pool struct {
	cfg   Config
	slots *slots // which count nothing in a pool with a hand
	hand  *hand  // nil unless tasks are taken by hand

	mu    sync.Mutex // guards what follows, where there is a hand; it is never taken under a pump's
	pumps []*Pump
	lanes map[string]*Pump

	fetching atomic.Bool
	fetches  atomic.Uint64 // made so far, for tokens

	work chan *Attempt
	idle atomic.Int64 // goroutines that wait on work, less the attempts already sent to them

	closed sync.Once

	drained chan struct{} // told when a pump has no open attempts any more
}

// NewPool returns a pool that does nothing until the ticks of its pumps are called.
func NewPool(cfg Config) *Pool {
	pool := &Pool{
		cfg:     cfg,
		slots:   newSlots(cfg.Concurrency, cfg.Strict),
		work:    make(chan *Attempt, cfg.Concurrency), // as many as are ever sent: submit never blocks
		drained: make(chan struct{}, 1),
	}
	if cfg.Hand != nil {
		pool.hand, pool.lanes = newHand(cfg.Strict), make(map[string]*Pump)
	}
	pool.fetching.Store(true)
	return pool
}

// AddLane adds a pump for the queues of a lane. All lanes are added before the first tick.
func (pool *Pool) AddLane(lane []string, waiter Waiter) *Pump {
	p := newPump(pool, lane, waiter)
	pool.pumps = append(pool.pumps, p)
	return p
}

// submit hands an attempt to an idle goroutine, or to a new one. Every attempt has a slot, so there are never more than Concurrency,
// not counting those whose handler was given up.
func (pool *Pool) submit(a *Attempt) {
	if pool.idle.Add(-1) >= 0 {
		pool.work <- a
		return
	}
	pool.idle.Add(1)
	go pool.serve(a)
}

// serve runs an attempt, or none, and then others until the pool is closed.
func (pool *Pool) serve(a *Attempt) {
	for {
		for a != nil {
			a = a.pump.process(a)
		}
		pool.idle.Add(1)
		var ok bool
		if a, ok = <-pool.work; !ok {
			return
		}
	}
}

// StopFetching lets what has begun go on, and begins nothing new.
func (pool *Pool) StopFetching() {
	if pool.fetching.Swap(false) {
		if pool.hand != nil {
			giveBack(pool.hand.shut())
		}
		pool.signal()
	}
}

// all lists the pumps.
func (pool *Pool) all() []*Pump {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	return slices.Clip(pool.pumps)
}

func (pool *Pool) signal() {
	for _, p := range pool.all() {
		p.signal()
	}
}

// Drain waits until every attempt is settled, or ctx ends. It is called after StopFetching, with the pumps still turning.
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

// Abort ends the contexts of all handlers that still run with ErrServerClosed, and gives their tasks back. What such a handler
// returns later changes nothing.
func (pool *Pool) Abort() {
	for _, p := range pool.all() {
		p.abort()
	}
}

// Close lets the idle goroutines end, and closes the waiters' connections. No tick may run any more.
func (pool *Pool) Close() {
	for _, p := range pool.all() {
		p.waiter.Close()
	}
	pool.closed.Do(func() {
		close(pool.work)
		if pool.hand != nil {
			close(pool.hand.ended)
		}
	})
}

// Open returns how many attempts are not settled yet.
func (pool *Pool) Open() int {
	n := 0
	for _, p := range pool.all() {
		n += p.openCount()
	}
	return n
}

// Running lists the attempts whose handlers run.
func (pool *Pool) Running() []*Attempt {
	var all []*Attempt
	for _, p := range pool.all() {
		p.each(func(a *Attempt) bool { return a.progress.Load() == running }, func(a *Attempt) { all = append(all, a) })
	}
	return all
}

// Cancel ends the context of the handlers of the tasks that a message names, as wire.ParseCancel reads it, and notes what is to become of
// them: of a task that is canceled several times, what was said last, while saying nothing of it changes nothing.
func (pool *Pool) Cancel(message string) {
	id, fate := wire.ParseCancel(message)
	for _, p := range pool.all() {
		p.each(func(a *Attempt) bool { return a.Message.ID == id }, func(a *Attempt) {
			if fate != wire.FateRetry {
				a.fate.Store(int32(fate))
			}
			a.Cancel(ErrCanceled)
		})
	}
}

// PassMarkers tells other servers of the tasks in the queues: a marker may have been lost with this server's connection.
func (pool *Pool) PassMarkers(ctx context.Context) error {
	var errs []error
	for _, p := range pool.all() {
		for _, name := range p.names() {
			errs = append(errs, pool.cfg.Broker.PassMarker(ctx, name))
		}
	}
	return errors.Join(errs...)
}

// names lists the queues of the lane.
func (p *Pump) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, len(p.queues))
	for i, q := range p.queues {
		names[i] = q.name
	}
	return names
}
