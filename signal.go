package asynq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// ErrTooManySignals means that a task was sent no signal because it already has 100.
var ErrTooManySignals = errors.New("task has too many signals")

// Signal sends a signal to a task: value, encoded as JSON, for step.WaitSignal with the same name.
// If the task waits for just this signal, it becomes pending at once, in front of the other tasks.
// Otherwise the signal is kept until the task waits for it, in whichever state the task is. The
// first signal with a name counts: later ones are ignored, so that Signal may be repeated after an
// error. So are signals whose wait has timed out.
//
// name has at most 200 bytes of UTF-8, and value at most 1 MB as JSON. Signal returns
// ErrTaskNotFound if the queue or the task does not exist, ErrTaskState if the task is completed
// and has no signal with the name, ErrTooManySignals if the task has 100 signals, and ErrRedisFull
// if Redis is at its memory limit. If ctx ends first, the signal may or may not be sent.
func (c *Client) Signal(ctx context.Context, queue, taskID, name string, value any) error {
	if ctx == nil {
		return errNilContext
	}
	if err := wire.ValidateQueueName(queue); err != nil {
		return fmt.Errorf("asynq: %w", err)
	}
	if taskID == "" {
		return errors.New("asynq: task ID must not be empty")
	}
	if err := wire.ValidateStepName(name); err != nil {
		return fmt.Errorf("asynq: signal %q: %w", name, err)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("asynq: value of signal %q: %w", name, err)
	}
	if len(encoded) > wire.MaxStepValue {
		return fmt.Errorf("asynq: value of signal %q has %d bytes as JSON: at most %d are allowed", name, len(encoded), wire.MaxStepValue)
	}
	if !await(ctx, func(ctx context.Context) { err = c.broker.Signal(ctx, queue, taskID, name, encoded) }) {
		return fmt.Errorf("asynq: no reply from Redis, signal %q may or may not be sent: %w", name, context.Cause(ctx))
	}
	switch {
	case errors.Is(err, script.ErrTaskGone):
		return taskNotFound(queue, taskID)
	case errors.Is(err, script.ErrTaskUnfit):
		return fmt.Errorf("asynq: %w: task %q is completed", ErrTaskState, taskID)
	case errors.Is(err, rdb.ErrTooManySignals):
		return fmt.Errorf("asynq: %w: task %q", ErrTooManySignals, taskID)
	default:
		return publicError(err)
	}
}
