package asynq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// UpdateTask changes a task that is pending, scheduled, in retry, archived or waiting in a group,
// in one transition. It returns the state of the task after the change; only its ID and Queue are
// set if the task is gone by then.
//
// A nil payload leaves the payload as it is. The options are MaxRetry, Timeout, Deadline,
// Retention, ExpiresIn, ProcessAt, ProcessIn and Queue; what they do not name stays. Any other
// option is an error. With ProcessAt or ProcessIn, a task in retry remains in retry, and all others
// become scheduled; a time in the past means now. Without them, the task keeps its time and, in the
// same queue, its place. ExpiresIn counts from this call. It is an error if ProcessAt or ProcessIn
// is not before the expiry. ExpiresIn alone is not compared with the time that the task has: a task
// that is due after it expires does not run.
//
// Queue moves the task, with its uniqueness lock, behind the tasks of the other queue. On a Redis
// Cluster, it returns an error: no transition changes two queues there. The lock of a task with
// Unique still is that of its old payload.
//
// It returns ErrQueueNotFound or ErrTaskNotFound (errors.Is) if the task does not exist,
// ErrTaskState if it is active, completed or being aggregated, ErrTaskChanged if others kept
// changing it, and ErrTaskIDConflict or ErrDuplicateTask if the other queue has a task with its ID
// or its lock. Then nothing is changed.
func (i *Inspector) UpdateTask(ctx context.Context, queue, id string, payload []byte, opts ...Option) (*TaskInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if err := validQueue(queue, queueNotFoundText); err != nil {
		return nil, err
	}
	u := inspect.Update{Queue: queue, ID: id}
	edits, err := taskEdits(&u, opts, i.conn.now())
	if err != nil {
		return nil, err
	}
	if payload != nil {
		edits = append(edits, func(m *wire.TaskMessage) { m.Payload = payload })
	}
	u.Edit = func(m *wire.TaskMessage) error {
		for _, edit := range edits {
			edit(m)
		}
		if m.Timeout == 0 && m.Deadline == 0 {
			m.Timeout = ceilSeconds(defaultTimeout)
		}
		if at := m.Expires(); u.Reschedule && at > 0 && u.At >= at {
			return fmt.Errorf("the task expires at %v, before it would be due: set ExpiresIn, too", unixTime(at).UTC())
		}
		return nil
	}
	err = i.inspector.Update(ctx, &u)
	switch {
	case errors.Is(err, script.ErrTaskIDConflict), errors.Is(err, script.ErrDuplicateTask):
		return nil, fmt.Errorf("asynq: cannot move task %q to queue %q: %w", id, u.Target, publicError(err))
	case script.IsFull(err):
		return nil, publicError(err)
	case err != nil:
		return nil, i.changeError(ctx, "change", queue, id, err)
	}
	if u.Target != "" {
		queue = u.Target
	}
	info, err := i.WithContext(ctx).GetTaskInfo(queue, id)
	switch {
	case errors.Is(err, ErrTaskNotFound), errors.Is(err, ErrQueueNotFound):
		return &TaskInfo{ID: id, Queue: queue}, nil
	case err != nil:
		return nil, fmt.Errorf("asynq: task %q was changed, but could not be read: %w", id, err)
	}
	return info, nil
}

// taskEdits returns what options change in a message. It sets the queue and the time in u.
func taskEdits(u *inspect.Update, opts []Option, now time.Time) (edits []func(*wire.TaskMessage), err error) {
	opts, err = ownOptions(opts)
	if err != nil {
		return nil, err
	}
	o, err := composeOptions(now, opts)
	if err != nil {
		return nil, err
	}
	add := func(edit func(m *wire.TaskMessage)) { edits = append(edits, edit) }
	for _, opt := range opts {
		switch opt.Type() {
		case MaxRetryOpt:
			add(func(m *wire.TaskMessage) { m.MaxRetry = min(o.maxRetry, math.MaxInt32) })
		case TimeoutOpt:
			add(func(m *wire.TaskMessage) { m.Timeout = ceilSeconds(o.timeout) })
		case DeadlineOpt:
			at := int64(0)
			if !o.deadline.IsZero() {
				at = ceilUnix(o.deadline)
			}
			add(func(m *wire.TaskMessage) { m.Deadline = at })
		case RetentionOpt:
			add(func(m *wire.TaskMessage) { m.Retention = ceilSeconds(o.retention) })
		case ExpiresInOpt:
			at := now.Add(o.rare.expiresIn)
			if !at.After(o.processAt) {
				return nil, fmt.Errorf("asynq: %v: the task would be due after it expires", opt)
			}
			add(func(m *wire.TaskMessage) { m.SetExpires(ceilUnix(at)) })
		case ProcessAtOpt, ProcessInOpt:
			u.Reschedule = true
			if s := ceilUnix(o.processAt); s > 0 {
				u.At, u.Early = s, earlyMillis(o.processAt)
			}
		case QueueOpt:
			if u.Target = o.queue; !utf8.ValidString(u.Target) {
				return nil, fmt.Errorf("asynq: queue is not valid UTF-8: %q", u.Target)
			}
		default:
			return nil, fmt.Errorf("asynq: %v: UpdateTask cannot change it: delete the task and enqueue another one", opt)
		}
	}
	return edits, nil
}
