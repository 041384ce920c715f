package worker

import (
	"context"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// untilWoken is a rest that only a wake ends.
const untilWoken time.Duration = -1

// waitTimeout is how long one wait for markers lasts. It bounds how long a dead connection goes unnoticed.
const waitTimeout = 10 * time.Second

// look asks, every CheckInterval, whether dry queues have tasks that came without a marker: from other libraries' processes, or
// with a marker that was lost with the server that popped it.
func (p *Pump) look(ctx context.Context, now time.Time) error {
	p.passOrphans(ctx)
	p.mu.Lock()
	if now.Before(p.nextLook) || !p.pool.fetching.Load() {
		p.mu.Unlock()
		return nil
	}
	p.nextLook = now.Add(p.cfg.CheckInterval)
	var dry []string
	for _, q := range p.queues {
		if q.dry && !now.Before(q.retryAt) && p.wants(q) {
			dry = append(dry, q.name)
		}
	}
	p.mu.Unlock()
	if len(dry) == 0 || p.pool.hand == nil && p.slots.available() == 0 {
		return nil
	}
	waiting, err := p.cfg.Broker.Waiting(ctx, dry)
	if rdb.Refused(err) {
		p.cfg.Log.Warn("Redis refused to tell which queues have tasks", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range waiting {
		q := p.queue(name)
		q.dry = false
	}
	return nil
}

// rest returns how long the pump has nothing to do unless it is woken.
func (p *Pump) rest(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flying > 0 {
		return untilWoken // whoever is back first sees to everything
	}
	due := p.nextDue()
	if due.IsZero() {
		return untilWoken
	}
	return max(due.Sub(now), time.Millisecond)
}

// nextDue returns when there is something to do next without being woken, zero if there is nothing. The caller holds the lock.
func (p *Pump) nextDue() (due time.Time) {
	sooner := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	for _, d := range p.doubts {
		sooner(d.due)
	}
	now, fetching := time.Now(), p.pool.fetching.Load()
	for _, q := range p.queues {
		if now.Before(q.retryAt) { // also while not fetching: outcomes may be held back until then
			sooner(q.retryAt)
		}
		if q.dry && fetching && p.wants(q) {
			sooner(p.nextLook)
			if now.Before(q.quietTo) {
				sooner(q.quietTo) // to wait for its marker again
			}
		}
	}
	return due
}

// Wait blocks until a dry queue is told to have tasks. It is the tick of a loop of its own.
func (p *Pump) Wait(ctx context.Context) (time.Duration, error) {
	queues := p.wanted()
	if len(queues) == 0 {
		return untilWoken, nil
	}
	name, err := p.waiter.Wait(ctx, queues, waitTimeout)
	p.mu.Lock()
	p.waiting, p.roused = nil, false
	if name != "" {
		q := p.queue(name)
		q.dry, q.told = false, true
	}
	p.mu.Unlock()
	if err != nil || name == "" {
		return 0, err
	}
	p.signal()
	if !p.hasRoom(name) || !p.pool.fetching.Load() {
		// Busy, or stopped, since the wait began: another server can have the task now.
		if err := p.cfg.Broker.PassMarker(ctx, name); err != nil {
			return 0, err
		}
	}
	return untilWoken, nil // the next turn says which queues are dry then
}

// WaitWake ends the rest between two waits.
func (p *Pump) WaitWake() <-chan struct{} { return p.waitWake }

// wanted returns the queues to wait for, and notes that the waiter waits for them.
func (p *Pump) wanted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = p.dryQueues()
	return p.waiting
}

// dryQueues returns the queues whose markers would tell of tasks that this server can take. The caller holds the lock.
func (p *Pump) dryQueues() []string {
	if !p.pool.fetching.Load() {
		return nil
	}
	var names []string
	now := time.Now()
	for _, q := range p.queues {
		if q.listens(now) && p.wants(q) {
			names = append(names, q.name)
		}
	}
	if len(names) > 0 && p.pool.hand == nil && !p.slots.wanted(p.demand) {
		return nil
	}
	return names
}

// rouseWaiter lets the waiter wait for the queues that are dry now.
func (p *Pump) rouseWaiter(ctx context.Context) {
	p.mu.Lock()
	dry := p.dryQueues()
	waiting := p.waiting
	rouse := waiting != nil && !p.roused &&
		slices.ContainsFunc(dry, func(name string) bool { return !slices.Contains(waiting, name) })
	p.roused = p.roused || rouse
	p.mu.Unlock()
	switch {
	case len(dry) == 0:
	case waiting == nil:
		notify(p.waitWake)
	case rouse:
		if err := p.waiter.Rouse(ctx); err != nil {
			p.cfg.Log.Warn("a wait for tasks could not be changed; they are found by looking", "error", err)
		}
	}
}
