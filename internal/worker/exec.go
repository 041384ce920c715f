package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// This file is the life of a task in this process, from its fetch to its outcome. The next round
// trip sends the outcome, and lane.close is the last step.

// decode turns the tasks of a fetch that was sent at a time, as uptime, into attempts.
func (f *Fetcher) decode(in *fetch, sent int64) {
	if len(in.call.Tasks) == 0 {
		return
	}
	in.tasks = slices.Grow(in.tasks, len(in.call.Tasks))
	for _, task := range in.call.Tasks {
		a, err := f.newAttempt(in, task, sent)
		if err == nil {
			in.tasks = append(in.tasks, a)
			continue
		}
		if errors.Is(err, ErrExpired) {
			f.cfg.Log.Info("task expired", "queue", a.Queue, "task", task.ID, "type", a.Message.Type, "outcome", a.settlement.Outcome.String())
		} else {
			f.cfg.Log.Error("archived a task with an unreadable message", "queue", a.Queue, "task", task.ID, "error", err)
		}
		f.reportEnd(a, err, false)
		f.keepFailure(a, err)
		in.decided = append(in.decided, a)
	}
}

// newAttempt returns the attempt for a fetched task. With an error, its outcome is decided: the
// message cannot be decoded, or the task has expired.
func (f *Fetcher) newAttempt(in *fetch, task rdb.Fetched, sent int64) (*Attempt, error) {
	a := &Attempt{Queue: in.call.Queue, Token: in.call.Token, Started: time.Now(), Wait: task.Wait, fetcher: f}
	a.settlement = rdb.Settlement{Queue: a.Queue, ID: task.ID, Token: a.Token}
	a.expires.Store(sent + int64(f.cfg.Lease))
	msg, err := wire.DecodeTaskMessage(task.Message)
	if err == nil && msg.ID != task.ID {
		err = errors.New("the message belongs to task " + strconv.Quote(msg.ID))
	}
	if err != nil {
		a.Message = &wire.TaskMessage{ID: task.ID, Queue: a.Queue}
		a.settlement.Outcome = rdb.Archive
		a.decide()
		return a, err
	}
	if hasExpired(msg, in.call.Now) {
		f.expire(a, msg)
		return a, ErrExpired
	}
	a.prepare(msg)
	return a, nil
}

// hasExpired reports whether no attempt may start at this time, in Unix milliseconds.
func hasExpired(msg *wire.TaskMessage, now int64) bool {
	expires := msg.Expires()
	return expires != 0 && now/1000 >= expires
}

// expiredText precedes the last error of a task that expired after a failed attempt.
const expiredText = "task expired; last error: "

// expire decides the outcome of a task that has expired. It is deleted, or archived if an attempt
// has failed.
func (f *Fetcher) expire(a *Attempt, msg *wire.TaskMessage) {
	a.Message, a.Retried = msg, msg.Retried
	a.settlement.Lock, a.settlement.Member = msg.UniqueKey, rdb.MemberOf(msg)
	a.decide()
	if msg.Retried == 0 && msg.LastFailedAt == 0 {
		a.settlement.Outcome = rdb.Expire
		return
	}
	if f.cfg.OnError != nil {
		f.cfg.Prepare(a)
		f.notifyError(a, ErrExpired)
	}
	a.settlement.Outcome = rdb.Archive
	msg.LastErr = expiredText + strings.TrimPrefix(msg.LastErr, expiredText)
	msg.LastFailedAt = time.Now().Unix()
	f.encode(a)
}

// prepare completes an attempt for a task.
func (a *Attempt) prepare(msg *wire.TaskMessage) {
	a.Message, a.Retried = msg, msg.Retried
	a.settlement.Lock, a.settlement.Member = msg.UniqueKey, rdb.MemberOf(msg)
	a.Deadline = deadline(a.Started, msg.Timeout, msg.Deadline)
	if a.fetcher.cfg.Receiver != nil {
		a.replied = make(chan struct{})
		a.context.start(context.Background(), a)
	}
	a.fetcher.cfg.Prepare(a)
}

// deadline returns when an attempt that starts now must end: after the task's timeout or at its
// deadline, whichever is first. It returns the zero time if the task has neither.
func deadline(start time.Time, timeout, deadline int64) time.Time {
	var t time.Time
	if timeout > 0 {
		t = start.Add(time.Duration(min(timeout, maxTimeout)) * time.Second)
	}
	if deadline != 0 { // negative before 1970
		if d := time.Unix(deadline, 0); t.IsZero() || d.Before(t) {
			t = d
		}
	}
	return t
}

// maxTimeout is the longest timeout in seconds that fits into a time.Duration: 292 years.
const maxTimeout = (1<<63 - 1) / int64(time.Second)

