package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Update is a change of one task that is not active or completed.
type Update struct {
	Queue, ID string

	// Edit changes the message. It may be called several times, each time with the current one.
	Edit func(m *wire.TaskMessage) error

	Target string // queue to which the task moves; empty: it stays

	Reschedule bool   // the task gets another time
	At         int64  // that time, unix seconds
	Early      uint16 // as in rdb.NewTask
}

// ErrOtherSlot means that two queues do not share a hash slot of a Cluster.
var ErrOtherSlot = errors.New("inspect: a task cannot move to another queue on a Redis Cluster: enqueue it there and delete it here")

// Update applies a change in one transition. It returns ErrTaskGone, ErrTaskActive, ErrTaskStaged,
// ErrTaskUnfit (completed), ErrTaskIDConflict or ErrDuplicateTask (in the target), ErrOtherSlot, or
// the error of Edit. If the task moves, so does its lock.
func (b *Inspector) Update(ctx context.Context, u *Update) error {
	q := b.Queue(u.Queue)
	to := q
	if u.Target != "" && u.Target != u.Queue {
		if b.Cluster() != nil {
			return ErrOtherSlot
		}
		to = b.Queue(u.Target)
	}
	from := q.AcquireSequence()
	defer q.ReleaseSequence(ctx, from)
	for try := range updateTries {
		old, err := b.Client().HMGet(ctx, q.Keys.Task(u.ID), wire.FieldMessage, wire.FieldUniqueKey, wire.FieldState).Result()
		if err != nil {
			return fmt.Errorf("inspect: reading a task: %w", err)
		}
		text, ok := old[0].(string)
		if !ok {
			return script.ErrTaskGone
		}
		switch old[2] { // the script checks it again
		case wire.StateActive.String():
			return script.ErrTaskActive
		case wire.StateCompleted.String():
			return script.ErrTaskUnfit
		}
		if try == 0 && to != q {
			if err := b.RegisterQueues(ctx, []string{u.Target}); err != nil {
				return err
			}
		}
		lock, _ := old[1].(string)
		if err := b.update(ctx, u, from, q, to, text, q.Lock(lock)); !errors.Is(err, script.ErrTaskChanged) {
			return err
		}
	}
	return script.ErrTaskChanged
}

// update changes the task if its message is still old.
func (b *Inspector) update(ctx context.Context, u *Update, from *script.Sequence, q, to *script.Queue, old, lock string) error {
	msg, err := wire.DecodeTaskMessage([]byte(old))
	if err != nil {
		return fmt.Errorf("inspect: task %q of queue %q: %w", u.ID, u.Queue, err)
	}
	if err := u.Edit(msg); err != nil {
		return err
	}
	msg.Queue = to.Keys.Name
	if name, ok := strings.CutPrefix(lock, q.Keys.UniquePrefix()); ok {
		lock = to.Keys.UniquePrefix() + name
		msg.UniqueKey = lock
	}
	text, err := msg.Encode()
	if err != nil {
		return fmt.Errorf("inspect: task %q of queue %q: %w", u.ID, u.Queue, err)
	}
	var at any = ""
	if u.Reschedule {
		at = b.broker.Due(u.At, u.Early)
	}
	from.Next(time.Now())
	c := script.NewCall(updateTaskScript, 16+9).
		Key(q.Pending, q.Scheduled, q.Retry, q.Archived, q.Groups, from.Record, q.Keys.Task(u.ID)).
		Key(to.Pending, to.Scheduled, to.Retry, to.Archived, to.Groups, to.GroupsDue, to.Marker, to.Keys.Task(u.ID), q.Keys.HeldTasks()).
		Arg(from.Number, u.ID, old, text, at, q.GroupPrefix, to.TaskPrefix, to.GroupPrefix, lock)
	c.Late = true
	b.Run(ctx, c)
	r := c.Read()
	code := r.Code()
	if err := r.Err(); err != nil {
		return err
	}
	return code.Err()
}
