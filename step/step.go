package step

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// Run returns the value of the step, which f returns. If an earlier attempt of the task has
// recorded the value, f does not run. Otherwise Run calls f with ctx, and records its value as JSON
// before it returns. If f returns an error, Run returns that error and records nothing; the name
// may then be used again in this attempt.
//
// The first step of an attempt reads all steps of the task, with one call of Redis. Run needs one
// more call only to record a value, and one for each value that an earlier attempt recorded beyond
// the first megabyte. Run returns the value as decoded from JSON, so that all attempts get the
// same: fields that JSON ignores are zero.
//
// The value is recorded even if ctx has ended since, and also if Redis is at its memory limit. If
// Redis cannot be reached for more than 10 seconds, Run returns an error, and the next attempt runs
// f again, as it does after a crash. If the lease is lost, Run returns asynq.ErrLeaseExpired and
// records nothing.
func Run[T any](ctx context.Context, name string, f func(context.Context) (T, error)) (T, error) {
	var zero T
	s, err := of(ctx, name)
	if err != nil {
		return zero, err
	}
	recorded, ok, err := s.Begin(ctx, name)
	if err != nil {
		return zero, wrap(name, err)
	}
	if ok {
		return decode[T](name, recorded)
	}
	done := false
	defer func() {
		if !done { // f failed or panicked, or its value is not recorded
			s.Release(name)
		}
	}()
	value, err := f(ctx)
	if err != nil {
		return zero, err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return zero, wrap(name, fmt.Errorf("%w: %w", ErrValue, err))
	}
	if value, err = decode[T](name, encoded); err != nil {
		return zero, err
	}
	if err := s.Record(ctx, name, encoded); err != nil {
		return zero, wrap(name, fmt.Errorf("step: value not recorded: %w", err))
	}
	done = true
	return value, nil
}

// Sleep returns nil once d has passed since the first call of the step, by the clock of Redis, in
// this or an earlier attempt. Before, it returns an error with which the handler must return. The
// task then waits in the state retry without a worker, and its next attempt starts when the time
// has come. The attempt does not count: see asynq.Snooze. A d of zero or less returns nil at once.
//
// The first call determines the end: it is recorded, and later calls ignore d. The task wakes up to
// a second later, unless the server uses asynq.WithMillisecondTimes. If it is run earlier
// (Inspector.RunTask), it sleeps again for the rest.
//
// For sleeps of less than a second, time.Sleep is cheaper.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	s, err := of(ctx, name)
	if err != nil {
		return err
	}
	return wrap(name, s.Sleep(ctx, name, d))
}

// WaitSignal returns the value of the signal with this name, which asynq.Client.Signal sends to the
// task, as decoded from JSON. If it has not come, WaitSignal returns an error with which the
// handler must return. The task then waits in the state retry without a worker, and runs again when
// the signal comes or the timeout is over, as after Sleep.
//
// Signals are kept: one that comes before the task waits for it, or even before it runs, is
// received at once, and all later attempts receive the same value. If none has come within the
// timeout from the first call, WaitSignal returns ErrSignalTimeout; a timeout of zero or less only
// checks. The first call determines the end, and the outcome is recorded: after a timeout, the
// signal is no longer received.
func WaitSignal[T any](ctx context.Context, name string, timeout time.Duration) (T, error) {
	var zero T
	s, err := of(ctx, name)
	if err != nil {
		return zero, err
	}
	value, err := s.WaitSignal(ctx, name, timeout)
	if err != nil {
		return zero, wrap(name, err)
	}
	return decode[T](name, value)
}

// of returns the steps of the task that is being processed.
func of(ctx context.Context, name string) (*worker.Steps, error) {
	if ctx == nil {
		return nil, ErrNoTask
	}
	a := worker.FromContext(ctx)
	if a == nil || !a.InPool() {
		return nil, ErrNoTask
	}
	if err := wire.ValidateStepName(name); err != nil {
		return nil, wrap(name, fmt.Errorf("%w: %w", ErrName, err))
	}
	s, err := a.Steps()
	return s, wrap(name, err)
}

// decode returns the value of a step or signal.
func decode[T any](name string, encoded []byte) (T, error) {
	var value T
	if err := json.Unmarshal(encoded, &value); err != nil {
		var zero T
		return zero, wrap(name, fmt.Errorf("%w: %w", ErrValue, err))
	}
	return value, nil
}
