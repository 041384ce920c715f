package rdb

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Code is what a script answers for one task. The numbers stand in lua/lib/codes.lua.
type Code int

// The codes, as lua/lib/codes.lua explains them.
const (
	CodeOK Code = iota
	CodeAlready
	CodeGone
	CodeLost
	CodeConflict
	CodeDuplicate
	CodeStale
	CodePaused
	CodeCapped
	CodeActive
	CodeStaged
	CodeUnfit
	CodeLater
	CodeChanged
	CodeBroken
	CodeNonempty

	CodeUnknown Code = -1 // no answer came; no script answers it
)

// The errors that codes stand for.
var (
	ErrTaskGone       = errors.New("there is no such task")
	ErrTokenLost      = errors.New("the task is no longer held under this token")
	ErrTaskIDConflict = errors.New("another task has this ID")
	ErrDuplicateTask  = errors.New("another task holds the uniqueness lock")
	ErrTaskActive     = errors.New("the task is being processed")
	ErrTaskStaged     = errors.New("the task is being aggregated")
	ErrTaskUnfit      = errors.New("this cannot be done to a task in its state")
	ErrTaskChanged    = errors.New("the task has changed in the meantime")
	ErrKeyBroken      = errors.New("a key that the task needs holds a value of another type")
	ErrQueueNonempty  = errors.New("the queue holds tasks")
)

// Err turns a code into an error; nil where the task is as the caller wants it to be.
func (c Code) Err() error {
	switch c {
	case CodeOK, CodeAlready:
		return nil
	case CodeGone:
		return ErrTaskGone
	case CodeLost:
		return ErrTokenLost
	case CodeConflict:
		return ErrTaskIDConflict
	case CodeDuplicate:
		return ErrDuplicateTask
	case CodeActive:
		return ErrTaskActive
	case CodeStaged:
		return ErrTaskStaged
	case CodeUnfit:
		return ErrTaskUnfit
	case CodeChanged:
		return ErrTaskChanged
	case CodeBroken:
		return ErrKeyBroken
	case CodeNonempty:
		return ErrQueueNonempty
	default:
		return fmt.Errorf("rdb: unexpected answer %d of a script", int(c))
	}
}

// Refused reports whether err is Redis's own answer: the command was not executed, or failed before it wrote anything. Any other
// error (a cut connection, a timeout) leaves open whether it was.
func Refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// IsFull reports whether Redis refused a command because it has reached its maxmemory.
func IsFull(err error) bool { return redis.IsOOMError(err) }
