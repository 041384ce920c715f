package asynq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
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

// encodeAttempts returns the log of the last of the attempts of a task that has failed so often.
func encodeAttempts(attempts []AttemptInfo, failed int) []byte {
	attempts = attempts[max(0, len(attempts)-wire.MaxLog):]
	log := make([]wire.Attempt, len(attempts))
	for i, a := range attempts {
		number := max(failed, len(attempts)) - len(attempts) + i
		log[i] = wire.Attempt{Number: number, Started: wireMilli(a.Started), Ended: wireMilli(a.Ended), Kind: string(a.Kind), Err: a.Err, Server: a.Server}
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

// TaskProgress is what the handler of a task reported with SetProgress.
type TaskProgress struct {
	Fraction float64   // share of the work that is done, from 0 to 1
	Note     string    // text of the handler; empty if there is none
	At       time.Time // when it was reported, by the clock of the server, to the millisecond
}

func newTaskProgress(p *wire.Progress) *TaskProgress {
	if p == nil {
		return nil
	}
	return &TaskProgress{Fraction: min(max(p.Fraction, 0), 1), Note: p.Note, At: unixMilli(p.At)}
}

// maxProgressNote is the maximum size of a note in bytes.
const maxProgressNote = 256

// SetProgress reports the progress of the task that is being processed, for TaskInfo.Progress, the
// web UI and the CLI. fraction is the share of the work that is done, from 0 to 1. note is optional
// and truncated to 256 bytes. ctx is that of the handler, or derived from it.
//
// SetProgress may be called often: it returns at once, and Redis receives the last progress at most
// once a second, and with the outcome of the task. While Redis is unreachable or full, it is kept
// and sent later. The progress remains with the task, also while it waits for a retry, until
// another attempt reports its own.
//
// It returns ErrLeaseExpired if the server no longer holds the task, as ResultWriter.Write does,
// and an error if fraction is invalid or ctx is not that of a handler. With the context of a Lease,
// it is like Lease.SetProgress.
func SetProgress(ctx context.Context, fraction float64, note string) error {
	if ctx == nil {
		return errNilContext
	}
	a := worker.FromContext(ctx)
	if a == nil || !a.InPool() {
		return errors.New("asynq: SetProgress needs the context of a handler, or of a Lease")
	}
	return setProgress(ctx, a, fraction, note)
}

// SetProgress reports the progress of the task, as the function SetProgress does, but returns when
// it is stored. Call it about once a second at most. It returns ErrLeaseExpired if the lease has
// expired or is settled. After any other error, such as that of ctx, the progress may or may not be
// stored.
func (l *Lease) SetProgress(ctx context.Context, fraction float64, note string) error {
	attempts, errs := l.receiver.load(ctx, []*Lease{l})
	if errs[0] != nil {
		return notHeldError(errs[0])
	}
	return setProgress(ctx, attempts[0], fraction, note)
}

func setProgress(ctx context.Context, a *worker.Attempt, fraction float64, note string) error {
	if !(fraction >= 0 && fraction <= 1) { // also NaN
		return fmt.Errorf("asynq: progress %v is invalid: it must be from 0 to 1", fraction)
	}
	p := wire.Progress{Fraction: fraction, Note: wire.Truncate(note, maxProgressNote), At: time.Now().UnixMilli()}
	return a.WriteProgress(ctx, p.Encode())
}
