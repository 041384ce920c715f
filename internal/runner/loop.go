package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// The pause after a failed tick doubles with each consecutive failure. The maximum limits how long
// work waits after Redis is reachable again, and how often loops retry while it is not.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = time.Second

	// backoffJitter is the largest random share taken off a pause. It spreads out servers that lost
	// the same Redis at the same time.
	backoffJitter = 0.5
)

// reportInterval is the time between two log lines of a loop that keeps failing.
const reportInterval = 30 * time.Second

// loop is a Loop with its state. The Runner's mutex guards cancel and done; the fields below belong
// to the goroutine of the loop.
type loop struct {
	Loop
	log *slog.Logger

	cancel context.CancelFunc // nil until the loop is started or stopped
	done   chan struct{}      // closed when the loop has ended, or will never run

	timer    *time.Timer // reused for every pause; nil until the first one, which busy loops never need
	failures int         // consecutive
	reported time.Time   // time of the last log line
}

func newLoop(log *slog.Logger, l Loop) *loop {
	l.Jitter = min(max(l.Jitter, 0), 1)
	return &loop{
		Loop: l,
		log:  log.With("loop", l.Name),
		done: make(chan struct{}),
	}
}

// start runs the loop unless it was started or stopped before. The caller holds the Runner's mutex.
func (l *loop) start(ctx context.Context) {
	if l.cancel != nil {
		return
	}
	ctx, l.cancel = context.WithCancel(ctx)
	go l.run(ctx, nil)
}

// stop cancels the loop. A loop that was not started never runs. The caller holds the Runner's
// mutex.
func (l *loop) stop() {
	if l.cancel == nil {
		l.cancel = func() {}
		close(l.done)
	}
	l.cancel()
}

// wait returns when the loop or ctx has ended.
func (l *loop) wait(ctx context.Context) {
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}

// ended reports whether the loop has ended or will never run.
func (l *loop) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// run ticks and pauses in turn until ctx ends. crash is the error that ended the previous goroutine
// of the loop; if it is not nil, run begins with a pause.
func (l *loop) run(ctx context.Context, crash error) {
	finished := false
	defer func() {
		if finished {
			close(l.done)
			return
		}
		// Tick called runtime.Goexit, which cannot be stopped: continue on a goroutine of its own.
		// The stack still contains the caller, because deferred calls run on top of it.
		go l.run(ctx, &crashError{what: "runtime.Goexit called", stack: debug.Stack()})
	}()

	if crash != nil {
		l.fail(ctx, crash)
	}
	for ctx.Err() == nil {
		delay, err := l.safeTick(ctx)
		switch {
		case err == nil:
			l.succeed()
			l.pause(ctx, delay)
		case isOwnStop(ctx, err):
			// neither a failure nor a recovery: the cancellation interrupted the tick
		default:
			l.fail(ctx, err)
		}
	}
	finished = true
}

// safeTick calls Tick once, and turns a panic into an error.
func (l *loop) safeTick(ctx context.Context) (delay time.Duration, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &crashError{what: fmt.Sprintf("panic: %v", v), stack: debug.Stack()}
		}
	}()
	return l.Tick(ctx)
}

// isOwnStop reports whether err results from the loop's own cancellation. A deadline exceeded
// inside the tick does not: the context of a loop has none.
func isOwnStop(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// pause waits for d after a tick without error, or for a wake if d is negative.
func (l *loop) pause(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	if d > 0 {
		d = shorten(d, l.Jitter)
	}
	l.sleep(ctx, d, l.Wake)
}

// shorten subtracts a random part of d, up to the given share.
func shorten(d time.Duration, share float64) time.Duration {
	return d - time.Duration(rand.Float64()*share*float64(d))
}

// fail records a failed tick and backs off. Only a stop ends this pause early: a loop that is woken
// all the time must not turn an error into a busy loop.
func (l *loop) fail(ctx context.Context, err error) {
	l.failures++
	switch {
	case l.failures == 1:
		l.report("loop failed", err)
	case time.Since(l.reported) >= reportInterval:
		l.report("loop still failing", err)
	}
	l.sleep(ctx, shorten(min(minBackoff<<min(l.failures-1, 10), maxBackoff), backoffJitter), nil)
}

// report logs a failure.
func (l *loop) report(msg string, err error) {
	l.reported = time.Now()
	attrs := []any{"error", err, "failures", l.failures}
	if crash, ok := errors.AsType[*crashError](err); ok {
		attrs = append(attrs, "stack", string(crash.stack))
	}
	l.log.Error(msg, attrs...)
}

// succeed ends a series of failures, if there is one.
func (l *loop) succeed() {
	if l.failures == 0 {
		return
	}
	l.log.Info("loop recovered", "failures", l.failures)
	l.failures = 0
}

// sleep returns after d (never, if d is negative), when wake yields, or when ctx ends.
func (l *loop) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	var elapsed <-chan time.Time
	if d >= 0 {
		elapsed = l.arm(d)
	}
	select {
	case <-elapsed:
	case _, open := <-wake:
		if !open {
			l.Wake = nil // a closed channel would end every pause
		}
	case <-ctx.Done():
	}
}

// arm sets the timer of the loop to d and returns its channel. An earlier, unfinished d needs no
// Stop: Reset leaves no stale value in the channel, and an unused timer costs nothing.
func (l *loop) arm(d time.Duration) <-chan time.Time {
	if l.timer == nil {
		l.timer = time.NewTimer(d)
	} else {
		l.timer.Reset(d)
	}
	return l.timer.C
}

// crashError is the error of a tick that panicked or called runtime.Goexit. It deliberately wraps
// nothing, so that a panic with a context error does not count as a stop.
type crashError struct {
	what  string
	stack []byte
}

func (e *crashError) Error() string { return e.what }
