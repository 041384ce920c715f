package asynq

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/worker"
)

// Errors of enqueueing.
var (
	// ErrDuplicateTask means that a task was not enqueued because another task of the queue holds
	// its uniqueness lock: see Unique and UniqueKey. Usually the caller can ignore it: the other
	// task does the work. Client returns it as a *DuplicateTaskError, which names that task.
	ErrDuplicateTask = errors.New("task already exists")

	// ErrTaskIDConflict means that a task was not enqueued because its queue already contains a
	// task with this ID, in any state.
	ErrTaskIDConflict = errors.New("task ID conflicts with another task")

	// ErrRedisFull means that Redis rejected a new task because it has reached its maxmemory limit.
	// Tasks that are already stored are still processed. Enqueue again later, or give Redis more
	// memory.
	ErrRedisFull = errors.New("asynq: Redis is out of memory and rejects new tasks")
)

// DuplicateTaskError is the error of a task that was not enqueued because another task holds its
// uniqueness lock. It wraps ErrDuplicateTask; errors.As gives access to the other task.
type DuplicateTaskError struct {
	Queue string // queue of both tasks

	// TaskID is the ID of the task that holds the lock. It is empty if the lock was released since,
	// or could not be read.
	TaskID string
}

// Error returns the text of ErrDuplicateTask and, if it is known, the ID of the other task.
func (e *DuplicateTaskError) Error() string {
	if e.TaskID == "" {
		return ErrDuplicateTask.Error()
	}
	return fmt.Sprintf("%v: task %q of queue %q holds the uniqueness lock", ErrDuplicateTask, e.TaskID, e.Queue)
}

// Unwrap returns ErrDuplicateTask.
func (e *DuplicateTaskError) Unwrap() error { return ErrDuplicateTask }

// Errors of inspecting queues and tasks.
var (
	// ErrQueueNotFound means that no queue has this name.
	ErrQueueNotFound = errors.New("queue not found")

	// ErrQueueNotEmpty means that a queue was not deleted because it contains tasks.
	ErrQueueNotEmpty = errors.New("queue is not empty")

	// ErrTaskNotFound means that the queue has no task with this ID.
	ErrTaskNotFound = errors.New("task not found")

	// ErrTaskState means that the task's state does not allow the change: an active task cannot be
	// deleted, for example. The error's text names the state and, where there is one, the remedy.
	ErrTaskState = errors.New("operation not allowed in the current state of the task")

	// ErrTaskChanged means that the task was modified after the caller read it. Read it again
	// before deciding.
	ErrTaskChanged = errors.New("task has changed")

	// ErrScanLimit means that Inspector.Tasks has scanned TaskFilter.MaxScan tasks, and that there
	// are more.
	ErrScanLimit = errors.New("asynq: scan limit reached: raise TaskFilter.MaxScan or narrow the filter")

	// ErrCursor means that a cursor is malformed, or belongs to another list of tasks. Start with
	// an empty cursor.
	ErrCursor = errors.New("asynq: invalid cursor: start with an empty one")

	// ErrTaskImported means that a task was not created because an import with the same
	// ImportOptions.IdempotencyKey has created it before. It may have run since. Ignore the error,
	// or import the task again with another key.
	ErrTaskImported = errors.New("task was imported before")
)

// Errors of commands to servers, such as Inspector.QuietServer.
var (
	// ErrServerNotFound means that no running server has this ID.
	ErrServerNotFound = errors.New("server not found")

	// ErrRemoteControl means that a server accepts no commands: Config.DisableRemoteControl is set,
	// or it is a server of another library, or a worker that uses a Receiver.
	ErrRemoteControl = errors.New("server does not accept commands")

	// ErrCommandUnconfirmed means that a server has not confirmed a command in time. It may still
	// execute it within a few seconds. See ServerInfo for its state.
	ErrCommandUnconfirmed = errors.New("server has not confirmed the command")
)

// Errors of schedulers and their entries.
var (
	// ErrSchedulerClosed is returned by methods of a Scheduler or PeriodicTaskManager after
	// Shutdown. Create a new one.
	ErrSchedulerClosed = errors.New("asynq: scheduler closed")

	// ErrSchedulerEntryNotFound means that no entry has this ID: in the given Scheduler, or, if an
	// Inspector returns the error, in any running scheduler.
	ErrSchedulerEntryNotFound = errors.New("scheduler entry not found")
)

// Errors of servers, receivers and handlers.
var (
	// ErrServerClosed is returned by Server.Start, Run and Ping after Shutdown. It is also the
	// cancellation cause (context.Cause) of a handler that was still running when the shutdown
	// timed out.
	ErrServerClosed = worker.ErrServerClosed

	// ErrReceiverClosed is returned by methods of a Receiver after Shutdown. Leases outlive the
	// Receiver: settle them with another one.
	ErrReceiverClosed = errors.New("asynq: receiver closed")

	// ErrLeaseExpired means that a task's lease has expired or was lost. It is the cancellation
	// cause of a handler whose server could not extend the lease in time, and the error of an
	// attempt whose server crashed. Another server may have taken over the task, in which case the
	// handler's result is discarded.
	ErrLeaseExpired = worker.ErrLeaseExpired

	// ErrTaskCanceled is the cancellation cause of a handler whose task was canceled, for example
	// by Inspector.CancelProcessing.
	ErrTaskCanceled = worker.ErrCanceled

	// ErrHandlerStuck is the error of an attempt whose handler kept running for more than
	// Config.StuckGracePeriod after its context ended.
	ErrHandlerStuck = worker.ErrStuck

	// ErrTaskExpired is the error of a task that expired before an attempt: see ExpiresIn. An
	// Observer receives it, and ErrorHandler if the task is archived.
	ErrTaskExpired = worker.ErrExpired

	// ErrHandlerNotFound means that a ServeMux has no handler for a task's type.
	ErrHandlerNotFound = worker.ErrHandlerNotFound
)

