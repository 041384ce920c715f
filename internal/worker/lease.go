package worker

import (
	"context"
	"errors"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// ExtendLeases lets the leases of all open attempts of the lane last, and ends the handlers of those that Redis says are lost. It is
// the tick of a loop of its own.
//
// A finished attempt stays open until it is settled: its lease must last while Redis cannot be reached.
func (p *Pump) ExtendLeases(ctx context.Context) (time.Duration, error) {
	rest := p.cfg.Lease / 6
	var failed []error
	byQueue := p.held()
	for queue, attempts := range byQueue {
		held := make([]rdb.Held, len(attempts))
		for i, a := range attempts {
			held[i] = rdb.Held{ID: a.settlement.ID, Token: a.Token}
		}
		sent := uptime()
		p.cfg.Broker.Extend(ctx, queue, p.cfg.Lease, held)
		for i, a := range attempts {
			switch {
			case held[i].Err == nil && held[i].Code == rdb.CodeOK:
				a.extended.Store(sent)
			case held[i].Err == nil:
				p.lose(a)
			}
		}
		if err := firstError(held); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) < len(byQueue) {
		for _, err := range failed { // the loop must not back off: the other queues need it
			p.cfg.Log.Error("leases of a queue could not be extended", "error", err)
		}
		return rest, nil
	}
	return rest, errors.Join(failed...)
}

// WatchLeases ends the handlers whose lease was last extended longer ago than it lasts: others may recover the tasks. It is the
// tick of a loop of its own, because the one that extends leases may wait for a silent Redis for longer than that.
func (p *Pump) WatchLeases(context.Context) (time.Duration, error) {
	if p.pool.hand != nil {
		return p.watchHeld(), nil
	}
	rest := p.cfg.Lease / 6
	ended := func(a *Attempt) bool {
		if a.progress.Load() != running || a.endedAt.Load() != 0 {
			return false
		}
		left := p.cfg.Lease - a.leaseAge()
		rest = min(rest, max(left, 10*time.Millisecond))
		return left <= 0
	}
	p.each(ended, func(a *Attempt) {
		p.cfg.Log.Warn("a task's lease could not be extended; its handler is canceled", "queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
		a.Cancel(ErrLeaseExpired)
		p.tellLeaseLost(a)
	})
	return rest, nil
}

func firstError(held []rdb.Held) error {
	for _, h := range held {
		if h.Err != nil {
			return h.Err
		}
	}
	return nil
}

// lose notes that an attempt's task is no longer held under its token. Where the attempt was settled in the meantime, that is why.
func (p *Pump) lose(a *Attempt) {
	if a.progress.Load() != running || !a.lost.CompareAndSwap(false, true) {
		return
	}
	p.cfg.Log.Warn("a task's lease was lost; its handler is canceled", "queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
	a.Cancel(ErrLeaseExpired)
	p.tellLeaseLost(a)
}
