package worker

import (
	"errors"
	"fmt"
	"time"
)

// What a handler may return, and what may end its context. The public package exports them under the same names.
var (
	ErrSkipRetry    = errors.New("skip retry for the task")
	ErrRevokeTask   = errors.New("revoke task")
	ErrLeaseExpired = errors.New("asynq: task lease expired")
	ErrServerClosed = errors.New("asynq: Server closed")
	ErrStuck        = errors.New("asynq: handler went on after its context ended, and was given up")
	ErrCanceled     = errors.New("asynq: task canceled")
)

// errNoContext is what attempts fail with while the user's BaseContext is broken.
var errNoContext = errors.New("asynq: Config.BaseContext returned nil: it must return a context")

// PanicError tells that user code panicked, or called runtime.Goexit.
type PanicError struct {
	Value any // what was given to panic; nil for Goexit
	Stack []byte
}

// Error is the panic's value as text.
func (e *PanicError) Error() string {
	if e.Value == nil {
		return "panic: runtime.Goexit was called"
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// RetryError asks for the next attempt after a delay of the handler's own choice.
type RetryError struct {
	After  time.Duration
	Snooze bool // without a used attempt
}

// Error says when the task asks to be tried again.
func (e *RetryError) Error() string {
	if e.Snooze {
		return fmt.Sprintf("asynq: task snoozed for %v", e.After)
	}
	return fmt.Sprintf("asynq: retry after %v", e.After)
}
