package asynq

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// RunTask runs a task now that is scheduled, in retry, archived, completed or waiting in a group. A
// task with a group returns to it, to be aggregated with the others; a task that waits in its group
// runs on its own.
//
// It returns ErrQueueNotFound or ErrTaskNotFound (errors.Is) if the task does not exist, and
// ErrTaskState if it is pending, active or being aggregated.
func (i *Inspector) RunTask(queue, id string) error {
	return i.changeTask(i.ctx, inspect.Change{Verb: inspect.Run, Queue: queue}, id)
}

// ArchiveTask archives a task that is pending, scheduled, in retry, completed or waiting in a
// group. The archive keeps the newest 10,000 tasks for 90 days. The task keeps its uniqueness lock.
//
// It returns ErrQueueNotFound or ErrTaskNotFound (errors.Is) if the task does not exist, and
// ErrTaskState if it is active, archived or being aggregated. To archive an active task, use
// CancelAndArchive.
func (i *Inspector) ArchiveTask(queue, id string) error {
	return i.changeTask(i.ctx, inspect.Change{Verb: inspect.Archive, Queue: queue}, id)
}

// DeleteTask deletes a task in any state but active, and releases its uniqueness lock.
//
// It returns ErrQueueNotFound or ErrTaskNotFound (errors.Is) if the task does not exist, and
// ErrTaskState if it is active or being aggregated. To delete an active task, use CancelAndDelete.
func (i *Inspector) DeleteTask(queue, id string) error {
	return i.changeTask(i.ctx, inspect.Change{Verb: inspect.Delete, Queue: queue}, id)
}

// RescheduleTask changes when a task runs. The time is rounded up as with ProcessAt; a time in the
// past means now. A task in retry remains in retry. A pending, archived or completed task becomes
// scheduled. So does a task that waits in a group; it returns to the group when it is due.
//
// It returns ErrQueueNotFound or ErrTaskNotFound (errors.Is) if the task does not exist, and
// ErrTaskState if it is active or being aggregated.
func (i *Inspector) RescheduleTask(ctx context.Context, queue, id string, at time.Time) error {
	change := inspect.Change{Verb: inspect.Reschedule, Queue: queue}
	if s := ceilUnix(at); s > 0 {
		change.At, change.Early = s, earlyMillis(at)
	}
	return i.changeTask(ctx, change, id)
}

// UpdateTaskPayload replaces the payload of a scheduled task. The task keeps the uniqueness lock
// with which it was enqueued: the lock blocks tasks with the old payload, not with the new one, and
// is released with the task.
//
// It returns ErrQueueNotFound or ErrTaskNotFound (errors.Is) if the task does not exist, and
// ErrTaskState if it is not scheduled.
//
// A concurrent change of the payload is overwritten; see CompareAndSwapTaskPayload.
func (i *Inspector) UpdateTaskPayload(queue, id string, payload []byte) error {
	return i.updatePayload(i.ctx, queue, id, func([]byte) ([]byte, error) { return payload, nil })
}

// CompareAndSwapTaskPayload replaces the payload of a scheduled task only if it still equals seen.
// Redis compares and replaces it atomically. If the payload already equals the new one, as after a
// call whose reply was lost, it returns nil; two callers with the same new payload both succeed.
//
// It returns ErrTaskChanged (errors.Is) and changes nothing if the task has another payload;
// otherwise see UpdateTaskPayload. It compares only payloads: rescheduling a task does not count as
// a change.
func (i *Inspector) CompareAndSwapTaskPayload(ctx context.Context, queue, id string, seen, payload []byte) error {
	if ctx == nil {
		return errNilContext
	}
	return i.updatePayload(ctx, queue, id, func(now []byte) ([]byte, error) {
		if !bytes.Equal(now, seen) && !bytes.Equal(now, payload) {
			return nil, script.ErrTaskChanged
		}
		return payload, nil
	})
}

// updatePayload replaces the payload of a task by the result of edit, which may be called several
// times.
func (i *Inspector) updatePayload(ctx context.Context, queue, id string, edit func(now []byte) ([]byte, error)) error {
	if err := validQueue(queue, queueNotFoundText); err != nil {
		return err
	}
	err := i.inspector.UpdateMessage(ctx, queue, id, func(m *wire.TaskMessage) (err error) {
		m.Payload, err = edit(m.Payload)
		return err
	})
	return i.changeError(ctx, "update", queue, id, err)
}

