package worker

import (
	"context"
	"errors"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// ExtendLeases lets the leases of all open attempts of the lane last, and ends the handlers of those that are lost. It is the tick
// of a loop of its own.
//
// A finished attempt stays open until it is settled: its lease must last while Redis cannot be reached. While it cannot for as
// long as a lease, the leases must be taken for lost, because others may recover the tasks.
func (p *Pump) ExtendLeases(ctx context.Context) (time.Duration, error) {
	rest := p.cfg.Lease / 6
	var failed []error
	for queue, attempts := range p.held() {
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
			case a.leaseAge() > p.cfg.Lease:
				a.Cancel(ErrLeaseExpired)
			}
		}
		if err := firstError(held); err != nil {
			failed = append(failed, err)
		}
	}
	return rest, errors.Join(failed...)
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
}
