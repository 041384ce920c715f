package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// outcome turns what the handler returned into a settlement. An error is the user's code, too: its methods may panic.
func (p *Pump) outcome(a *Attempt, err error) {
	if err == nil {
		p.succeed(a)
		return
	}
	before, retried := a.settlement, a.Message.Retried
	failure := Contain(func() { p.fail(a, err) })
	if failure == nil {
		return
	}
	p.logPanic("the handler's error", a, failure)
	a.settlement, a.Message.Retried = before, retried
	p.fail(a, &PanicError{Value: fmt.Sprintf("an error of type %T, whose methods panic", err), Stack: debug.Stack()})
}

// fail decides what becomes of a task whose attempt ended with an error.
func (p *Pump) fail(a *Attempt, err error) {
	s, msg := &a.settlement, a.Message
	if panicked, ok := err.(*PanicError); ok { //nolint:errorlint // Ours, not one that the handler returned wrapped.
		p.cfg.Log.Error("a handler panicked", "queue", a.Queue, "task", msg.ID, "type", msg.Type, "error", err, "stack", string(panicked.Stack))
	}
	var wish *RetryError
	asked := errors.As(err, &wish)
	if !(asked && wish.Snooze) || errors.Is(err, ErrSkipRetry) { // a handler that puts its task off has no error to tell of
		p.report(a, err)
	}
	failed := !(asked && wish.Snooze) && p.isFailure(err)
	fate := wire.Fate(a.fate.Load())
	switch {
	case errors.Is(err, ErrRevokeTask):
		s.Outcome = rdb.Done
		return
	case fate == wire.FateDelete:
		s.Outcome = rdb.Discard
		return
	case fate == wire.FateArchive, errors.Is(err, ErrSkipRetry), failed && msg.Retried >= msg.MaxRetry:
		s.Outcome = rdb.Archive
		failed = true
	default:
		s.Outcome = rdb.Retry
		s.Delay = p.delay(a, err, wish)
	}
	s.Failed = failed
	if failed && s.Outcome == rdb.Retry {
		msg.Retried++
	}
	msg.LastErr = strings.ToValidUTF8(err.Error(), "\uFFFD")
	msg.LastFailedAt = time.Now().Unix()
	p.encode(a)
}

// succeed ends an attempt whose handler returned nil.
func (p *Pump) succeed(a *Attempt) {
	if a.Message.Retention <= 0 {
		a.settlement.Outcome = rdb.Done
		return
	}
	a.settlement.Outcome = rdb.Complete
	a.settlement.Retention = a.Message.Retention
	a.Message.CompletedAt = time.Now().Unix()
	p.encode(a)
}

// encode puts the changed message into the settlement.
func (p *Pump) encode(a *Attempt) {
	b, err := a.Message.Encode()
	if err != nil {
		// What was decoded can be encoded; only the counters and the error text were changed. So this is a defect of ours, and
		// the message as Redis has it is the best there is.
		p.cfg.Log.Error("a task's message cannot be encoded; the one in Redis stays", "queue", a.Queue, "task", a.Message.ID, "error", err)
		a.settlement.Outcome = rdb.Archive
		b = nil
	}
	a.settlement.Message = b
}

// report tells the user's ErrorHandler.
func (p *Pump) report(a *Attempt, err error) {
	if p.cfg.OnError == nil {
		return
	}
	ctx := a.detached()
	if failure := Contain(func() { p.cfg.OnError(ctx, a, err) }); failure != nil {
		p.logPanic("ErrorHandler", a, failure)
	}
}

// isFailure asks the user's IsFailure; if it panics, the error counts as a failure.
func (p *Pump) isFailure(err error) bool {
	result := true
	if failure := Contain(func() { result = p.cfg.IsFailure(err) }); failure != nil {
		p.logPanic("IsFailure", nil, failure)
		return true
	}
	return result
}

// fallbackDelay is the delay before the next attempt where the user's RetryDelayFunc panics.
const fallbackDelay = time.Minute

// delay returns how long to wait before the next attempt: what the handler wished, or else what RetryDelayFunc says.
func (p *Pump) delay(a *Attempt, err error, wish *RetryError) time.Duration {
	if wish != nil {
		return max(wish.After, 0)
	}
	d := fallbackDelay
	if failure := Contain(func() { d = p.cfg.RetryDelay(a, err) }); failure != nil {
		p.logPanic("RetryDelayFunc", a, failure)
		return fallbackDelay
	}
	return max(d, 0)
}

func (p *Pump) logPanic(callback string, a *Attempt, failure error) {
	var panicked *PanicError
	errors.As(failure, &panicked)
	args := []any{"callback", callback, "error", failure, "stack", string(panicked.Stack)}
	if a != nil {
		args = append(args, "queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
	}
	p.cfg.Log.Error("a callback panicked", args...)
}
