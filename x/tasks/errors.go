package tasks

import "errors"

// The errors of the package. Returned errors wrap them.
var (
	// ErrDefinition is returned for an invalid definition or table: for example, the name is not a
	// valid queue name, settings contradict each other, or a name is duplicate.
	ErrDefinition = errors.New("tasks: invalid definition")

	// ErrParams is the error of an attempt whose payload cannot be decoded. The task is archived.
	ErrParams = errors.New("tasks: invalid parameters")

	// ErrArchived is returned by Wait for an archived task: its retries are exhausted, or its error
	// wraps asynq.SkipRetry.
	ErrArchived = errors.New("tasks: task archived")

	// ErrGone is returned by Wait for a task that does not exist: it succeeded without a Retention,
	// was deleted, or was never enqueued.
	ErrGone = errors.New("tasks: task not found")
)
