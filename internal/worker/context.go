package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// taskContext is the context of a handler. It ends at the attempt's deadline, or when the attempt
// is canceled.
//
// It is part of the attempt, and creates the real, cancelable context only when code needs Done or
// an end: most handlers of short tasks never do, and a timer, a channel and eight allocations would
// be the largest part of the cost of a task.
type taskContext struct {
	base    context.Context
	attempt *Attempt

	real  atomic.Pointer[realContext]
	mu    sync.Mutex // held while real is created
	ended bool       // the handler returned, or the attempt was canceled
	cause error      // of a cancellation
}

// realContext is a standard context with its cancel functions.
type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
}

// start sets the base context. The attempt may have been canceled before.
func (c *taskContext) start(base context.Context, a *Attempt) *taskContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.attempt = base, a
	return c
}

var _ context.Context = (*taskContext)(nil)

// Deadline returns the attempt's deadline, or that of the base context if it is earlier.
func (c *taskContext) Deadline() (time.Time, bool) {
	own := c.attempt.Deadline
	if of, ok := c.base.Deadline(); ok && (own.IsZero() || of.Before(own)) {
		return of, true
	}
	return own, !own.IsZero()
}

// Done returns the channel that is closed when the context ends.
func (c *taskContext) Done() <-chan struct{} { return c.make().Done() }

// Err returns why the context ended, or nil if it has not.
func (c *taskContext) Err() error {
	if r := c.real.Load(); r != nil {
		return r.Err()
	}
	if end, ok := c.Deadline(); ok && !time.Now().Before(end) || c.base.Err() != nil || c.hasEnded() {
		return c.make().Err()
	}
	return nil
}

// Value returns the attempt for its key, and the values of the base context for all others.
func (c *taskContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	if r := c.real.Load(); r != nil {
		return r.Value(key) // also the key that the standard library uses to link contexts without a goroutine
	}
	return c.base.Value(key)
}

func (c *taskContext) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// canceledBy returns the cause of a cancellation, or nil.
func (c *taskContext) canceledBy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// make returns the real context, and creates it on the first call.
func (c *taskContext) make() *realContext {
	if r := c.real.Load(); r != nil {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.real.Load(); r != nil {
		return r
	}
	r := &realContext{}
	r.Context, r.cancel = context.WithCancelCause(c.base)
	if !c.attempt.Deadline.IsZero() {
		r.Context, r.stop = context.WithDeadline(r.Context, c.attempt.Deadline)
	}
	if c.ended {
		r.end(c.cause)
	}
	c.real.Store(r)
	return r
}

// cancel ends the context with a cause, which is nil when the handler returned.
func (c *taskContext) cancel(cause error) {
	c.mu.Lock()
	if !c.ended {
		c.ended, c.cause = true, cause
	}
	r := c.real.Load()
	c.mu.Unlock()
	if r != nil {
		r.end(cause)
	}
}

func (r *realContext) end(cause error) {
	r.cancel(cause)
	if r.stop != nil {
		r.stop()
	}
}

type attemptKey struct{}

// FromContext returns the attempt of a handler's context, or nil for other contexts.
func FromContext(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// ContextFor returns a context for a task that this server does not process.
func ContextFor(base context.Context, queue string, msg *wire.TaskMessage) context.Context {
	return context.WithValue(base, attemptKey{}, &Attempt{Message: msg, Queue: queue, Retried: msg.Retried})
}

// detached returns a context with the attempt and the values of the base context that does not end
// with the handler's context.
func (a *Attempt) detached() context.Context {
	a.context.mu.Lock()
	base := a.context.base
	a.context.mu.Unlock()
	if base == nil { // the handler never ran
		base = context.Background()
	}
	return context.WithValue(context.WithoutCancel(base), attemptKey{}, a)
}
