package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// ExtendLeases extends the leases of all open attempts of the lane, and cancels the handlers of
// those that Redis reports as lost. It is the tick of a loop.
//
// A finished attempt stays open until it is settled, so its lease is extended while Redis is
// unreachable.
func (f *Fetcher) ExtendLeases(ctx context.Context) (time.Duration, error) {
	delay := f.cfg.Lease / 6
	var all []*extension
	f.each((*Attempt).held, func(a *Attempt) { all = append(all, &extension{attempt: a, length: f.cfg.Lease}) })
	f.extend(ctx, all)
	queues, failed := make(map[string]bool), make(map[string]error)
	for _, e := range all {
		switch queues[e.attempt.Queue] = true; {
		case e.err != nil:
			failed[e.attempt.Queue] = e.err
		case e.lost:
			f.loseLease(e.attempt)
		default:
			e.attempt.expires.Store(e.expires)
		}
	}
	if len(failed) < len(queues) {
		for queue, err := range failed { // the loop must not back off, because the other queues need it
			f.cfg.Log.Error("leases of a queue not extended", "queue", queue, "error", err)
		}
		return delay, nil
	}
	return delay, errors.Join(slices.Collect(maps.Values(failed))...)
}

// extension extends the lease of an attempt, and holds the result.
type extension struct {
	attempt *Attempt
	length  time.Duration

	expires int64 // as uptime
	lost    bool  // Redis reported that the lease is no longer held
	err     error
}

// extend extends leases, with one call for each queue and length.
func (f *Fetcher) extend(ctx context.Context, all []*extension) {
	type target struct {
		queue  string
		length time.Duration
	}
	byTarget := make(map[target][]*extension, 1)
	for _, e := range all {
		t := target{e.attempt.Queue, e.length}
		byTarget[t] = append(byTarget[t], e)
	}
	for t, some := range byTarget {
		held := make([]rdb.Held, len(some))
		for i, e := range some {
			held[i] = rdb.Held{ID: e.attempt.settlement.ID, Token: e.attempt.Token}
		}
		sent := uptime()
		f.cfg.Broker.Extend(ctx, t.queue, t.length, held)
		for i, e := range some {
			e.expires, e.err = sent+int64(t.length), held[i].Err
			e.lost = e.err == nil && held[i].Code != script.CodeOK
		}
	}
}

// WatchLeases ends the attempts whose lease has expired, because other servers may recover the
// tasks. It is the tick of a loop of its own: the loop that extends leases may block on an
// unresponsive Redis for longer than a lease lasts.
func (f *Fetcher) WatchLeases(context.Context) (time.Duration, error) {
	delay := f.cfg.Lease / 6
	expired := func(a *Attempt) bool {
		at := a.expires.Load()
		if at == 0 || a.status.Load() != running || a.canceledAt.Load() != 0 && a.replied == nil {
			return false
		}
		left := time.Duration(at - uptime())
		delay = min(delay, max(left, 10*time.Millisecond))
		return left <= 0
	}
	f.each(func(a *Attempt) bool { return a.result.Load() != nil }, (*Attempt).repeatResult)
	f.each(expired, func(a *Attempt) {
		if a.replied != nil {
			a.endLease(false)
			return
		}
		f.cfg.Log.Warn("lease not extended in time, handler canceled",
			"queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
		a.Cancel(ErrLeaseExpired)
		f.notifyLeaseLost(a)
	})
	return delay, nil
}

// held reports whether the pool extends the lease of the attempt.
func (a *Attempt) held() bool { return !a.lost.Load() && a.mustSettle() }

// loseLease records that the task is no longer held with the attempt's token. It does nothing if
// the attempt was settled in the meantime, which explains that.
func (f *Fetcher) loseLease(a *Attempt) {
	if a.replied != nil {
		a.endLease(true)
		return
	}
	if a.status.Load() != running || !a.lost.CompareAndSwap(false, true) {
		return
	}
	f.cfg.Log.Warn("lease lost, handler canceled", "queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
	a.Cancel(ErrLeaseExpired)
	f.notifyLeaseLost(a)
}