// CancelAndArchive cancels a task as CancelProcessing does. If its handler then returns an error,
// the task is archived instead of retried. A handler that returns nil or RevokeTask takes
// precedence.
//
// It returns nil once the request is published to all servers, even if no server runs the task.
// Servers of other libraries cancel the task but do not archive it.
func (i *Inspector) CancelAndArchive(ctx context.Context, id string) error {
	return i.cancelTo(ctx, id, wire.CancelArchive)
}

// CancelAndDelete is like CancelAndArchive, but deletes the task. The attempt counts as failed.
func (i *Inspector) CancelAndDelete(ctx context.Context, id string) error {
	return i.cancelTo(ctx, id, wire.CancelDelete)
}

func (i *Inspector) cancelTo(ctx context.Context, id string, fate wire.CancelOutcome) error {
	if ctx == nil {
		return errNilContext
	}
	return brokerError(i.broker.CancelTo(ctx, id, fate))
}

// changeTask applies a change to one task.
func (i *Inspector) changeTask(ctx context.Context, change inspect.Change, id string) error {
	if ctx == nil {
		return errNilContext
	}
	if err := validQueue(change.Queue, queueNotFoundText); err != nil {
		return err
	}
	codes, err := i.inspector.Change(ctx, change, []string{id})
	if err == nil {
		err = codes[0].Err()
	}
	return i.changeError(ctx, string(change.Verb), change.Queue, id, err)
}

// changeError describes why a task was not changed, and what to do instead.
func (i *Inspector) changeError(ctx context.Context, verb, queue, id string, err error) error {
	why := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, script.ErrTaskGone):
		if err := i.mustExist(ctx, queue, queueNotFoundText); err != nil {
			return err
		}
		return taskNotFound(queue, id)
	case errors.Is(err, script.ErrTaskChanged):
		return fmt.Errorf("asynq: cannot %s task %q of queue %q: %w since it was read: read it again", verb, id, queue, ErrTaskChanged)
	case errors.Is(err, script.ErrTaskActive):
		why = "it is active: cancel it first, or wait until it finishes"
	case errors.Is(err, script.ErrTaskStaged):
		why = "it is being aggregated: try again when that is over"
	case errors.Is(err, script.ErrTaskUnfit):
		why = map[string]string{
			"run": "it is pending already", "archive": "it is archived already", "update": "it is not scheduled", "change": "it is completed",
		}[verb]
	default:
		return brokerError(err)
	}
	return &stateError{fmt.Sprintf("asynq: cannot %s task %q of queue %q: %s", verb, id, queue, why)}
}

// The bulk methods change at most 250 tasks per call, which takes Redis about a millisecond, so
// other clients are served in between. They end even if clients keep enqueueing: tasks added after
// the start may remain. With an error, including that of a canceled context, they return the number
// of tasks known to be changed. They return ErrQueueNotFound (errors.Is) if the queue does not
// exist.

// RunAllScheduledTasks runs all scheduled tasks of a queue now, earliest first, and returns their
// number. Tasks with a group return to it.
func (i *Inspector) RunAllScheduledTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateScheduled, inspect.Run)
}

// RunAllRetryTasks runs all tasks in retry of a queue now, earliest first, and returns their
// number. Tasks with a group return to it.
func (i *Inspector) RunAllRetryTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateRetry, inspect.Run)
}

// RunAllArchivedTasks runs all archived tasks of a queue again, oldest first, and returns their
// number. Tasks with a group return to it.
func (i *Inspector) RunAllArchivedTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateArchived, inspect.Run)
}

// RunAllAggregatingTasks runs the tasks of a group one by one instead of aggregated, oldest first,
// and returns their number. It skips tasks that are being aggregated.
func (i *Inspector) RunAllAggregatingTasks(queue, group string) (int, error) {
	return i.changeGroup(queue, group, inspect.Run)
}

// ArchiveAllPendingTasks archives all pending tasks of a queue and returns their number. The
// archive keeps the newest tasks and deletes older ones; see ArchiveLimits and ArchiveRoom.
func (i *Inspector) ArchiveAllPendingTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStatePending, inspect.Archive)
}

