package asynq

import (
	"errors"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/worker"
)

// Errors of enqueuing.
var (
	// ErrDuplicateTask says that a task was not enqueued because another one with the same type, payload and queue holds the
	// uniqueness lock. The other task does the work; there is usually nothing to do.
	ErrDuplicateTask = errors.New("task already exists")

	// ErrTaskIDConflict says that a task was not enqueued because the queue has a task with this ID, in any state.
	ErrTaskIDConflict = errors.New("task ID conflicts with another task")

	// ErrRedisFull says that Redis refused a new task because it has reached its maxmemory. Tasks that it has are still
	// processed; enqueue again later, or give Redis more memory.
	ErrRedisFull = errors.New("asynq: Redis is out of memory and refuses new tasks")
)

// Errors of looking at queues and tasks.
var (
	// ErrQueueNotFound says that there is no queue with this name.
	ErrQueueNotFound = errors.New("queue not found")

	// ErrQueueNotEmpty says that a queue holds tasks, and so was not removed.
	ErrQueueNotEmpty = errors.New("queue is not empty")

	// ErrTaskNotFound says that the queue has no task with this ID.
	ErrTaskNotFound = errors.New("task not found")

	// ErrTaskState says that the Inspector did not change a task because its state does not allow the change, as when an active task is to
	// be deleted. The text of the error tells the state, and what to do about it if anything can be done.
	ErrTaskState = errors.New("the state of the task does not allow it")

	// ErrTaskChanged says that a task is not what the caller has seen of it: somebody else has changed it since. Look at it again, and
	// then decide.
	ErrTaskChanged = errors.New("task has changed")

	// ErrScanLimit says that Inspector.Tasks has looked at as many tasks as TaskFilter.MaxScan allows, and that there are more.
	ErrScanLimit = errors.New("asynq: more tasks than TaskFilter.MaxScan allows to look at: raise it, or narrow the filter")

	// ErrCursor says that a text is no cursor of Inspector.TasksAfter, or one of other tasks. Begin with the empty one.
	ErrCursor = errors.New("asynq: this is no cursor for these tasks: begin with an empty one")
)

// Errors of importing tasks.
var (
	// ErrTaskImported says that a task was not made because an import of the same name has made it before. It may have run since.
	// There is nothing to do; to make it once more, give the import another name.
	ErrTaskImported = errors.New("task was imported before")
)

// Errors of schedulers and their entries.
var (
	// ErrSchedulerClosed is returned by methods of a Scheduler or PeriodicTaskManager that was shut down. Make a new one.
	ErrSchedulerClosed = errors.New("asynq: the scheduler was shut down")

	// ErrSchedulerEntryNotFound says that there is no entry with this ID: in the scheduler that was asked, or in any that runs.
	ErrSchedulerEntryNotFound = errors.New("scheduler entry not found")
)

// Errors of a server and its handlers.
var (
	// ErrServerClosed is returned by Start, Run and Ping of a server that was shut down, and is the cause of the end of a handler's
	// context whose task did not finish within the ShutdownTimeout.
	ErrServerClosed = worker.ErrServerClosed

	// ErrLeaseExpired is the cause of the end of a handler's context when the server could not hold on to the task, because
	// it was cut off from Redis for too long; and what an attempt failed with whose server crashed. If another server has taken
	// the task over, what the handler returns changes nothing.
	ErrLeaseExpired = worker.ErrLeaseExpired

	// ErrTaskCanceled is the cause of the end of a handler's context when the task was canceled from outside.
	ErrTaskCanceled = worker.ErrCanceled

	// ErrHandlerStuck is what an attempt failed with whose handler went on for longer than Config.StuckGracePeriod after
	// its context ended.
	ErrHandlerStuck = worker.ErrStuck

	// ErrTakerClosed is returned by methods of a Taker that was shut down. Leases that it took live on: settle them with another Taker.
	ErrTakerClosed = errors.New("asynq: the taker was shut down")

	// ErrHandlerNotFound says that a ServeMux has no handler for a task's type.
	ErrHandlerNotFound = errors.New("handler not found for task")
)

// Errors that a handler returns to say what becomes of its task. They may be wrapped.
var (
	// SkipRetry sends the task to the archive, whatever attempts it has left.
	SkipRetry = worker.ErrSkipRetry

	// RevokeTask ends the task: it is neither tried again nor archived.
	RevokeTask = worker.ErrRevokeTask
)

// RetryAfter returns an error with which a handler asks for the task's next attempt after d, whatever RetryDelayFunc says. The
// attempt counts as failed, unless Config.IsFailure says otherwise. A negative d is taken for zero.
func RetryAfter(d time.Duration) error { return &worker.RetryError{After: d} }

// Snooze returns an error with which a handler asks for the task to be run again after d without a used attempt: it counts neither
// as processed nor as failed, and the ErrorHandler is not told. A negative d is taken for zero.
func Snooze(d time.Duration) error { return &worker.RetryError{After: d, Snooze: true} }

// IsSnooze reports whether an error has the task run again without a used attempt: whether Snooze made it, or it wraps one that
// Snooze made. Middleware that counts failures leaves these out.
func IsSnooze(err error) bool {
	var wish *worker.RetryError
	return errors.As(err, &wish) && wish.Snooze
}

// PanicError is the error of an attempt whose handler panicked or called runtime.Goexit; errors.As finds it.
// Value is what was given to panic, nil for Goexit; Stack is the stack of the goroutine at that moment.
type PanicError = worker.PanicError

// IsPanicError reports whether an attempt failed because its handler panicked.
func IsPanicError(err error) bool {
	var p *PanicError
	return errors.As(err, &p)
}

// publicError says in the words of this package what the broker refused.
func publicError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rdb.ErrDuplicateTask):
		return ErrDuplicateTask
	case errors.Is(err, rdb.ErrTaskIDConflict):
		return ErrTaskIDConflict
	case rdb.IsFull(err):
		return errors.Join(ErrRedisFull, brokerError(err))
	default:
		return brokerError(err)
	}
}

// stateError is an ErrTaskState that says why.
type stateError struct{ text string }

func (e *stateError) Error() string { return e.text }

// Is reports that it is an ErrTaskState.
func (e *stateError) Is(target error) bool { return target == ErrTaskState }

// brokerError is an error of what is below this package, which users need not know by its name.
func brokerError(err error) error { return &belowError{err} }

type belowError struct{ err error }

func (e *belowError) Error() string { return "asynq: " + strings.TrimPrefix(e.err.Error(), "rdb: ") }
func (e *belowError) Unwrap() error { return e.err }
