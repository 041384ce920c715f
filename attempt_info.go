package asynq

import (
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// AttemptInfo describes a failed attempt of a task.
type AttemptInfo struct {
	Started time.Time   // when it started, to the millisecond; zero if its server crashed
	Ended   time.Time   // when it failed; if its server crashed, when another one noticed
	Kind    AttemptKind // why it failed
	Err     string      // error text, at most 1 kB of it

	// Server is "host:pid" of the server, or the name of the worker of a Receiver. It is empty if
	// the server crashed.
	Server string
}

// Duration returns the time from Started to Ended. It is zero if Started is unknown.
func (a AttemptInfo) Duration() time.Duration {
	if a.Started.IsZero() {
		return 0
	}
	return max(a.Ended.Sub(a.Started), 0)
}

// AttemptKind says why an attempt failed.
type AttemptKind string

// The kinds of failed attempts. Later releases may add others.
const (
	AttemptFailed       AttemptKind = wire.AttemptFailed       // the handler returned an error
	AttemptPanicked     AttemptKind = wire.AttemptPanicked     // the handler panicked, see PanicError
	AttemptTimedOut     AttemptKind = wire.AttemptTimedOut     // the timeout or the deadline had passed
	AttemptCanceled     AttemptKind = wire.AttemptCanceled     // the task was canceled, see ErrTaskCanceled
	AttemptStuck        AttemptKind = wire.AttemptStuck        // the handler did not return, see ErrHandlerStuck
	AttemptLeaseExpired AttemptKind = wire.AttemptLeaseExpired // the server crashed or was cut off, see ErrLeaseExpired
)

func newAttemptInfo(a wire.Attempt) AttemptInfo {
	return AttemptInfo{
		Started: unixMilli(a.Started), Ended: unixMilli(a.Ended), Kind: AttemptKind(a.Kind), Err: a.Err, Server: a.Server,
	}
}

// encodeAttempts returns the log of the last of the attempts.
func encodeAttempts(attempts []AttemptInfo) []byte {
	attempts = attempts[max(0, len(attempts)-maxAttemptLog):]
	log := make([]wire.Attempt, len(attempts))
	for i, a := range attempts {
		log[i] = wire.Attempt{Started: wireMilli(a.Started), Ended: wireMilli(a.Ended), Kind: string(a.Kind), Err: a.Err, Server: a.Server}
	}
	return wire.EncodeAttempts(log)
}

// wireMilli is the inverse of unixMilli.
func wireMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// unixMilli converts a time in Unix milliseconds, where 0 means none.
func unixMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
