package asynq

import (
	"context"
	"fmt"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// RunTasks has those tasks of a queue run that are in a state (scheduled, retry, archived, completed or aggregating) and that the filter
// lets through, and returns how many. It finds them as Tasks does; one that leaves the state meanwhile is left alone.
//
// Beside an error it returns how many tasks are known to be changed. The error is ErrScanLimit (errors.Is) where the filter's MaxScan
// ended the search, and ErrQueueNotFound if there is no such queue.
func (i *Inspector) RunTasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) (int, error) {
	switch state {
	case TaskStateScheduled, TaskStateRetry, TaskStateArchived, TaskStateCompleted, TaskStateAggregating:
		return i.changeMatching(ctx, queue, state, filter, i.broker.RunTasksIn)
	default:
		return 0, fmt.Errorf("asynq: cannot run tasks that are %v", state)
	}
}

// ArchiveTasks moves those tasks of a queue to the archive that are in a state (pending, scheduled, retry or aggregating) and that the
// filter lets through, and returns how many. The archive keeps the newest 10,000. It counts and ends as RunTasks does.
func (i *Inspector) ArchiveTasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) (int, error) {
	switch state {
	case TaskStatePending, TaskStateScheduled, TaskStateRetry, TaskStateAggregating:
		return i.changeMatching(ctx, queue, state, filter, i.broker.ArchiveTasksIn)
	default:
		return 0, fmt.Errorf("asynq: cannot archive tasks that are %v", state)
	}
}

// DeleteTasks deletes those tasks of a queue that are in a state (any but active) and that the filter lets through, with their locks,
// and returns how many. It counts and ends as RunTasks does.
func (i *Inspector) DeleteTasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) (int, error) {
	if state == TaskStateActive {
		return 0, fmt.Errorf("asynq: cannot delete tasks that are %v: cancel them first with CancelProcessing", state)
	}
	return i.changeMatching(ctx, queue, state, filter, i.broker.DeleteTasksIn)
}

// matchingPage is how many of the tasks that a filter lets through are changed at a time.
const matchingPage = 250

// changeMatching makes a change of the tasks that a filter lets through.
func (i *Inspector) changeMatching(
	ctx context.Context, queue string, state TaskState, filter TaskFilter,
	change func(ctx context.Context, queue string, from wire.State, group string, ids []string) ([]rdb.Code, error),
) (changed int, err error) {
	var ids []string
	flush := func() error {
		page := ids
		codes, err := until(ctx, func() ([]rdb.Code, error) { return change(ctx, queue, wire.State(state), filter.Group, page) })
		for _, code := range codes {
			if code == rdb.CodeOK {
				changed++
			}
		}
		ids = nil // the call may go on with the page after ctx has ended
		if err != nil {
			return brokerError(err)
		}
		return nil
	}
	for task, found := range i.Tasks(ctx, queue, state, filter) {
		if found != nil {
			err = found // what was found before it is changed all the same
			break
		}
		if ids = append(ids, task.ID); len(ids) == matchingPage {
			if err := flush(); err != nil {
				return changed, err
			}
		}
	}
	if len(ids) > 0 {
		if failed := flush(); failed != nil {
			return changed, failed
		}
	}
	return changed, err
}
