package rdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/asynq-go/asynq/internal/wire"
)

// updateTries is how often a message is read again because somebody changed it in between. Nothing does that in a loop.
const updateTries = 10

// UpdateMessage changes the message of a scheduled task. edit may be called several times, each time with the message as it is then. The
// error is ErrTaskGone, ErrTaskActive or ErrTaskUnfit (not scheduled) where there is no such task, and edit's own if it returns one.
// A lock stays with the task under the key that it was taken with, whatever the message says then.
func (b *Broker) UpdateMessage(ctx context.Context, queue, id string, edit func(*wire.TaskMessage) error) error {
	q := b.queues.get(queue)
	for range updateTries {
		values, err := b.client.HMGet(ctx, q.keys.Task(id), wire.FieldState, wire.FieldMessage).Result()
		if err != nil {
			return fmt.Errorf("rdb: reading a task: %w", err)
		}
		state, _ := values[0].(string)
		old, _ := values[1].(string)
		switch state {
		case "":
			return ErrTaskGone
		case wire.StateActive.String():
			return ErrTaskActive
		case wire.StateScheduled.String():
		default:
			return ErrTaskUnfit
		}
		msg, err := wire.DecodeTaskMessage([]byte(old))
		if err != nil {
			return fmt.Errorf("rdb: task %q of queue %q: %w", id, queue, err)
		}
		if err := edit(msg); err != nil {
			return err
		}
		text, err := msg.Encode()
		if err != nil {
			return fmt.Errorf("rdb: task %q of queue %q: %w", id, queue, err)
		}
		c := newCall(updateMessageScript, 1+2).key(q.keys.Task(id)).arg(old, text)
		b.run(ctx, c)
		code, err := c.int()
		if err != nil {
			return err
		}
		if err := Code(code).Err(); !errors.Is(err, ErrTaskChanged) {
			return err
		}
	}
	return ErrTaskChanged
}
