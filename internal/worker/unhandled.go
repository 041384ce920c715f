package worker

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// This file is what happens to a task whose type has no handler on this server: another server may
// have one.

// The delay until the next attempt of a task without a handler: as long as the task has waited for
// one so far, within these limits.
const (
	minUnhandledDelay = 5 * time.Second
	maxUnhandledDelay = time.Minute
)

// unhandled reports whether err means that no handler exists for the task, and that this server
// returns such tasks. A request of the error or of a cancellation takes precedence.
func (f *Fetcher) unhandled(a *Attempt, err error) bool {
	var request *RetryError
	return f.cfg.UnhandledFor > 0 && errors.Is(err, ErrHandlerNotFound) && !errors.As(err, &request) &&
		!errors.Is(err, ErrSkipRetry) && !errors.Is(err, ErrRevokeTask) &&
		wire.CancelOutcome(a.cancelOutcome.Load()) == wire.CancelRetry
}

// awaitHandler returns the delay until the next attempt of a task without a handler, and stores in
// its message since when it waits. It reports false if UnhandledFor has passed.
func (f *Fetcher) awaitHandler(a *Attempt) (delay time.Duration, ok bool) {
	msg, now := a.Message, f.redisTime()
	since, err := strconv.ParseInt(msg.Ext().Get(wire.ExtUnhandledSince), 10, 64)
	if err != nil {
		since = now.Add(time.Second - 1).Unix() // rounded up, so that it does not wait too short a time
	}
	waited := max(now.Sub(time.Unix(since, 0)), 0)
	left := f.cfg.UnhandledFor - waited
	if left <= 0 {
		return 0, false
	}
	delay = min(max(waited, minUnhandledDelay), maxUnhandledDelay)
	delay = min(delay*7/8+rand.N(delay/4), left) //nolint:gosec // Spreads retries; nothing is secured by it.
	msg.SetExt(msg.Ext().Set(wire.ExtUnhandledSince, strconv.FormatInt(since, 10)))
	if f.pool.unhandledLog.allow(msg.Type, time.Now()) {
		f.cfg.Log.Warn("task returned to the queue: no handler for its type",
			"queue", a.Queue, "task", msg.ID, "type", msg.Type, "delay", delay, "archived_in", left)
	}
	return delay, true
}

// clearUnhandled removes what awaitHandler has stored in a message.
func clearUnhandled(msg *wire.TaskMessage) {
	if e := msg.Ext(); e != "" {
		msg.SetExt(e.Set(wire.ExtUnhandledSince, ""))
	}
}

// redisTime returns the time by the clock of Redis, so that all servers agree. Until a fetch has
// returned it, that is the clock of the host.
func (f *Fetcher) redisTime() time.Time {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if ms := f.lane.clock.in(0, now); ms != 0 {
		return time.UnixMilli(ms)
	}
	return now
}

// typeLog limits log lines to one per type and minute. The zero value is ready for use.
type typeLog struct {
	mu     sync.Mutex
	logged map[string]time.Time
}

// maxTypes limits the types that a typeLog remembers: they come from outside.
const maxTypes = 1000

// allow reports whether to write a line for a type.
func (l *typeLog) allow(typename string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.logged[typename]; ok && now.Sub(at) < time.Minute {
		return false
	}
	if l.logged == nil || len(l.logged) >= maxTypes {
		l.logged = make(map[string]time.Time)
	}
	l.logged[typename] = now
	return true
}
