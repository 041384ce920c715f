package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// abort requeues the tasks of all running handlers, so that the oldest is processed first.
func (f *Fetcher) abort() {
	var aborted []*Attempt
	f.each((*Attempt).decide, func(a *Attempt) { aborted = append(aborted, a) })
	slices.SortFunc(aborted, func(a, b *Attempt) int { return cmp.Compare(b.number, a.number) })
	for _, a := range aborted {
		f.cfg.Log.Warn("task did not finish before the shutdown, requeued",
			"queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
		a.settlement.Outcome = rdb.Requeue
		f.notifyEnded(a, ErrServerClosed)
		if f.addFinished(a) {
			f.signal()
		}
		a.Cancel(ErrServerClosed)
	}
}

// WatchStuck abandons handlers that run for longer than Grace after their context ended: it frees
// their slot and fails the task with the context's error. It is the tick of a loop.
func (f *Fetcher) WatchStuck(context.Context) (time.Duration, error) {
	now := time.Now()
	f.each(func(a *Attempt) bool { return a.overdue(now, f.cfg.Grace) && a.decide() }, func(a *Attempt) {
		cause := context.DeadlineExceeded
		if a.canceledAt.Load() != 0 {
			cause = context.Canceled
		}
		f.cfg.Log.Error("handler is stuck after its context ended, abandoned",
			"queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type,
			"started", a.Started, "grace", f.cfg.Grace, "cause", cause)
		go func() { // an ErrorHandler that blocks must not block the loop
			if f.settle(a, errors.Join(ErrStuck, cause)) {
				f.signal()
			}
		}()
	})
	return min(max(f.cfg.Grace/4, 10*time.Millisecond), time.Second), nil
}

// overdue reports whether the attempt's context ended longer than grace ago.
func (a *Attempt) overdue(now time.Time, grace time.Duration) bool {
	if a.status.Load() != running {
		return false
	}
	if at := a.canceledAt.Load(); at != 0 && since(at) > grace {
		return true
	}
	ended := a.Deadline
	if a.Started.After(ended) { // the deadline passed before the start: give the handler the time to notice
		ended = a.Started
	}
	return !a.Deadline.IsZero() && now.Sub(ended) > grace
}
