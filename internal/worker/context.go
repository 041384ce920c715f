package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// taskContext is the context that a handler gets. It ends at the attempt's deadline, or when the attempt is canceled.
//
// It is part of the attempt, and makes the real, cancelable context only when somebody wants to know of its end: most handlers of
// short tasks never do, and a timer, a channel and eight allocations a task would be the largest part of what a task costs.
type taskContext struct {
	base    context.Context
	attempt *Attempt

	real  atomic.Pointer[realContext]
	mu    sync.Mutex // held while real is made
	over  bool       // the handler returned, or the attempt was canceled
	cause error      // why, if it was canceled
}

// realContext is a standard context with what ends it.
type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
}

// begin gives the context its base. The attempt may have been canceled before.
func (c *taskContext) begin(base context.Context, a *Attempt) *taskContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.attempt = base, a
	return c
}

var _ context.Context = (*taskContext)(nil)

// Deadline returns when the context ends at the latest.
func (c *taskContext) Deadline() (time.Time, bool) {
	own := c.attempt.Deadline
	if of, ok := c.base.Deadline(); ok && (own.IsZero() || of.Before(own)) {
		return of, true
	}
	return own, !own.IsZero()
}

// Done returns the channel that is closed when the context ends.
func (c *taskContext) Done() <-chan struct{} { return c.make().Done() }

// Err says why the context ended, nil while it has not.
func (c *taskContext) Err() error {
	if r := c.real.Load(); r != nil {
		return r.Err()
	}
	if end, ok := c.Deadline(); ok && !time.Now().Before(end) || c.base.Err() != nil || c.isOver() {
		return c.make().Err()
	}
	return nil
}

// Value returns the attempt for its key, and the base context's values for all others.
func (c *taskContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	if r := c.real.Load(); r != nil {
		return r.Value(key) // what the standard library looks up there to link contexts without a goroutine, too
	}
	return c.base.Value(key)
}

func (c *taskContext) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// make returns the real context, and makes it if nobody asked before.
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
	if c.over {
		r.end(c.cause)
	}
	c.real.Store(r)
	return r
}

// cancel ends the context with a cause; nil, when the handler returned.
func (c *taskContext) cancel(cause error) {
	c.mu.Lock()
	if !c.over {
		c.over, c.cause = true, cause
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

// FromContext returns the attempt that a handler's context belongs to, nil for other contexts.
func FromContext(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// attemptContext carries an attempt, and does not end with it.
type attemptContext struct {
	context.Context
	attempt *Attempt
}

// Value returns the attempt for its key, and the base context's values for all others.
func (c *attemptContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	return c.Context.Value(key)
}

// ContextFor returns a context that belongs to a task that this server does not run.
func ContextFor(base context.Context, queue string, msg *wire.TaskMessage) context.Context {
	return &attemptContext{Context: base, attempt: &Attempt{Message: msg, Queue: queue, Retried: msg.Retried}}
}

// detached returns a context that carries the attempt and the base context's values, and does not end with the handler's.
func (a *Attempt) detached() context.Context {
	a.context.mu.Lock()
	base := a.context.base
	a.context.mu.Unlock()
	if base == nil { // the handler never ran
		base = context.Background()
	}
	return &attemptContext{Context: context.WithoutCancel(base), attempt: a}
}
