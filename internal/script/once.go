package script

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// onceCmd is a command that go-redis must not retry after an I/O error, because Redis may have
// executed it: a repeated fetch would take twice as many tasks.
//
// Newer releases of go-redis honor NoRetry. Older ones encode the command again for a retry: one of
// its arguments then returns an error, which is final. A command that Redis rejected was not
// executed, so it may be retried, for example on another node.
type onceCmd struct {
	*redis.Cmd
	arg  []byte // the second argument: a script, or its SHA-1
	sent bool
}

// errSentBefore is the error of a command that was not resent. Callers get the preceding error, if
// there was one.
var errSentBefore = errors.New("the connection to Redis was lost")

// sentOnce returns the command of a call, guarded if go-redis must not retry it.
func (c *Call) sentOnce(cmd *redis.Cmd) redis.Cmder {
	if !c.Once {
		return cmd
	}
	args := cmd.Args()
	c.guard = onceCmd{Cmd: cmd, arg: c.Script.rawSHA}
	if args[0] == "eval" {
		c.guard.arg = []byte(c.Script.text)
	}
	args[1] = (*onceArg)(&c.guard)
	return &c.guard
}

// NoRetry makes newer releases of go-redis not retry the command.
func (*onceCmd) NoRetry() bool { return true }

// SetErr receives the error of sending the command.
func (c *onceCmd) SetErr(err error) {
	switch {
	case err == nil:
	case errors.Is(err, errSentBefore):
		return
	case Refused(err):
		c.sent = false
	}
	c.Cmd.SetErr(err)
}

// onceArg is the second argument of a onceCmd.
type onceArg onceCmd

// MarshalBinary encodes the argument, unless the command was sent before.
func (a *onceArg) MarshalBinary() ([]byte, error) {
	if a.sent {
		return nil, errSentBefore
	}
	a.sent = true
	return a.arg, nil
}

// String returns the argument.
func (a *onceArg) String() string { return string(a.arg) }

// firstFailure returns the error because of which a pipeline was resent.
func firstFailure(calls []*Call, cmds []*redis.Cmd) error {
	for i, c := range calls {
		if err := cmds[i].Err(); c.Once && err != nil && !Refused(err) {
			return err
		}
	}
	return errSentBefore
}
