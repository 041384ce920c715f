package script

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Code is the result of a script for one task. The numbers are defined in lua/codes.lua.
type Code int

// The codes. lua/codes.lua explains them.
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
	CodeFirst

	CodeUnknown Code = -1 // no reply arrived; not returned by scripts
)

// The errors of the codes.
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

var codeErrors = [...]error{
	CodeGone: ErrTaskGone, CodeLost: ErrTokenLost, CodeConflict: ErrTaskIDConflict, CodeDuplicate: ErrDuplicateTask,
	CodeActive: ErrTaskActive, CodeStaged: ErrTaskStaged, CodeUnfit: ErrTaskUnfit, CodeChanged: ErrTaskChanged,
	CodeBroken: ErrKeyBroken, CodeNonempty: ErrQueueNonempty,
}

// Err returns the error of a code, nil if the task is in the requested state.
func (c Code) Err() error {
	switch {
	case c == CodeOK || c == CodeAlready || c == CodeFirst:
		return nil
	case c > 0 && int(c) < len(codeErrors) && codeErrors[c] != nil:
		return codeErrors[c]
	default:
		return fmt.Errorf("rdb: unexpected answer %d of a script", int(c))
	}
}

// Refused reports whether err is an error reply of Redis: the command was not executed, or failed
// before its first write. After any other error (a lost connection, a timeout) the command may have
// been executed.
func Refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// IgnoreRefused drops error replies of Redis, which it returns for a key whose type has changed. It
// keeps other errors.
func IgnoreRefused(err error) error {
	if Refused(err) {
		return nil
	}
	return err
}

// IsFull reports whether Redis rejected a command because it has reached maxmemory.
func IsFull(err error) bool { return redis.HasErrorPrefix(err, "OOM ") }
