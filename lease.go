package asynq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/worker"
)

// Lease is a task that was taken by hand. Its holder works on it as long as the lease lasts, extends it in time, and settles it with Done,
// Fail or Release. A lease that nobody extends or settles ends by itself: the attempt counts as failed with ErrLeaseExpired, and the task
// is tried again, by whoever takes it next.
//
// A lease is settled once: where it comes twice, on this Lease or on others with the same token, the first outcome counts and the
// second call succeeds, too. A Lease is safe for concurrent use.
type Lease struct {
	taker *Taker
	queue string
	id    string
	token string

	mu      sync.Mutex
	attempt *worker.Attempt // nil where it was taken elsewhere, and not loaded yet
	info    *TaskInfo
}

// held returns what is known of the task; nil on a lease that was taken elsewhere and not loaded.
func (l *Lease) held() *worker.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempt
}

// Queue is the queue that the task was taken from.
func (l *Lease) Queue() string { return l.queue }

// ID is the task's ID.
func (l *Lease) ID() string { return l.id }

// Token is what the task is held under: an opaque text of letters, digits and hyphens, without which nobody can extend or settle the lease.
func (l *Lease) Token() string { return l.token }

// Task is the task; nil on a lease that was taken elsewhere, before Load. Its ResultWriter works as in a handler.
func (l *Lease) Task() *Task {
	if a := l.held(); a != nil {
		return a.Value.(*Task)
	}
	return nil
}

// Info is what was known of the task when it was taken; nil where Task is. The Deadline in it is the task's own: see Deadline.
func (l *Lease) Info() *TaskInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.info == nil {
		return nil
	}
	info := *l.info
	return &info
}

// Deadline is when the attempt must end: after the task's timeout or at its deadline, whichever is first; zero if it has neither, or where
// Task is nil. The lease is not extended past it; the holder may settle the lease until it ends.
func (l *Lease) Deadline() time.Time {
	if a := l.held(); a != nil {
		return a.Deadline
	}
	return time.Time{}
}

// ExpiresAt is when the lease ends unless it is extended, by this host's clock, as far as this Taker knows; zero if it does not.
func (l *Lease) ExpiresAt() time.Time {
	if a := l.held(); a != nil {
		return a.ExpiresAt()
	}
	return time.Time{}
}

// Context ends when the holder is to stop: context.Cause says why. ErrTaskCanceled: somebody canceled the task, and the holder is to Fail
// it, whatever with. ErrLeaseExpired: the lease ended, or was lost. context.DeadlineExceeded: the Deadline has passed. context.Canceled:
// the lease is settled. GetTaskID and the like work on it.
//
// On a lease that was taken elsewhere it never ends before Load, and hears of cancellations from the first Extend on: ask for it then.
func (l *Lease) Context() context.Context {
	if a := l.held(); a != nil {
		return a.Context()
	}
	return context.Background()
}

// Canceled is closed when Context ends.
func (l *Lease) Canceled() <-chan struct{} { return l.Context().Done() }

// Load reads the task of a lease that was taken elsewhere. It returns ErrLeaseExpired if there is no such lease. It asks nobody where the
// task is known.
func (l *Lease) Load(ctx context.Context) error {
	if err := l.taker.ready(ctx); err != nil {
		return err
	}
	return l.taker.load(ctx, []*Lease{l})[0].err()
}

// Extend lets the lease last for TakerConfig.LeaseDuration from now, but not past the Deadline, and returns when it ends. It returns
// ErrLeaseExpired if the lease was lost or settled, and context.DeadlineExceeded when the Deadline has passed: the lease is then as it
// was. After any other error, nothing is known: try again.
func (l *Lease) Extend(ctx context.Context) (time.Time, error) {
	if err := l.taker.Extend(ctx, l)[0]; err != nil {
		return time.Time{}, err
	}
	return l.ExpiresAt(), nil
}

// Done ends the attempt with success: the task is kept with the result for its Retention, or deleted together with the result if it has
// none. Without a result, what the task's ResultWriter wrote stays.
//
// It returns ErrLeaseExpired if the lease was lost. A task that does not exist any more counts as done. After any other error, as that of
// ctx, the outcome may become known to Redis or not: try again.
func (l *Lease) Done(ctx context.Context, result []byte) error {
	return l.taker.Settle(ctx, Settlement{Lease: l, Result: result})[0]
}

// Fail ends the attempt with an error, about which is decided as about that of a Handler: the task is tried again after RetryDelayFunc's
// delay, or archived after its last attempt; SkipRetry, RevokeTask, RetryAfter and Snooze work, and so do IsFailure and ErrorHandler. A nil
// error is not a failure, and is refused. The errors are those of Done, but ErrLeaseExpired for a task that does not exist any more, unless
// it was to be deleted.
func (l *Lease) Fail(ctx context.Context, cause error) error {
	if cause == nil {
		return errors.New("asynq: Fail needs an error: call Done for success")
	}
	return l.taker.Settle(ctx, Settlement{Lease: l, Err: cause})[0]
}

// Release gives the task back unfinished: to the front of its queue, without a used attempt. The errors are those of Fail.
func (l *Lease) Release(ctx context.Context) error {
	return l.taker.Settle(ctx, Settlement{Lease: l, Release: true})[0]
}
