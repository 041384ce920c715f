package runner_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/asynq-go/asynq/internal/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noLog = slog.New(slog.DiscardHandler)

// idle returns a tick that counts its calls and pauses until woken.
func idle(calls *atomic.Int32) runner.Tick {
	return func(context.Context) (time.Duration, error) {
		calls.Add(1)
		return runner.UntilWoken, nil
	}
}

// deaf returns a tick that ignores its context and returns only when release is closed.
func deaf(release <-chan struct{}) runner.Tick {
	return func(context.Context) (time.Duration, error) {
		<-release
		return runner.UntilWoken, nil
	}
}

// expired returns a context that has ended.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func mustStopAll(t *testing.T, r *runner.Runner) {
	t.Helper()
	if err := r.StopAll(t.Context()); err != nil {
		t.Errorf("StopAll() = %v, want nil", err)
	}
}

type ctxKey struct{}

func TestStartKeepsValuesButNotCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var value any
		var ended error
		r := runner.New(noLog, runner.Loop{Name: "a", Tick: func(ctx context.Context) (time.Duration, error) {
			value, ended = ctx.Value(ctxKey{}), ctx.Err()
			return runner.UntilWoken, nil
		}})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "kept"))
		cancel()
		r.Start(ctx)
		synctest.Wait()
		if value != "kept" || ended != nil {
			t.Errorf("the tick saw value %v and error %v in its context, want kept and nil", value, ended)
		}
		mustStopAll(t, r)
	})
}

func TestStartTwiceRunsEachLoopOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := runner.New(noLog, runner.Loop{Name: "a", Tick: idle(&calls)})
		r.Start(t.Context())
		r.Start(t.Context())
		synctest.Wait()
		if got := calls.Load(); got != 1 {
			t.Errorf("%d ticks, want 1", got)
		}
		mustStopAll(t, r)
	})
}

func TestStopBeforeStartKeepsTheStageFromRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first, second atomic.Int32
		r := runner.New(noLog,
			runner.Loop{Name: "a", Stage: 1, Tick: idle(&first)},
			runner.Loop{Name: "b", Stage: 2, Tick: idle(&second)},
		)
		if err := r.Stop(t.Context(), 1); err != nil {
			t.Errorf("Stop() = %v, want nil", err)
		}
		r.Start(t.Context())
		synctest.Wait()
		if first.Load() != 0 || second.Load() != 1 {
			t.Errorf("%d and %d ticks, want 0 of the stopped stage and 1 of the other", first.Load(), second.Load())
		}
		mustStopAll(t, r)
	})
}

func TestStartAfterStopAllStartsNothing(t *testing.T) {
	for _, startedBefore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int32
			r := runner.New(noLog, runner.Loop{Name: "a", Tick: idle(&calls)})
			if startedBefore {
				r.Start(t.Context())
				synctest.Wait()
			}
			mustStopAll(t, r)
			before := calls.Load()
			r.Start(t.Context())
			synctest.Wait()
			if got := calls.Load() - before; got != 0 {
				t.Errorf("started before: %v: %d ticks after StopAll, want 0", startedBefore, got)
			}
			mustStopAll(t, r)
		})
	}
}

func TestStopEndsOnlyItsStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, others atomic.Int32
		wake := make(chan struct{}, 1)
		r := runner.New(noLog,
			runner.Loop{Name: "a", Stage: 1, Tick: idle(&calls)},
			runner.Loop{Name: "b", Stage: 2, Tick: idle(&others), Wake: wake},
		)
		r.Start(t.Context())
		for range 2 { // the second time, there is nothing left to stop
			if err := r.Stop(t.Context(), 1); err != nil {
				t.Errorf("Stop() = %v, want nil", err)
			}
		}
		synctest.Wait()
		wake <- struct{}{}
		synctest.Wait()
		if got := others.Load(); got != 2 {
			t.Errorf("%d ticks of the other stage, want 2", got)
		}
		mustStopAll(t, r)
	})
}

func TestStopNamesTheLoopsThatAreStillRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		r := runner.New(noLog,
			runner.Loop{Name: "prompt", Tick: idle(&calls)},
			runner.Loop{Name: "stuck", Tick: deaf(release)},
		)
		r.Start(t.Context())
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := r.Stop(ctx, 0)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stuck") || strings.Contains(err.Error(), "prompt") {
			t.Errorf("Stop() = %v, want a DeadlineExceeded that names stuck, and not prompt", err)
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("Stop waited for %v, want 3s", got)
		}
		close(release)
		mustStopAll(t, r) // the loop ends once its tick has returned
		if err := r.Stop(expired(), 0); err != nil {
			t.Errorf("Stop() = %v with all loops ended, want nil even if its context has ended too", err)
		}
	})
}

func TestStopAllGoesFromLowestToHighestStage(t *testing.T) {
	var ended []int // no lock: the order of the stages separates the ticks, and -race checks it
	loop := func(stage int) runner.Loop {
		return runner.Loop{Name: "a", Stage: stage, Tick: func(ctx context.Context) (time.Duration, error) {
			<-ctx.Done()
			ended = append(ended, stage)
			return 0, ctx.Err()
		}}
	}
	synctest.Test(t, func(t *testing.T) {
		r := runner.New(noLog, loop(3), loop(-1), loop(2), loop(0))
		r.Start(t.Context())
		synctest.Wait()
		mustStopAll(t, r)
	})
	if want := []int{-1, 0, 2, 3}; !slices.Equal(ended, want) {
		t.Errorf("stages ended in the order %v, want %v", ended, want)
	}
}

func TestStopAllCancelsLaterStagesPastAStuckOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		r := runner.New(noLog,
			runner.Loop{Name: "last", Stage: 2, Tick: idle(&calls)},
			runner.Loop{Name: "stuck", Stage: 1, Tick: deaf(release)},
		)
		r.Start(t.Context())
		synctest.Wait()
		err := r.StopAll(expired())
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("StopAll() = %v, want a Canceled that names stuck", err)
		}
		synctest.Wait()
		// Stage 1 is still stuck, but stage 2 has ended: Stop with an ended context waits for
		// nothing.
		if err := r.Stop(expired(), 2); err != nil {
			t.Errorf("Stop() = %v, want the later stage to have been canceled", err)
		}
		close(release)
		mustStopAll(t, r)
	})
}

// TestLifecycleUnderStress calls every method and wakes every loop from many goroutines at the same
// time. In any order, no loop ticks twice at once, nothing runs after StopAll has returned, and
// (see TestMain) no goroutine is left.
func TestLifecycleUnderStress(t *testing.T) {
	const rounds, callers, calls, loops = 100, 8, 20, 6
	var total atomic.Int64
	for range rounds {
		var inFlight [loops]atomic.Int32
		wakes := make([]chan struct{}, loops)
		specs := make([]runner.Loop, loops)
		for i := range specs {
			wakes[i] = make(chan struct{}, 1)
			specs[i] = runner.Loop{Name: "a", Stage: i % 3, Wake: wakes[i], Jitter: 0.5, Tick: func(ctx context.Context) (time.Duration, error) {
				total.Add(1)
				if inFlight[i].Add(1) != 1 {
					t.Error("two ticks of one loop at once")
				}
				defer inFlight[i].Add(-1)
				return misbehave(ctx)
			}}
		}
		r := runner.New(noLog, specs...)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range calls {
					switch rand.IntN(20) {
					case 0:
						_ = r.StopAll(t.Context()) // others start and stop at the same time: any result is valid
					case 1:
						_ = r.Stop(t.Context(), rand.IntN(4))
					case 2:
						_ = r.Stop(expired(), rand.IntN(4))
					case 3, 4, 5:
						r.Start(t.Context())
					default:
						select {
						case wakes[rand.IntN(loops)] <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		wg.Wait()
		mustStopAll(t, r)
		before := total.Load()
		r.Start(t.Context())
		mustStopAll(t, r)
		if got := total.Load() - before; got != 0 {
			t.Fatalf("%d ticks after StopAll, want 0", got)
		}
	}
	if total.Load() == 0 {
		t.Error("no loop ever ran")
	}
}

// misbehave ends a tick in one of all possible ways.
func misbehave(ctx context.Context) (time.Duration, error) {
	switch rand.IntN(8) {
	case 0:
		return 0, errors.New("failed")
	case 1:
		panic("panicked")
	case 2:
		runtime.Goexit()
	case 3:
		return runner.UntilWoken, nil
	case 4:
		return 10 * time.Microsecond, nil
	case 5:
		return 0, ctx.Err()
	}
	return 0, nil
}
