package step

import (
	"errors"
	"fmt"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/worker"
)

// ErrSignalTimeout means that WaitSignal received no signal within its timeout. The result is
// recorded: later attempts return it, too, even if the signal comes late. It does not wrap
// asynq.SkipRetry: the handler decides what happens.
var ErrSignalTimeout = worker.ErrSignalTimeout

// ErrNoTask means that ctx is not derived from the context of a handler or a lease.
var ErrNoTask = errors.New("step: the context is not that of a handler, or of a Lease")

// Errors of a handler that uses steps in a wrong way. They wrap asynq.SkipRetry: if the handler
// returns them, the task is archived, because a retry would fail in the same way.
var (
	// ErrName means that the name of a step is empty, longer than 200 bytes, or not UTF-8.
	ErrName = errors.New("step: invalid name")

	// ErrDuplicate means that two steps of an attempt have the same name. Number the steps of a
	// loop: "page-1", "page-2".
	ErrDuplicate = worker.ErrStepUsed

	// ErrKind means that the task has a step of this name that another function recorded: Run,
	// Sleep or WaitSignal. Use another name.
	ErrKind = worker.ErrStepKind

	// ErrValue means that a value cannot be encoded as JSON, or that a recorded value cannot be
	// decoded, for example because its type has changed since.
	ErrValue = errors.New("step: value is not usable as JSON")

	// ErrTooLarge means that a value exceeds 1 MB as JSON, or all values of the task 16 MB. Store
	// large data elsewhere, and record a reference. The function of the step has run.
	ErrTooLarge = worker.ErrStepTooLarge

	// ErrTooMany means that the task has 500 steps. The function of the step has not run.
	ErrTooMany = worker.ErrTooManySteps
)

// skipped are the errors that a retry does not fix.
var skipped = []error{ErrName, ErrDuplicate, ErrKind, ErrValue, ErrTooLarge, ErrTooMany, worker.ErrStepRecord}

// stepError is an error of a step.
type stepError struct {
	name string
	err  error
	skip bool // the task must not be retried
}

// Error names the step.
func (e *stepError) Error() string { return fmt.Sprintf("%v (step %q)", e.err, e.name) }

// Unwrap returns the error and, if a retry would fail in the same way, asynq.SkipRetry.
func (e *stepError) Unwrap() []error {
	if e.skip {
		return []error{e.err, asynq.SkipRetry}
	}
	return []error{e.err}
}

// wrap adds the name of a step to an error that is not of the user's function.
func wrap(name string, err error) error {
	var suspended *worker.Suspension
	if err == nil || errors.As(err, &suspended) {
		return err
	}
	e := &stepError{name: name, err: err}
	for _, skip := range skipped {
		e.skip = e.skip || errors.Is(err, skip)
	}
	return e
}