// Errors that a handler returns to override the default outcome of a failed attempt. They may be
// wrapped.
var (
	// SkipRetry archives the task, even if it has retries left.
	SkipRetry = worker.ErrSkipRetry

	// RevokeTask ends the task: it is neither retried nor archived.
	RevokeTask = worker.ErrRevokeTask
)

// RetryAfter returns an error that makes the next attempt start after d instead of the delay that
// RetryDelayFunc returns. The attempt counts as failed unless Config.IsFailure decides otherwise. A
// negative d means zero.
func RetryAfter(d time.Duration) error { return &worker.RetryError{After: d} }

// Snooze returns an error that makes the task run again after d without using up an attempt. The
// attempt counts neither as processed nor as failed, and ErrorHandler is not called. A negative d
// means zero.
func Snooze(d time.Duration) error { return &worker.RetryError{After: d, Snooze: true} }

// IsSnooze reports whether err is, or wraps, an error returned by Snooze. Middleware that counts
// failures should leave these out.
func IsSnooze(err error) bool {
	var retry *worker.RetryError
	return errors.As(err, &retry) && retry.Snooze
}

// PanicError is the error of an attempt whose handler panicked or called runtime.Goexit.
type PanicError struct {
	Value any    // argument of panic; nil for runtime.Goexit
	Stack []byte // stack trace of the panicking goroutine
}

// Error returns "panic: " and the value as text.
func (e *PanicError) Error() string { return (*worker.PanicError)(e).Error() }

// Unwrap returns Value if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error { return (*worker.PanicError)(e).Unwrap() }

// IsPanicError reports whether err is, or wraps, a *PanicError.
func IsPanicError(err error) bool {
	var p *PanicError
	return errors.As(err, &p)
}

// NotFoundError is returned by methods of an Inspector for a queue or a task that does not exist.
// It wraps ErrQueueNotFound or ErrTaskNotFound. Its text is that of the original library and names
// neither the queue nor the task; errors.As gives access to both.
type NotFoundError struct {
	Queue string // name of the queue
	ID    string // ID of the task; empty if the queue itself does not exist

	text string
	is   error
}

// Error returns the text of the error.
func (e *NotFoundError) Error() string { return cmp.Or(e.text, "asynq: not found") }

// Unwrap returns ErrQueueNotFound or ErrTaskNotFound.
func (e *NotFoundError) Unwrap() error { return e.is }

func taskNotFound(queue, id string) error {
	return &NotFoundError{Queue: queue, ID: id, text: "asynq: " + ErrTaskNotFound.Error(), is: ErrTaskNotFound}
}

// Existing programs compare these texts, which differ from method to method.
const (
	queueNotFoundText = "asynq: queue not found"
	noQueueText       = "asynq: NOT_FOUND: queue %q does not exist"
	noQueueToDelete   = "asynq: queue not found: queue=%q"
)

func queueNotFound(queue, text string) error {
	if text != queueNotFoundText {
		text = fmt.Sprintf(text, queue)
	}
	return &NotFoundError{Queue: queue, text: text, is: ErrQueueNotFound}
}

// stateError is an ErrTaskState that names the reason.
type stateError struct{ text string }

func (e *stateError) Error() string { return e.text }

// Is reports whether target is ErrTaskState.
func (e *stateError) Is(target error) bool { return target == ErrTaskState }

// errNilContext is returned by methods that are called with a nil context.
var errNilContext = errors.New("asynq: ctx must not be nil: pass context.Background() if there is no other")

// publicError translates an error of the broker about a new task.
func publicError(err error) error {
	switch {
	case errors.Is(err, script.ErrDuplicateTask):
		return ErrDuplicateTask
	case errors.Is(err, script.ErrTaskIDConflict):
		return ErrTaskIDConflict
	case script.IsFull(err):
		return errors.Join(ErrRedisFull, brokerError(err))
	default:
		return brokerError(err)
	}
}

// receiverError translates an error of the workers for a Receiver, which shares them with Server.
func receiverError(err error) error {
	if errors.Is(err, worker.ErrServerClosed) {
		return ErrReceiverClosed
	}
	return err
}

// brokerError replaces the package name at the start of an internal error by "asynq: ". It returns
// nil for nil.
func brokerError(err error) error {
	if err == nil {
		return nil
	}
	return &internalError{err}
}

// converted returns the results of a call of Redis in their public form, nil if there are none.
func converted[A, B any](found []A, err error, public func(A) B) ([]B, error) {
	if err != nil || len(found) == 0 {
		return nil, brokerError(err)
	}
	all := make([]B, len(found))
	for i, f := range found {
		all[i] = public(f)
	}
	return all, nil
}

type internalError struct{ err error }

func (e *internalError) Error() string {
	text := e.err.Error()
	for _, prefix := range []string{"rdb: ", "inspect: "} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			return "asynq: " + rest
		}
	}
	return "asynq: " + text
}

func (e *internalError) Unwrap() error { return e.err }

// attemptError converts an error of an attempt for user code: a panic becomes a *PanicError.
func attemptError(err error) error {
	if p, ok := err.(*worker.PanicError); ok { //nolint:errorlint // The workers return it unwrapped.
		return (*PanicError)(p)
	}
	return err
}

// handlerError is the inverse of attemptError, for the error that a handler returned.
func handlerError(err error) error {
	if p, ok := err.(*PanicError); ok { //nolint:errorlint // Wrapped, it is an ordinary error.
		return (*worker.PanicError)(p)
	}
	return err
}
