package worker

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// process leads one attempt through its life: its context, the handler, the outcome. It returns one to go on with, or nil.
func (p *Pump) process(a *Attempt) (next *Attempt) {
	ended := false
	defer func() {
		if ended {
			return
		}
		// The handler called runtime.Goexit, and nothing can stop this goroutine from ending: another takes its place.
		go func() {
			p.pool.serve(p.conclude(a, &PanicError{Stack: a.stack}))
		}()
	}()
	p.tellStarted(a)
	err := p.perform(a)
	ended = true
	return p.conclude(a, err)
}

// perform runs the handler under its context. A panic becomes an error.
func (p *Pump) perform(a *Attempt) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		stack := debug.Stack()
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: stack}
			return
		}
		a.stack = stack // Goexit
	}()
	base := p.cfg.BaseContext()
	if base == nil {
		returned = true
		return errNoContext
	}
	ctx := a.context.begin(base, a)
	defer ctx.cancel(nil)
	if err = ctx.Err(); err == nil { // the task's deadline may have passed while it waited
		if err = p.cfg.Handle(ctx, a); err != nil {
			_ = err.Error() // the user's code too: where err holds a nil pointer, it panics here rather than in the settlement
		}
	}
	returned = true
	return err
}

// deadline returns when an attempt that starts now must end: after the task's timeout or at its deadline, whichever is first;
// zero if it has neither.
func deadline(start time.Time, timeout, deadline int64) time.Time {
	var t time.Time
	if timeout > 0 {
		t = start.Add(time.Duration(min(timeout, maxTimeout)) * time.Second)
	}
	if deadline != 0 { // before 1970 it is below zero, and long over
		if d := time.Unix(deadline, 0); t.IsZero() || d.Before(t) {
			t = d
		}
	}
	return t
}

// maxTimeout keeps a timeout in seconds within what a time.Duration can hold: 292 years.
const maxTimeout = (1<<63 - 1) / int64(time.Second)

// conclude decides the outcome of an attempt whose handler ended, unless somebody else did before. If a turn is to be made for it, this
// goroutine makes it. It returns an attempt to go on with, or nil.
func (p *Pump) conclude(a *Attempt, err error) (next *Attempt) {
	if !a.decide() {
		return nil // given up as stuck, or by the shutdown: the slot is free already
	}
	if p.settle(a, err) {
		return p.lead()
	}
	return nil
}

// settle frees the slot and hands the outcome to the next turn. It reports whether one is to be made for it. The caller has decided the
// attempt.
func (p *Pump) settle(a *Attempt, err error) bool {
	if a.lost.Load() {
		p.cfg.Log.Warn("the outcome of a task is dropped, because its lease was lost",
			"queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type, "error", err)
		p.tellEnded(a, Lost, err)
		p.slots.release(1)
		p.forget(a)
		return false
	}
	p.outcome(a, err)
	p.tellEnded(a, endingOf(&a.settlement, err), err)
	p.slots.release(1)
	return p.add(a)
}

// forget closes an attempt without an outcome.
func (p *Pump) forget(a *Attempt) {
	p.mu.Lock()
	p.unregister(a)
	p.mu.Unlock()
	p.signal()
}

// abort gives back the tasks of all handlers that still run, the one that was taken first to be run first.
func (p *Pump) abort() {
	var aborted []*Attempt
	p.each((*Attempt).decide, func(a *Attempt) { aborted = append(aborted, a) })
	slices.SortFunc(aborted, func(a, b *Attempt) int { return cmp.Compare(b.number, a.number) })
	for _, a := range aborted {
		p.cfg.Log.Warn("a task did not finish before the shutdown and is given back", "queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
		a.settlement.Outcome = rdb.Requeue
		p.tellEnded(a, Returned, ErrServerClosed)
		p.finish(a)
		a.Cancel(ErrServerClosed)
	}
}

// WatchStuck gives up handlers that go on for longer than Grace after their context ended: their slot is freed and their task fails
// with the context's error. It is the tick of a loop of its own.
func (p *Pump) WatchStuck(context.Context) (time.Duration, error) {
	now := time.Now()
	p.each(func(a *Attempt) bool { return a.overdue(now, p.cfg.Grace) && a.decide() }, func(a *Attempt) {
		cause := context.DeadlineExceeded
		if a.endedAt.Load() != 0 {
			cause = context.Canceled
		}
		p.cfg.Log.Error("a handler is stuck: it goes on after its context ended, and is given up",
			"queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type, "started", a.Started, "grace", p.cfg.Grace, "cause", cause)
		go func() { // an ErrorHandler that blocks must not end the watch
			if p.settle(a, errors.Join(ErrStuck, cause)) {
				p.signal()
			}
		}()
	})
	return min(max(p.cfg.Grace/4, 10*time.Millisecond), time.Second), nil
}

// overdue reports whether the attempt's context ended longer than grace ago.
func (a *Attempt) overdue(now time.Time, grace time.Duration) bool {
	if a.progress.Load() != running {
		return false
	}
	if at := a.endedAt.Load(); at != 0 && since(at) > grace {
		return true
	}
	ended := a.Deadline
	if a.Started.After(ended) { // the deadline had passed before: the attempt must have the time to find that out
		ended = a.Started
	}
	return !a.Deadline.IsZero() && now.Sub(ended) > grace
}
