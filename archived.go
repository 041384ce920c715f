package asynq

import (
	"context"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// archivedCalls calls the user's OnArchived.
type archivedCalls struct {
	srv    *Server
	queue  worker.CallQueue
	ctx    context.Context // ends when a shutdown does not wait any longer
	cancel context.CancelFunc
}

// newArchivedCalls returns nil without an OnArchived.
func newArchivedCalls(srv *Server) *archivedCalls {
	if srv.cfg.OnArchived == nil {
		return nil
	}
	c := &archivedCalls{srv: srv}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// callback returns the callback of the workers.
func (c *archivedCalls) callback() *worker.ArchivedCallback {
	if c == nil {
		return nil
	}
	return &worker.ArchivedCallback{
		Call: func(a *worker.Attempt, err error) { c.add(a.Queue, a.Message, err) },
		Room: c.queue.Room,
	}
}

// recovered returns the callback of the recoverers and aggregators.
func (c *archivedCalls) recovered() func(ctx context.Context, queue string, msg *wire.TaskMessage, err error) {
	if c == nil {
		return nil
	}
	return func(ctx context.Context, queue string, msg *wire.TaskMessage, err error) {
		c.queue.Room(ctx)
		c.add(queue, msg, err)
	}
}

func (c *archivedCalls) add(queue string, msg *wire.TaskMessage, err error) {
	err = attemptError(err)
	c.queue.Add(func() {
		callSafely(c.srv.log, "OnArchived", func() {
			base := c.srv.cfg.BaseContext()
			if base == nil {
				base = context.Background()
			}
			ctx, cancel := context.WithCancel(worker.ContextFor(context.WithoutCancel(base), queue, msg))
			defer cancel()
			defer context.AfterFunc(c.ctx, cancel)()
			info := newTaskInfo(msg, TaskStateArchived, time.Time{}, nil)
			info.Queue = queue
			c.srv.cfg.OnArchived(ctx, info, err)
		}, "queue", queue, "task", msg.ID)
	})
}

// stopping lets the attempts that wait for room continue.
func (c *archivedCalls) stopping() {
	if c != nil {
		c.queue.Unblock()
	}
}

// drain waits until all calls have returned, or ctx ends.
func (c *archivedCalls) drain(ctx context.Context) {
	if c != nil {
		_ = c.queue.Drain(ctx) // end returns how many are left
	}
}

// end cancels the contexts of the calls that still run, and drops those that have not started.
func (c *archivedCalls) end() error {
	if c == nil {
		return nil
	}
	c.cancel()
	if n := c.queue.Drop(); n > 0 {
		return fmt.Errorf("asynq: %d calls of OnArchived did not finish before the shutdown", n)
	}
	return nil
}
