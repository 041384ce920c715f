package asynq

import (
	"context"
	"errors"

	"github.com/asynq-go/asynq/internal/wire"
)

// The bulk methods work in calls of at most 250 tasks, which take Redis about a millisecond, so that Redis serves others in between, and
// end although others go on enqueueing: what comes after the start may be left. Beside an error they return how many tasks are known to be changed; it is ErrQueueNotFound
// (errors.Is) if there is no such queue.

// RunAllScheduledTasks has all scheduled tasks of a queue run now, the one with the earliest time first, and returns how many. Tasks with
// a group go into it.
func (i *Inspector) RunAllScheduledTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateScheduled, i.broker.RunAllTasks)
}

// RunAllRetryTasks has all tasks of a queue run now that wait for their retry, the one with the earliest time first, and returns how many.
// Tasks with a group go into it.
func (i *Inspector) RunAllRetryTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateRetry, i.broker.RunAllTasks)
}

// RunAllArchivedTasks has all archived tasks of a queue run again, the one that was archived first first, and returns how many. Tasks with
// a group go into it.
func (i *Inspector) RunAllArchivedTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateArchived, i.broker.RunAllTasks)
}

// RunAllAggregatingTasks has all tasks of a group run one by one instead of together, the oldest first, and returns how many. Tasks that
// are being aggregated right now are left alone.
func (i *Inspector) RunAllAggregatingTasks(queue, group string) (int, error) {
	return i.changeGroup(queue, group, i.broker.RunAllTasks)
}

// ArchiveAllPendingTasks moves all pending tasks of a queue to the archive, and returns how many. The archive keeps the newest 10,000.
func (i *Inspector) ArchiveAllPendingTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStatePending, i.broker.ArchiveAllTasks)
}

// ArchiveAllScheduledTasks moves all scheduled tasks of a queue to the archive, and returns how many. The archive keeps the newest 10,000.
func (i *Inspector) ArchiveAllScheduledTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateScheduled, i.broker.ArchiveAllTasks)
}

// ArchiveAllRetryTasks moves all tasks of a queue that wait for their retry to the archive, and returns how many. The archive keeps the
// newest 10,000.
func (i *Inspector) ArchiveAllRetryTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateRetry, i.broker.ArchiveAllTasks)
}

// ArchiveAllAggregatingTasks moves all tasks of a group to the archive, and returns how many. The archive keeps the newest 10,000. Tasks
// that are being aggregated right now are left alone.
func (i *Inspector) ArchiveAllAggregatingTasks(queue, group string) (int, error) {
	return i.changeGroup(queue, group, i.broker.ArchiveAllTasks)
}

// DeleteAllPendingTasks deletes all pending tasks of a queue, and returns how many.
func (i *Inspector) DeleteAllPendingTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStatePending, i.broker.DeleteAllTasks)
}

// DeleteAllScheduledTasks deletes all scheduled tasks of a queue, and returns how many.
func (i *Inspector) DeleteAllScheduledTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateScheduled, i.broker.DeleteAllTasks)
}

// DeleteAllRetryTasks deletes all tasks of a queue that wait for their retry, and returns how many.
func (i *Inspector) DeleteAllRetryTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateRetry, i.broker.DeleteAllTasks)
}

// DeleteAllArchivedTasks deletes all archived tasks of a queue, and returns how many.
func (i *Inspector) DeleteAllArchivedTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateArchived, i.broker.DeleteAllTasks)
}

// DeleteAllCompletedTasks deletes all tasks of a queue that are kept after their success, and returns how many.
func (i *Inspector) DeleteAllCompletedTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateCompleted, i.broker.DeleteAllTasks)
}

// DeleteAllAggregatingTasks deletes all tasks of a group, and returns how many. Tasks that are being aggregated right now are left alone.
func (i *Inspector) DeleteAllAggregatingTasks(queue, group string) (int, error) {
	return i.changeGroup(queue, group, i.broker.DeleteAllTasks)
}

// bulkChange is a method of the broker that changes all tasks of a queue in a state, and of a group if that is aggregating.
type bulkChange func(ctx context.Context, queue string, from wire.State, group string) (int, error)

// changeAll makes a change of all tasks in a state.
func (i *Inspector) changeAll(queue string, from TaskState, change bulkChange) (int, error) {
	return i.changeSome(queue, from, "", change)
}

// changeGroup makes a change of all tasks in a group.
func (i *Inspector) changeGroup(queue, group string, change bulkChange) (int, error) {
	if group == "" {
		return 0, errors.New("asynq: the name of a group must not be empty")
	}
	return i.changeSome(queue, TaskStateAggregating, group, change)
}

func (i *Inspector) changeSome(queue string, from TaskState, group string, change bulkChange) (int, error) {
	if err := validateQueueName(queue); err != nil {
		return 0, err
	}
	n, err := until(i.ctx, func() (int, error) { return change(i.ctx, queue, wire.State(from), group) })
	if err != nil {
		return n, brokerError(err)
	}
	if n == 0 {
		return 0, i.mustExist(i.ctx, queue) // looked up only where there was nothing: tasks are the best proof
	}
	return n, nil
}
