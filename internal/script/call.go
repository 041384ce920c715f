package script

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Call is one EVALSHA under construction: first the keys, then the arguments.
type Call struct {
	Script *Script
	args   []any // evalsha, sha, number of keys, keys…, arguments…
	Keys   int
	Once   bool   // go-redis must not retry it
	Late   bool   // of a bounded client: wait a second longer than the context for the reply
	Queue  *Queue // of a call that creates tasks

	guard  onceCmd // used if Once is set
	single [1]any  // a Reply that is not a list, for its Reader

	Reply any // use Read
	Err   error
}

const callPrefix = 3

// NewCall returns a call with capacity for size keys and arguments.
func NewCall(s *Script, size int) *Call {
	s.once.Do(s.prepare)
	c := &Call{Script: s, args: make([]any, callPrefix, callPrefix+size)}
	c.args[0], c.args[1] = "evalsha", s.sha
	return c
}

// Key adds keys. It must not follow Arg.
func (c *Call) Key(keys ...any) *Call {
	c.args = append(c.args, keys...)
	c.Keys += len(keys)
	return c
}

// Arg adds arguments.
func (c *Call) Arg(args ...any) *Call {
	c.args = append(c.args, args...)
	return c
}

// useCluster makes the call run the script as a Cluster needs it.
func (c *Call) useCluster() {
	if s := c.Script.cluster; s != nil {
		s.once.Do(s.prepare)
		c.Script, c.args[1] = s, s.sha
	}
}

// cmd returns the command that runs the script by its SHA-1.
func (c *Call) cmd(ctx context.Context) *redis.Cmd {
	c.args[2] = c.Keys
	if n := len(c.args) - callPrefix - c.Keys; !c.Script.keys.admits(c.Keys) || !c.Script.args.admits(n) {
		// Only a bug in this repository gets here. The script would read missing values.
		panic(fmt.Sprintf("rdb: %s.lua called with %d keys and %d arguments, which its header does not admit",
			c.Script.Name, c.Keys, n))
	}
	cmd := redis.NewCmd(ctx, c.args...)
	cmd.SetFirstKeyPos(callPrefix)
	return cmd
}

// full returns the command that sends the script's text, for a Redis that has not cached it.
func (c *Call) full(ctx context.Context) *redis.Cmd {
	args := append([]any{"eval", c.Script.text}, c.args[2:]...)
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(callPrefix)
	return cmd
}

// Int decodes a reply of one integer.
func (c *Call) Int() (int64, error) {
	r := c.Read()
	n := r.Int()
	return n, r.Err()
}