// process runs one attempt: its context, the handler, the outcome. It returns the attempt to run
// next, or nil.
func (f *Fetcher) process(a *Attempt) (next *Attempt) {
	f.starting.Add(-1)
	ended := false
	defer func() {
		if ended {
			return
		}
		// The handler called runtime.Goexit, which always ends this goroutine: start another in its
		// place.
		go func() {
			f.pool.serve(f.conclude(a, &PanicError{Stack: a.stack}))
		}()
	}()
	f.notifyStarted(a)
	err := f.perform(a)
	ended = true
	return f.conclude(a, err)
}

// perform runs the handler with its context. It turns a panic into an error.
func (f *Fetcher) perform(a *Attempt) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		stack := debug.Stack()
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: stack}
			return
		}
		a.stack = stack // runtime.Goexit
	}()
	base := f.cfg.BaseContext()
	if base == nil {
		returned = true
		return errNoContext
	}
	ctx := a.context.start(base, a)
	defer ctx.cancel(nil)
	if err = ctx.Err(); err == nil { // the deadline may have passed while the task was pending
		if err = f.cfg.Handle(ctx, a); err != nil {
			_ = err.Error() // user code: if err holds a nil pointer, it panics here rather than in the settlement
		}
	}
	returned = true
	return err
}

// conclude decides the outcome of an attempt whose handler returned, unless it was decided before.
// It makes the round trip for it if one should start now. It returns the attempt to run next, or
// nil.
func (f *Fetcher) conclude(a *Attempt, err error) (next *Attempt) {
	if !a.decide() {
		return nil // decided as stuck or by the shutdown, which also freed the slot
	}
	if f.settle(a, err) {
		return f.flushInline()
	}
	return nil
}

