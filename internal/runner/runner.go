// Package runner is the one supervisor of background loops. A component describes its work as a [Tick]; the runner
// owns the goroutine, the timer, the pace, the back-off after errors, the containment of panics, and the stopping.
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

const (
	defaultMinBackoff = 100 * time.Millisecond
	// defaultMaxBackoff is how long a Redis that is back after a long time may stay without work, and what a thousand loops that
	// ask for one that is gone may cost.
	defaultMaxBackoff = time.Second
)

// UntilWoken is the rest of a loop that has nothing to do before its Wake channel says so.
const UntilWoken time.Duration = -1

// Tick does one round of a loop's work. The rest it returns is how long the loop may sleep before the next round:
// 0 means go on at once, a negative value ([UntilWoken]) means sleep until woken. With an error the rest is ignored
// and the loop backs off instead. The context is canceled when the loop is told to stop; a tick must return soon after.
//
// A panic or runtime.Goexit inside a tick counts as an error. A tick must not wait for its own loop to stop.
type Tick func(ctx context.Context) (rest time.Duration, err error)

// Loop describes one background loop.
type Loop struct {
	// Name tells the loop apart in log lines and in the errors of Stop.
	Name string

	// Stage groups the loops that stop together; see [Runner.Stop] and [Runner.StopAll].
	Stage int

	// Tick is called over and over, never twice at once.
	Tick Tick

	// Wake ends a rest early when it yields a value; nil never does. The component owns the channel and gives it a
	// capacity of 1, so that a value sent while Tick runs is kept and ends the next rest at once. It does not end
	// the back-off after an error. Closing it wakes the loop one last time.
	Wake <-chan struct{}

	// Jitter is the largest share, from 0 to 1, by which a rest is shortened at random, so that many servers do not
	// call in step. Values outside the range count as the nearest end of it.
	Jitter float64
}

// Options configures a [Runner]. The zero value is ready to use.
type Options struct {
	// Log receives failures and recoveries; slog.Default() if nil.
	Log *slog.Logger

	// MinBackoff and MaxBackoff bound the pause after a failed tick: it doubles from the former to the latter with
	// each failure in a row, and a random part of up to a half is taken off. Zero or less means 100 ms and 1 s. A
	// MaxBackoff below MinBackoff counts as MinBackoff.
	MinBackoff, MaxBackoff time.Duration
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.MinBackoff <= 0 {
		o.MinBackoff = defaultMinBackoff
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = defaultMaxBackoff
	}
	o.MaxBackoff = max(o.MinBackoff, o.MaxBackoff)
	return o
}

// Runner runs a fixed set of loops, each once in its lifetime. All methods are safe for concurrent use.
type Runner struct {
	mu    sync.Mutex // guards the start and the cancellation of every loop
	loops []*loop    // by stage, lowest first
}

// New returns a Runner for the loops. None of them runs before [Runner.Start].
func New(opts Options, loops ...Loop) *Runner {
	opts = opts.withDefaults()
	r := &Runner{loops: make([]*loop, len(loops))}
	for i, l := range loops {
		r.loops[i] = newLoop(opts, l)
	}
	slices.SortStableFunc(r.loops, func(a, b *loop) int { return cmp.Compare(a.Stage, b.Stage) })
	return r
}

// Start starts every loop that has been neither started nor stopped before, and returns at once. The loops see the
// values of ctx but not its end: only Stop and StopAll end them.
func (r *Runner) Start(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.loops {
		l.start(ctx)
	}
}

// Stop cancels the loops of one stage and waits until they have ended, or until ctx ends. In the latter case the
// error names the loops that are still running and wraps the cause of ctx; those loops end when their ticks return,
// and another Stop waits for them again. A loop stopped before Start will never run.
func (r *Runner) Stop(ctx context.Context, stage int) error {
	return stillRunning(ctx, r.stop(ctx, stage))
}

// StopAll stops the stages one after the other, from the lowest to the highest, each as Stop does. Once ctx has ended
// it no longer waits, but still cancels the stages that are left. The error lists the loops that had not ended when
// the waiting did, in the order of their stages: the first ones are those that held up the rest.
func (r *Runner) StopAll(ctx context.Context) error {
	for i, l := range r.loops {
		if i == 0 || l.Stage != r.loops[i-1].Stage {
			r.stop(ctx, l.Stage)
		}
	}
	return stillRunning(ctx, r.loops)
}

// stop cancels the loops of the stage, waits for them while ctx lasts, and returns them, ended or not.
func (r *Runner) stop(ctx context.Context, stage int) []*loop {
	loops := r.cancel(stage)
	for _, l := range loops {
		l.wait(ctx)
	}
	return loops
}

// cancel tells all loops of the stage to end and returns them.
func (r *Runner) cancel(stage int) (canceled []*loop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.loops {
		if l.Stage == stage {
			l.stop()
			canceled = append(canceled, l)
		}
	}
	return canceled
}

// stillRunning returns the error that names those of the loops that outlived the ctx of a Stop, or nil if all have
// ended, be it at the last moment.
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