// ArchiveAllScheduledTasks archives all scheduled tasks of a queue and returns their number. The
// archive keeps the newest tasks and deletes older ones; see ArchiveLimits and ArchiveRoom.
func (i *Inspector) ArchiveAllScheduledTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateScheduled, inspect.Archive)
}

// ArchiveAllRetryTasks archives all tasks in retry of a queue and returns their number. The archive
// keeps the newest tasks and deletes older ones; see ArchiveLimits and ArchiveRoom.
func (i *Inspector) ArchiveAllRetryTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateRetry, inspect.Archive)
}

// ArchiveAllAggregatingTasks archives all tasks of a group and returns their number. The archive
// keeps the newest tasks and deletes older ones; see ArchiveLimits and ArchiveRoom. It skips tasks
// that are being aggregated.
func (i *Inspector) ArchiveAllAggregatingTasks(queue, group string) (int, error) {
	return i.changeGroup(queue, group, inspect.Archive)
}

// DeleteAllPendingTasks deletes all pending tasks of a queue and returns their number.
func (i *Inspector) DeleteAllPendingTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStatePending, inspect.Delete)
}

// DeleteAllScheduledTasks deletes all scheduled tasks of a queue and returns their number.
func (i *Inspector) DeleteAllScheduledTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateScheduled, inspect.Delete)
}

// DeleteAllRetryTasks deletes all tasks in retry of a queue and returns their number.
func (i *Inspector) DeleteAllRetryTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateRetry, inspect.Delete)
}

// DeleteAllArchivedTasks deletes all archived tasks of a queue and returns their number.
func (i *Inspector) DeleteAllArchivedTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateArchived, inspect.Delete)
}

// DeleteAllCompletedTasks deletes all completed tasks of a queue and returns their number.
func (i *Inspector) DeleteAllCompletedTasks(queue string) (int, error) {
	return i.changeAll(queue, TaskStateCompleted, inspect.Delete)
}

// DeleteAllAggregatingTasks deletes all tasks of a group and returns their number. It skips tasks
// that are being aggregated.
func (i *Inspector) DeleteAllAggregatingTasks(queue, group string) (int, error) {
	return i.changeGroup(queue, group, inspect.Delete)
}

// changeAll changes all tasks in a state.
func (i *Inspector) changeAll(queue string, from TaskState, verb inspect.Verb) (int, error) {
	return i.changeSome(queue, from, "", verb)
}

// changeGroup changes all tasks of a group.
func (i *Inspector) changeGroup(queue, group string, verb inspect.Verb) (int, error) {
	if group == "" { // no task is in it, and "" would select all groups
		if err := validQueue(queue, noQueueText); err != nil {
			return 0, err
		}
		return 0, i.mustExist(i.ctx, queue, noQueueText)
	}
	return i.changeSome(queue, TaskStateAggregating, group, verb)
}

func (i *Inspector) changeSome(queue string, from TaskState, group string, verb inspect.Verb) (int, error) {
	if err := validQueue(queue, noQueueText); err != nil {
		return 0, err
	}
	var done inspect.Changed
	change := inspect.Change{Verb: verb, Queue: queue, From: wire.State(from), Group: group, Done: &done}
	err := i.inspector.ChangeAll(i.ctx, change)
	n := done.Tasks()
	if err == nil && n == 0 {
		return 0, i.mustExist(i.ctx, queue, noQueueText) // check only if there were no tasks
	}
	return n, brokerError(err)
}

// RunTasks runs the tasks of a queue in a state (scheduled, retry, archived, completed or
// aggregating) that the filter admits, and returns their number. It finds them as Tasks does, and
// skips tasks that have left the state.
//
// With an error it returns the number of tasks known to be changed. It returns ErrScanLimit
// (errors.Is) if the filter's MaxScan ended the search, and ErrQueueNotFound if the queue does not
// exist.
func (i *Inspector) RunTasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) (int, error) {
	switch state {
	case TaskStateScheduled, TaskStateRetry, TaskStateArchived, TaskStateCompleted, TaskStateAggregating:
		done, err := i.changeMatching(ctx, queue, state, filter, inspect.Run)
		return done.Tasks(), err
	default:
		return 0, fmt.Errorf("asynq: cannot run tasks that are %v", state)
	}
}

// ArchiveMaxTasks is the default of ArchiveConfig.MaxTasks: the maximum number of tasks in the
// archive of a queue. It keeps the newest.
const ArchiveMaxTasks = 10_000

