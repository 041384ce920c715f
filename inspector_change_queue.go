package asynq

import (
	"errors"
	"fmt"

	"github.com/asynq-go/asynq/internal/rdb"
)

// DeleteQueue removes a queue, with everything that Redis keeps of it: tasks, locks, groups, statistics. With force it may hold tasks,
// as long as none of them is active; without force it must be empty.
//
// With force the queue is paused while its tasks are deleted. If the call fails on the way, the pause ends by itself half a minute later,
// and DeleteQueue can be called again. It looks at the names of all keys in Redis once, in small steps. A task that is enqueued
// meanwhile is deleted with the queue, or begins it anew; a queue that clients still enqueue to comes back.
//
// The error is ErrQueueNotFound if there is no such queue, ErrQueueNotEmpty if it holds tasks and force is not set (errors.Is), and
// another one if a task is active: nothing was deleted then.
func (i *Inspector) DeleteQueue(queue string, force bool) error {
	if err := validateQueueName(queue); err != nil {
		return err
	}
	if err := i.mustExist(i.ctx, queue); err != nil {
		return err
	}
	err := untilDone(i.ctx, func() error { return i.broker.RemoveQueue(i.ctx, queue, force) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rdb.ErrTaskActive):
		return fmt.Errorf("asynq: cannot delete queue %q: tasks of it are active: cancel them with CancelProcessing, or wait for their end", queue)
	case errors.Is(err, rdb.ErrQueueNonempty) && force:
		return fmt.Errorf("asynq: %w: others go on enqueueing to queue %q", ErrQueueNotEmpty, queue)
	case errors.Is(err, rdb.ErrQueueNonempty):
		return fmt.Errorf("asynq: %w: %q", ErrQueueNotEmpty, queue)
	default:
		return brokerError(err)
	}
}
