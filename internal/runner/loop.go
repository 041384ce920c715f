package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// reportInterval is how long a loop that goes on failing keeps quiet between two log lines.
const reportInterval = 30 * time.Second

// loop is a Loop with the state of its life. cancel and done belong to the Runner and its mutex; everything below them
// belongs to the goroutine of the loop.
type loop struct {
	Loop
	log *slog.Logger

	cancel context.CancelFunc // nil until the loop is started, or stopped without having been started
	done   chan struct{}      // closed when the loop has ended, or will never run

	timer    *time.Timer // the only one, reused for every rest; made by the first, as busy loops need none
	backoff  backoff
	failures int       // in a row, up to now
	reported time.Time // when the last of them was logged
}

func newLoop(opts Options, l Loop) *loop {
	l.Jitter = min(max(l.Jitter, 0), 1)
	return &loop{
		Loop:    l,
		log:     opts.Log.With("loop", l.Name),
		done:    make(chan struct{}),
		backoff: backoff{min: opts.MinBackoff, max: opts.MaxBackoff},
	}
}

// start runs the loop unless it has been started or stopped before. The caller holds the Runner's mutex.
func (l *loop) start(ctx context.Context) {
	if l.cancel != nil {
		return
	}
	ctx, l.cancel = context.WithCancel(ctx)
	go l.run(ctx, nil)
}

// stop tells the loop to end, and sees to it that a loop not started yet never will be. The caller holds the Runner's
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

// run is the life of the loop: tick and pause in turn until ctx ends. With a crash, which ended the goroutine before
// this one, it starts with the pause.
func (l *loop) run(ctx context.Context, crash error) {
	finished := false
	defer func() {
		if finished {
			close(l.done)
			return
		}
		// Tick called runtime.Goexit, which cannot be called off: the loop goes on in a goroutine of its own. The
		// stack still shows the caller, as deferred calls run on top of it.
		go l.run(ctx, &crashError{what: "runtime.Goexit called", stack: debug.Stack()})
	}()

	if crash != nil {
		l.fail(ctx, crash)
	}
	for ctx.Err() == nil {
		rest, err := l.try(ctx)
		switch {
		case err == nil:
			l.succeed()
			l.rest(ctx, rest)
		case isOwnStop(ctx, err):
			// Neither a failure nor a recovery: the tick was cut short, and ends the loop.
		default:
			l.fail(ctx, err)
		}
	}
	finished = true
}

// try calls Tick once, and turns a panic into an error.
func (l *loop) try(ctx context.Context) (rest time.Duration, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &crashError{what: fmt.Sprintf("panic: %v", v), stack: debug.Stack()}
		}
	}()
	return l.Tick(ctx)
}

// isOwnStop reports whether err is but the echo of the loop's own cancellation. A deadline that passed inside the tick
// is not: the context of a loop has none.
func isOwnStop(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// rest pauses after a good tick, until woken if d is negative.
func (l *loop) rest(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	if d > 0 {
		d = shorten(d, l.Jitter)
	}
	l.sleep(ctx, d, l.Wake)
}

// fail takes note of a failed tick and backs off. Nothing but the stop of the loop cuts this pause short: a component
// that is woken all the time must not turn an error into a busy loop.
func (l *loop) fail(ctx context.Context, err error) {
	l.failures++
	switch {
	case l.failures == 1:
		l.report("loop failed", err)
	case time.Since(l.reported) >= reportInterval:
		l.report("loop still failing", err)
	}
	l.sleep(ctx, l.backoff.next(), nil)
}

// report logs a failure of the current row.
func (l *loop) report(msg string, err error) {
	l.reported = time.Now()
	attrs := []any{"error", err, "failures", l.failures}
	if crash, ok := errors.AsType[*crashError](err); ok {
		attrs = append(attrs, "stack", string(crash.stack))
	}
	l.log.Error(msg, attrs...)
}

// succeed ends a row of failures, if there is one.
func (l *loop) succeed() {
	if l.failures == 0 {
		return
	}
	l.log.Info("loop recovered", "failures", l.failures)
	l.failures = 0
	l.backoff.reset()
}

// sleep returns when d has elapsed (never, if d is negative), wake yields, or ctx ends.
func (l *loop) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	var elapsed <-chan time.Time
	if d >= 0 {
		elapsed = l.arm(d)
	}
	select {
	case <-elapsed:
	case _, open := <-wake:
		if !open {
			l.Wake = nil // a closed channel would end every rest at once
		}
	case <-ctx.Done():
	}
}

// arm sets the timer of the loop to d and returns its channel. It takes no Stop of an earlier, unfinished d: Reset leaves
// no stale value in the channel, and a timer that nobody waits for costs the runtime nothing.
func (l *loop) arm(d time.Duration) <-chan time.Time {
	if l.timer == nil {
		l.timer = time.NewTimer(d)
	} else {
		l.timer.Reset(d)
	}
	return l.timer.C
}

// crashError is a tick that did not return: it panicked or called runtime.Goexit. It deliberately wraps nothing, so
// that a panic with a context error is not taken for a stop.
type crashError struct {
	what  string
	stack []byte
}

func (e *crashError) Error() string { return e.what }
