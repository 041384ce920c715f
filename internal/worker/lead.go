package worker

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// lead makes a turn on the goroutine of a worker that has just finished an attempt, and returns another one for it to go on with, if the
// turn brought any. Otherwise one goroutine would have to be woken for the turn, and another for the attempt: with few slots that costs
// more than all else that the server does for a task.
func (p *Pump) lead() (next *Attempt) {
	t, ctx := p.claim()
	if t == nil {
		return nil
	}
	failed := true
	defer func() {
		next, t.own = t.own, nil
		t.handBack(failed)
		if v := recover(); v != nil {
			p.cfg.Log.Error("a turn panicked", "error", &PanicError{Value: v}, "stack", string(debug.Stack()))
		}
	}()
	if p.cfg.Concurrency > 1 && p.cfg.Concurrency <= fewSlots {
		runtime.Gosched() // see fewSlots
	}
	_, err := t.round(ctx)
	failed = err != nil
	return next
}

// claim takes a trip for a worker, and the ctx of its turn, if one is worth it and no loop is at it.
func (p *Pump) claim() (*Trip, context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.worthATrip() {
		return nil, nil // another has left in the meantime
	}
	for _, t := range p.trips {
		if p.cfg.WorkersLead && p.failed == nil && p.ctx != nil && !t.busy && !t.out {
			t.busy, t.led, t.out = true, true, true
			p.flying++
			return t, p.ctx
		}
	}
	p.signal()
	return nil, nil
}

// handBack gives a trip back, and wakes a loop if there is something left to do: at once, or before one goes on by itself.
func (t *Trip) handBack(failed bool) {
	now := time.Now()
	t.mu.Lock()
	t.isBack()
	t.busy, t.led = false, false
	left := failed || t.restless(now)
	t.mu.Unlock()
	if left {
		t.signal()
	}
}

// restless reports whether there is something to do that neither a trip on its way nor a loop's own end of its rest sees to. The caller
// holds the lock.
func (p *Pump) restless(now time.Time) bool {
	if p.flying > 0 {
		return false
	}
	if len(p.finished) > 0 {
		return true
	}
	if p.pool.fetching.Load() && slices.ContainsFunc(p.queues, func(q *queueState) bool { return q.ready(now) }) && p.slots.wanted(p.demand) {
		return true
	}
	next := p.nextDue()
	return !next.IsZero() && (p.restsUntil.IsZero() || next.Before(p.restsUntil))
}
