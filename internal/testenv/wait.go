package testenv

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// Timeout is how long a test waits for an event before it fails. It is far longer than anything
// takes, even on a busy machine.
const Timeout = time.Minute

// Slack is added to the limit of every duration that a test measures: a busy machine may stop a
// process for seconds.
const Slack = 5 * time.Second

// Eventually waits until a condition holds. It fails the test after Timeout.
func (env *Env) Eventually(cond func() bool, format string, args ...any) {
	env.T.Helper()
	late := time.NewTimer(Timeout)
	defer late.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-late.C:
			env.T.Fatalf("timed out waiting for "+format, args...)
		}
	}
}

// Await receives a value from a channel. It fails the test after Timeout.
func Await[T any](env *Env, from <-chan T, format string, args ...any) T {
	env.T.Helper()
	late := time.NewTimer(Timeout)
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		env.T.Fatalf("timed out waiting for "+format, args...)
		panic("not reached")
	}
}

// Context returns a context that is canceled after Timeout and when the test ends.
func (env *Env) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	env.T.Cleanup(cancel)
	return ctx
}

// AwaitSubscriber waits until a server listens for cancellations: one that is published before is
// lost.
func (env *Env) AwaitSubscriber() {
	env.T.Helper()
	env.Eventually(func() bool {
		if env.IsMini() {
			channel := wire.DefaultNamespace.Cancel()
			return env.RDB.PubSubNumSub(env.Context(), channel).Val()[channel] > 0
		}
		clients, err := env.RDB.Do(env.Context(), "client", "list", "type", "pubsub").Text() // channels do not belong to databases
		env.NoError(err)
		return strings.Contains(clients, fmt.Sprintf(" db=%d sub=1 ", env.DB))
	}, "a server to listen for cancellations")
}
