package tasks

import "errors"

// The errors of the package; errors.Is finds them in what is returned.
var (
	// ErrDefinition is returned for a task, or a table of them, that cannot be: its name is none that a queue may have, settings
	// contradict each other, a name is there twice.
	ErrDefinition = errors.New("tasks: invalid definition")

	// ErrParams is the error of an attempt whose payload is none that the task's parameters can be read from. The task is archived.
	ErrParams = errors.New("tasks: parameters cannot be read")

	// ErrArchived is returned by Wait for a task that failed for good.
	ErrArchived = errors.New("tasks: task failed, and is in the archive")

	// ErrGone is returned by Wait for a task that is not there: it succeeded and was not kept (see Retention), or was deleted, or there
	// never was one.
	ErrGone = errors.New("tasks: there is no such task any more")
)
