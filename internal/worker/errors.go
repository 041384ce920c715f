package worker

import (
	"errors"
	"fmt"
	"time"
)

// The errors that a handler may return, and the causes that end its context. The public package
// exports them under the same names.
var (
	ErrSkipRetry    = errors.New("skip retry for the task")
	ErrRevokeTask   = errors.New("revoke task")
	ErrLeaseExpired = errors.New("asynq: task lease expired")
	ErrServerClosed = errors.New("asynq: Server closed")
	ErrStuck        = errors.New("asynq: handler kept running after its context ended")
	ErrCanceled     = errors.New("asynq: task canceled")
	ErrExpired      = errors.New("asynq: task expired")

	ErrHandlerNotFound = errors.New("handler not found for task")
)

// errNotEncoded is the error of attempts that succeeded, but whose messages could not be encoded.
var errNotEncoded = errors.New("asynq: the task succeeded, but its message cannot be encoded")

// errNoContext is the error of attempts while the user's BaseContext returns nil.
var errNoContext = errors.New("asynq: Config.BaseContext returned nil")

// PanicError is the error of user code that panicked or called runtime.Goexit.
type PanicError struct {
	Value any // the argument of panic; nil for Goexit
	Stack []byte
}

// Error returns the panic's value as text.
func (e *PanicError) Error() string {
	if e.Value == nil {
		return "panic: runtime.Goexit was called"
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns the panic's value if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// RetryError requests the next attempt after a delay that the handler chose.
type RetryError struct {
	After  time.Duration
	Snooze bool // does not count as an attempt
	Await  bool // with Snooze: until the task gets the signal that it awaits, or After has passed

	until time.Time // in place of After, if it is not zero: when a step ends
}

// Error describes the requested delay.
func (e *RetryError) Error() string {
	if e.Snooze {
		return fmt.Sprintf("asynq: task snoozed for %v", e.After)
	}
	return fmt.Sprintf("asynq: retry after %v", e.After)
}