// settle frees the slot and adds the outcome to those to settle. It reports whether a round trip
// should start for it. The caller has called decide.
func (f *Fetcher) settle(a *Attempt, err error) bool {
	if a.lost.Load() {
		f.cfg.Log.Warn("outcome dropped: lease lost",
			"queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type, "error", err)
		a.settlement.Outcome = rdb.Lost
		f.notifyEnded(a, err)
		f.pool.slots.release(1)
		f.drop(a)
		return false
	}
	f.decideOutcome(a, err)
	f.notifyEnded(a, err)
	f.awaitRoom(context.Background(), a)
	f.pool.slots.release(1)
	return f.addFinished(a)
}

// keepFailure keeps the error of an attempt whose task is to be archived, for the callback.
func (f *Fetcher) keepFailure(a *Attempt, err error) {
	if f.cfg.Archived == nil || a.settlement.Outcome != rdb.Archive {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lane.failures == nil {
		f.lane.failures = make(map[*Attempt]error)
	}
	f.lane.failures[a] = err
}

// awaitRoom blocks before a task is archived, while too many callbacks for archived tasks have not
// returned. The attempt keeps its slot meanwhile.
func (f *Fetcher) awaitRoom(ctx context.Context, a *Attempt) {
	if f.cfg.Archived != nil && a.settlement.Outcome == rdb.Archive {
		f.cfg.Archived.Room(ctx)
	}
}

// drop closes an attempt without an outcome.
func (f *Fetcher) drop(a *Attempt) {
	f.mu.Lock()
	f.lane.unregister(a)
	f.mu.Unlock()
	notify(f.pool.drained)
	f.signal()
}

// decideOutcome turns the result of a handler into a settlement. The methods of an error are user
// code and may panic.
func (f *Fetcher) decideOutcome(a *Attempt, err error) {
	if err == nil {
		f.succeed(a)
		return
	}
	before, retried := a.settlement, a.Message.Retried
	if f.safely("the handler's error", a, func() { f.fail(a, err) }) {
		return
	}
	a.settlement, a.Message.Retried = before, retried
	f.fail(a, &PanicError{Value: fmt.Sprintf("error of type %T with methods that panic", err), Stack: debug.Stack()})
}

// fail decides the outcome of an attempt that ended with an error.
func (f *Fetcher) fail(a *Attempt, err error) {
	s, msg := &a.settlement, a.Message
	// returned is the error that the handler returned. It is nil after a panic, whose value must
	// not select an outcome.
	returned := err
	if panicked, ok := err.(*PanicError); ok { //nolint:errorlint // Ours, not one that the handler returned wrapped.
		f.cfg.Log.Error("handler panicked",
			"queue", a.Queue, "task", msg.ID, "type", msg.Type, "error", err, "stack", string(panicked.Stack))
		returned = nil
	}
	unhandled := f.unhandled(a, returned)
	if unhandled {
		if delay, ok := f.awaitHandler(a); ok {
			s.Outcome, s.Delay = rdb.Defer, delay
			f.writeFailure(a, err)
			return
		}
	}
	var request *RetryError
	requested := errors.As(returned, &request)
	if !(requested && request.Snooze) || errors.Is(returned, ErrSkipRetry) { // a snooze is not an error to report
		f.notifyError(a, err)
	}
	failed := !(requested && request.Snooze) && f.isFailure(err)
	canceled := wire.CancelOutcome(a.cancelOutcome.Load())
	switch {
	case errors.Is(returned, ErrRevokeTask):
		s.Outcome = rdb.Revoke
		return
	case canceled == wire.CancelDelete:
		s.Outcome = rdb.Discard
		return
	case canceled == wire.CancelArchive, errors.Is(returned, ErrSkipRetry), unhandled, failed && msg.Retried >= msg.MaxRetry:
		s.Outcome = rdb.Archive
	case failed:
		s.Outcome, s.Delay = rdb.Retry, f.delay(a, err, request)
		msg.Retried++
	default:
		s.Outcome, s.Delay = rdb.Defer, f.delay(a, err, request)
		if requested && request.Await {
			f.await(a)
		}
	}
	clearUnhandled(msg)
	f.writeFailure(a, err)
	f.keepFailure(a, err)
}

// await makes the settlement let the task sleep until it gets the signal that it awaits.
func (f *Fetcher) await(a *Attempt) {
	s := &a.settlement
	if s.Extra == nil {
		s.Extra = &rdb.Extra{}
	}
	s.Extra.Await, s.Delay = true, min(s.Delay, awaitDelay)
}

// writeFailure writes the message with the error of the attempt to the settlement, and the entry of
// its log.
func (f *Fetcher) writeFailure(a *Attempt, err error) {
	a.Message.LastErr = strings.ToValidUTF8(err.Error(), "\uFFFD")
	a.Message.LastFailedAt = time.Now().Unix()
	f.logAttempt(a, err)
	f.encode(a)
}

// succeed decides the outcome of an attempt whose handler returned nil.
func (f *Fetcher) succeed(a *Attempt) {
	if a.Message.Retention <= 0 {
		a.settlement.Outcome = rdb.Done
		return
	}
	a.settlement.Outcome = rdb.Complete
	a.settlement.Retention = a.Message.Retention
	a.Message.CompletedAt = time.Now().Unix()
	clearUnhandled(a.Message)
	f.encode(a)
	f.keepFailure(a, errNotEncoded)
}

// encode writes the changed message to the settlement.
func (f *Fetcher) encode(a *Attempt) {
	b, err := a.Message.Encode()
	if err != nil {
		// A decoded message can be encoded again; only counters and the error text changed. So this
		// is a bug, and it is best to keep the message that Redis has.
		f.cfg.Log.Error("message not encoded, keeping the one in Redis", "queue", a.Queue, "task", a.Message.ID, "error", err)
		a.settlement.Outcome = rdb.Archive
		b = nil
	}
	a.settlement.Message = b
}

// notifyError calls the user's ErrorHandler.
func (f *Fetcher) notifyError(a *Attempt, err error) {
	if f.cfg.OnError == nil {
		return
	}
	ctx := a.detached()
	f.safely("ErrorHandler", a, func() { f.cfg.OnError(ctx, a, err) })
}

// isFailure calls the user's IsFailure. If that panics, the error counts as a failure.
func (f *Fetcher) isFailure(err error) bool {
	result := true
	f.safely("IsFailure", nil, func() { result = f.cfg.IsFailure(err) })
	return result
}

// fallbackDelay is the delay before the next attempt if the user's RetryDelayFunc panics.
const fallbackDelay = time.Minute

// delay returns the time until the next attempt: the handler's request, or the result of
// RetryDelayFunc.
func (f *Fetcher) delay(a *Attempt, err error, request *RetryError) time.Duration {
	if request != nil {
		if !request.until.IsZero() {
			return max(time.Until(request.until), 0)
		}
		return max(request.After, 0)
	}
	d := fallbackDelay
	f.safely("RetryDelayFunc", a, func() { d = f.cfg.RetryDelay(a, err) })
	return max(d, 0)
}

// safely calls a callback of the user. It logs a panic and reports false. a may be nil.
func (f *Fetcher) safely(callback string, a *Attempt, fn func()) (ok bool) {
	failure := SafeCall(fn)
	if failure == nil {
		return true
	}
	var panicked *PanicError
	errors.As(failure, &panicked)
	args := []any{"callback", callback, "error", failure, "stack", string(panicked.Stack)}
	if a != nil {
		args = append(args, "queue", a.Queue, "task", a.Message.ID, "type", a.Message.Type)
	}
	f.cfg.Log.Error("callback panicked", args...)
	return false
}