// ArchiveResult is the result of archiving many tasks.
type ArchiveResult struct {
	// Archived is the number of tasks moved to the archive, including those that were then
	// discarded.
	Archived int

	// Discarded is the number of tasks deleted from the archive, oldest first, because it was full.
	// It does not include tasks deleted because of their age.
	Discarded int
}

// ArchiveTasks archives the tasks of a queue in a state (pending, scheduled, retry or aggregating)
// that the filter admits. The archive keeps the newest tasks (see ArchiveLimits); the result has
// the number of tasks deleted to stay within the limit. See ArchiveRoom. Counts and errors are as
// in RunTasks.
func (i *Inspector) ArchiveTasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) (ArchiveResult, error) {
	switch state {
	case TaskStatePending, TaskStateScheduled, TaskStateRetry, TaskStateAggregating:
		done, err := i.changeMatching(ctx, queue, state, filter, inspect.Archive)
		return ArchiveResult{Archived: done.Tasks(), Discarded: done.Discarded()}, err
	default:
		return ArchiveResult{}, fmt.Errorf("asynq: cannot archive tasks that are %v", state)
	}
}

// ArchiveRoom returns how many tasks the archive of a queue can take before it discards the oldest,
// 0 if it is full. It returns ErrQueueNotFound (errors.Is) if the queue does not exist.
func (i *Inspector) ArchiveRoom(ctx context.Context, queue string) (int, error) {
	if ctx == nil {
		return 0, errNilContext
	}
	n, limits, err := i.inspector.Archived(ctx, queue)
	if err != nil {
		return 0, brokerError(err)
	}
	if n == 0 {
		err = i.mustExist(ctx, queue, queueNotFoundText)
	}
	return max(limits.Tasks-n, 0), err
}

// ArchiveLimits returns the limits of the archive of a queue as its servers publish them (see
// Config.Archive), else the defaults: ArchiveMaxTasks and 90 days. An unknown queue has the
// defaults.
func (i *Inspector) ArchiveLimits(ctx context.Context, queue string) (ArchiveConfig, error) {
	if ctx == nil {
		return ArchiveConfig{}, errNilContext
	}
	_, limits, err := i.inspector.Archived(ctx, queue)
	return publicLimits(limits), brokerError(err)
}

func publicLimits(l wire.ArchiveLimits) ArchiveConfig {
	return ArchiveConfig{MaxTasks: l.Tasks, MaxAge: l.Age}
}

// DeleteTasks deletes the tasks of a queue in a state (any but active) that the filter admits, with
// their locks, and returns their number. Counts and errors are as in RunTasks.
func (i *Inspector) DeleteTasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) (int, error) {
	if state == TaskStateActive {
		return 0, fmt.Errorf("asynq: cannot delete tasks that are %v: cancel them first", state)
	}
	done, err := i.changeMatching(ctx, queue, state, filter, inspect.Delete)
	return done.Tasks(), err
}

// matchingPage is the number of matching tasks that are changed at a time.
const matchingPage = 250

// changeMatching changes the tasks that a filter admits. It returns the IDs of changed tasks also
// with an error.
func (i *Inspector) changeMatching(
	ctx context.Context, queue string, state TaskState, filter TaskFilter, verb inspect.Verb,
) (done *inspect.Changed, err error) {
	done = &inspect.Changed{}
	change := inspect.Change{Verb: verb, Queue: queue, From: wire.State(state), Group: filter.Group, Done: done}
	more := func(ids []string) error {
		_, err := i.inspector.Change(ctx, change, ids)
		return brokerError(err)
	}
	err = inPages(matchingPage, more, func(add func(id string) bool) error {
		return i.eachTask(ctx, queue, state, filter, func(_ *inspect.TaskInfo, t *TaskInfo) bool { return add(t.ID) })
	})
	return done, err
}

// inPages calls page with n values at a time that each adds, and with the rest when each returns,
// also with an error. The first error of page ends each: add then returns false.
func inPages[T any](n int, page func(values []T) error, each func(add func(value T) bool) error) error {
	var values []T
	var failed error
	flush := func() {
		failed = page(values)
		values = values[:0]
	}
	err := each(func(value T) bool {
		if values = append(values, value); len(values) == n {
			flush()
		}
		return failed == nil
	})
	if failed == nil && len(values) > 0 {
		flush()
	}
	return cmp.Or(failed, err)
}
