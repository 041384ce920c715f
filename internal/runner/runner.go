// Package runner runs background loops. A component describes its work as a [Tick], which does one
// round and returns how long to pause; the runner provides everything else: the goroutine, the
// timer, the back-off after errors, the recovery from panics, logging, and stopping in stages.
//
//	new ── Start ──> tick ──> pause ──> tick ...   pause ends after the delay, or on Wake
//	                  │                            after an error: back-off, which Wake does not end
//	                  └── Stop(stage): cancel ctx, wait for the tick
package runner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// UntilWoken is the delay of a loop that has nothing to do until its Wake channel yields.
const UntilWoken time.Duration = -1

// Tick does one round of a loop's work. It returns the delay before the next round: 0 means none,
// and a negative value ([UntilWoken]) means until woken. With an error the delay is ignored, and
// the loop backs off. The context is canceled when the loop is stopped; a tick must return soon
// after.
//
// A panic or runtime.Goexit inside a tick counts as an error. A tick must not wait for its own loop
// to stop.
type Tick func(ctx context.Context) (delay time.Duration, err error)

// Loop describes one background loop.
type Loop struct {
	// Name identifies the loop in log lines and in the errors of Stop.
	Name string

	// Stage groups the loops that stop together; see [Runner.Stop] and [Runner.StopAll].
	Stage int

	// Tick is called repeatedly, never concurrently.
	Tick Tick

	// Wake ends a pause early when it yields a value; nil never does. The component owns the
	// channel and gives it a capacity of 1, so that a value sent while Tick runs ends the next
	// pause. It does not end the back-off after an error. Closing it wakes the loop one last time.
	Wake <-chan struct{}

	// Jitter is the largest share, from 0 to 1, by which a pause is shortened at random, so that
	// servers do not call in step. Values outside the range count as the nearest limit.
	Jitter float64
}

// Runner runs a fixed set of loops, each once in its lifetime. All methods are safe for concurrent
// use.
type Runner struct {
	mu    sync.Mutex // guards the start and the cancellation of every loop
	loops []*loop    // by stage, lowest first
}

// New returns a Runner for the loops. They run after [Runner.Start], and log failures and
// recoveries.
func New(log *slog.Logger, loops ...Loop) *Runner {
	r := &Runner{loops: make([]*loop, len(loops))}
	for i, l := range loops {
		r.loops[i] = newLoop(log, l)
	}
	slices.SortStableFunc(r.loops, func(a, b *loop) int { return cmp.Compare(a.Stage, b.Stage) })
	return r
}

// Start starts every loop that was neither started nor stopped before, and returns at once. The
// loops get the values of ctx but not its cancellation: only Stop and StopAll end them.
func (r *Runner) Start(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.loops {
		l.start(ctx)
	}
}

// Stop cancels the loops of one stage and waits until they have ended, or until ctx ends. In the
// latter case the error names the loops that are still running and wraps the cause of ctx; those
// loops end when their ticks return, and another Stop waits for them again. A loop stopped before
// Start never runs.
func (r *Runner) Stop(ctx context.Context, stage int) error {
	var stopped []*loop
	r.mu.Lock()
	for _, l := range r.loops {
		if l.Stage == stage {
			l.stop()
			stopped = append(stopped, l)
		}
	}
	r.mu.Unlock()
	for _, l := range stopped {
		l.wait(ctx)
	}
	return stillRunning(ctx, stopped)
}

// StopAll stops the stages one after the other, from the lowest to the highest, each as Stop does.
// After ctx has ended it no longer waits, but still cancels the remaining stages. The error lists
// the loops that were still running then, in the order of their stages: the first ones blocked the
// others.
func (r *Runner) StopAll(ctx context.Context) error {
	for i, l := range r.loops {
		if i == 0 || l.Stage != r.loops[i-1].Stage {
			_ = r.Stop(ctx, l.Stage) // the error below includes it
		}
	}
	return stillRunning(ctx, r.loops)
}

// stillRunning returns an error that names the loops that have not ended, or nil if all have.
func stillRunning(ctx context.Context, loops []*loop) error {
	var names []string
	for _, l := range loops {
		if !l.ended() {
			names = append(names, l.Name)
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("runner: loops still running: %s: %w", strings.Join(names, ", "), context.Cause(ctx))
}
