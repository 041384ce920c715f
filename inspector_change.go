package asynq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// RunTask has a task run at once that is scheduled, to be retried, archived, completed or waiting in a group. A task that has a group goes
// back into it, to be aggregated with the others; one that waits there already runs by itself.
//
// The error is ErrQueueNotFound or ErrTaskNotFound (errors.Is) where there is none, and ErrTaskState if the task is pending, active, or
// being aggregated right now.
func (i *Inspector) RunTask(queue, id string) error {
	return i.changeTask(i.ctx, "run", queue, id, i.broker.RunTasks)
}

// ArchiveTask moves a task to the archive that is pending, scheduled, to be retried or waiting in a group. The archive keeps the newest
// 10,000 tasks, for 90 days. A uniqueness lock stays with the task.
//
// The error is ErrQueueNotFound or ErrTaskNotFound (errors.Is) where there is none, and ErrTaskState if the task is active, archived
// already, completed, or being aggregated right now. To archive an active task, see CancelAndArchive.
func (i *Inspector) ArchiveTask(queue, id string) error {
	return i.changeTask(i.ctx, "archive", queue, id, i.broker.ArchiveTasks)
}

// DeleteTask deletes a task in any state but active, and gives its uniqueness lock up.
//
// The error is ErrQueueNotFound or ErrTaskNotFound (errors.Is) where there is none, and ErrTaskState if the task is active, or being
// aggregated right now. To delete an active task, see CancelAndDelete.
func (i *Inspector) DeleteTask(queue, id string) error {
	return i.changeTask(i.ctx, "delete", queue, id, i.broker.DeleteTasks)
}

// Reschedule has a task run at another time, rounded up to whole seconds, and never before it; a time in the past is as good as now. A
// task that waits for its retry goes on doing so; a pending, archived or completed one is scheduled. So is one that waits in a group,
// to go back there when its time has come.
//
// The error is ErrQueueNotFound or ErrTaskNotFound (errors.Is) where there is none, and ErrTaskState if the task is active, or being
// aggregated right now.
func (i *Inspector) Reschedule(ctx context.Context, queue, id string, at time.Time) error {
	return i.changeTask(ctx, "reschedule", queue, id, func(ctx context.Context, queue string, ids []string) ([]rdb.Code, error) {
		return i.broker.RescheduleTasks(ctx, queue, ids, max(ceilUnix(at), 0))
	})
}

// UpdateTaskPayload replaces the payload of a scheduled task. A uniqueness lock that the task holds stays what it was when the task was
// enqueued: it goes on keeping out tasks with the old payload, not those with the new one, and is given up with the task.
//
// The error is ErrQueueNotFound or ErrTaskNotFound (errors.Is) where there is none, and ErrTaskState if the task is not scheduled.
//
// What somebody else has changed meanwhile is lost: where two people may edit the same task, see ReplaceTaskPayload.
func (i *Inspector) UpdateTaskPayload(queue, id string, payload []byte) error {
	payload = bytes.Clone(payload) // the caller's again when ctx has ended
	return i.updatePayload(i.ctx, queue, id, func([]byte) ([]byte, error) { return payload, nil })
}

// ReplaceTaskPayload is UpdateTaskPayload for those who have read the payload before: the payload is replaced only if it still is seen,
// and Redis compares and replaces it in one step. If it is the new one already, as after a call whose answer was lost, there is nothing
// to do; so of two who replace it by the same, both succeed.
//
// The error is ErrTaskChanged (errors.Is) if the task has another payload by now, and otherwise as of UpdateTaskPayload; nothing was
// changed then. Only payloads are compared: a task that was rescheduled in between is still the same.
func (i *Inspector) ReplaceTaskPayload(ctx context.Context, queue, id string, seen, payload []byte) error {
	if ctx == nil {
		return errNilContext
	}
	seen, payload = bytes.Clone(seen), bytes.Clone(payload) // the caller's again when ctx has ended
	return i.updatePayload(ctx, queue, id, func(now []byte) ([]byte, error) {
		if !bytes.Equal(now, seen) && !bytes.Equal(now, payload) {
			return nil, rdb.ErrTaskChanged
		}
		return payload, nil
	})
}

// updatePayload makes the payload of a task what edit makes of it. edit may be called several times.
func (i *Inspector) updatePayload(ctx context.Context, queue, id string, edit func(now []byte) ([]byte, error)) error {
	if err := validateQueueName(queue); err != nil {
		return err
	}
	err := untilDone(ctx, func() error {
		return i.broker.UpdateMessage(ctx, queue, id, func(m *wire.TaskMessage) (err error) {
			m.Payload, err = edit(m.Payload)
			return err
		})
	})
	return i.changeError(ctx, "update", queue, id, err)
}

// CancelAndArchive cancels a task as CancelProcessing does; if its handler then ends with an error, the task is archived instead of
// retried. A handler that returns nil or RevokeTask nevertheless has its way.
//
// That the error is nil says only that all servers were asked. A task that is not active, or that a server of another library runs, is
// not archived; the latter is canceled.
func (i *Inspector) CancelAndArchive(ctx context.Context, id string) error {
	return i.cancelTo(ctx, id, wire.FateArchive)
}

// CancelAndDelete is like CancelAndArchive, and the task is deleted instead. The attempt counts as failed in the statistics.
func (i *Inspector) CancelAndDelete(ctx context.Context, id string) error {
	return i.cancelTo(ctx, id, wire.FateDelete)
}

func (i *Inspector) cancelTo(ctx context.Context, id string, fate wire.Fate) error {
	if ctx == nil {
		return errNilContext
	}
	if err := untilDone(ctx, func() error { return i.broker.CancelTo(ctx, id, fate) }); err != nil {
		return brokerError(err)
	}
	return nil
}

// changeTask makes a change of one task.
func (i *Inspector) changeTask(ctx context.Context, verb, queue, id string, change func(context.Context, string, []string) ([]rdb.Code, error)) error {
	if ctx == nil {
		return errNilContext
	}
	if err := validateQueueName(queue); err != nil {
		return err
	}
	codes, err := until(ctx, func() ([]rdb.Code, error) { return change(ctx, queue, []string{id}) })
	if err == nil {
		err = codes[0].Err()
	}
	return i.changeError(ctx, verb, queue, id, err)
}

// changeError says why a task was not changed, and what can be done about it.
func (i *Inspector) changeError(ctx context.Context, verb, queue, id string, err error) error {
	why := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rdb.ErrTaskGone):
		if err := i.mustExist(ctx, queue); err != nil {
			return err
		}
		return fmt.Errorf("asynq: %w: %q in queue %q", ErrTaskNotFound, id, queue)
	case errors.Is(err, rdb.ErrTaskChanged):
		return fmt.Errorf("asynq: cannot %s task %q of queue %q: %w since it was read: read it again", verb, id, queue, ErrTaskChanged)
	case errors.Is(err, rdb.ErrTaskActive):
		why = "it is active: cancel it first with CancelProcessing, or wait for its end"
	case errors.Is(err, rdb.ErrTaskStaged):
		why = "it is being aggregated: try again when that is over"
	case errors.Is(err, rdb.ErrTaskUnfit):
		why = map[string]string{
			"run": "it is pending already", "archive": "it is archived already, or completed", "update": "it is not scheduled",
		}[verb]
	default:
		return brokerError(err)
	}
	return &stateError{fmt.Sprintf("asynq: cannot %s task %q of queue %q: %s", verb, id, queue, why)}
}
