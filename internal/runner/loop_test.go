package runner_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/runner"
)

var errBroken = errors.New("broken")

// journal records when each tick starts, relative to its own creation.
type journal struct {
	made  time.Time
	ticks []time.Duration
}

func newJournal() *journal { return &journal{made: time.Now()} }

// noting returns a tick that records its start and calls next with the number of the tick, from 1.
func (j *journal) noting(next func(n int) (time.Duration, error)) runner.Tick {
	return func(context.Context) (time.Duration, error) {
		j.ticks = append(j.ticks, time.Since(j.made))
		return next(len(j.ticks))
	}
}

func (j *journal) mustBe(t *testing.T, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	if !reflect.DeepEqual(j.ticks, want) {
		t.Errorf("ticks at %v, want %v", j.ticks, want)
	}
}

// pauses returns the times between the ticks.
func (j *journal) pauses() []time.Duration {
	var pauses []time.Duration
	for i := 1; i < len(j.ticks); i++ {
		pauses = append(pauses, j.ticks[i]-j.ticks[i-1])
	}
	return pauses
}

// runFor runs a single loop for d and stops it.
func runFor(t *testing.T, d time.Duration, log *slog.Logger, l runner.Loop) {
	t.Helper()
	r := runner.New(log, l)
	r.Start(t.Context())
	time.Sleep(d) // the fake clock of synctest
	synctest.Wait()
	mustStopAll(t, r)
}

func TestDelaySetsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		rests := []time.Duration{time.Second, 0, 0, 2 * time.Second, time.Millisecond, runner.UntilWoken}
		runFor(t, time.Hour, noLog, runner.Loop{Tick: j.noting(func(n int) (time.Duration, error) {
			return rests[n-1], nil
		})})
		j.mustBe(t, 0, time.Second, time.Second, time.Second, 3*time.Second, 3001*time.Millisecond)
	})
}

func TestJitterShortensPauses(t *testing.T) {
	for _, c := range []struct{ jitter, share float64 }{{0, 0}, {0.25, 0.25}, {1, 1}, {-1, 0}, {7, 1}} {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			runFor(t, time.Hour, noLog, runner.Loop{Jitter: c.jitter, Tick: j.noting(func(n int) (time.Duration, error) {
				if n > 100 {
					return runner.UntilWoken, nil
				}
				return time.Second, nil
			})})
			shortest := time.Duration((1 - c.share) * float64(time.Second))
			different := map[time.Duration]bool{}
			for _, p := range j.pauses() {
				if p < shortest || p > time.Second {
					t.Errorf("jitter %v: pause of %v, want at least %v and at most 1s", c.jitter, p, shortest)
				}
				different[p] = true
			}
			if random := len(different) > 1; random != (c.share > 0) || len(different) == 0 {
				t.Errorf("jitter %v: %d different pauses", c.jitter, len(different))
			}
		})
	}
}

func TestWakeEndsAPause(t *testing.T) {
	for _, delay := range []time.Duration{time.Minute, runner.UntilWoken} {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			wake := make(chan struct{}, 1)
			r := runner.New(noLog, runner.Loop{Wake: wake, Tick: j.noting(func(n int) (time.Duration, error) {
				if n == 3 {
					return 10 * time.Second, nil
				}
				return delay, nil
			})})
			r.Start(t.Context())
			for range 2 {
				time.Sleep(time.Second)
				wake <- struct{}{}
			}
			time.Sleep(15 * time.Second)
			// The third pause has its full length: nothing is left over from those that were cut
			// short.
			j.mustBe(t, 0, time.Second, 2*time.Second, 12*time.Second)
			mustStopAll(t, r)
		})
	}
}

func TestWakeDuringATickEndsTheNextPause(t *testing.T) {
	for _, delay := range []time.Duration{runner.UntilWoken, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			wake := make(chan struct{}, 1)
			runFor(t, time.Minute, noLog, runner.Loop{Wake: wake, Tick: j.noting(func(n int) (time.Duration, error) {
				if n == 1 {
					wake <- struct{}{}
				}
				return delay, nil
			})})
			j.mustBe(t, 0, 0)
		})
	}
}

func TestZeroDelayKeepsTheWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		wake := make(chan struct{}, 1)
		runFor(t, time.Hour, noLog, runner.Loop{Wake: wake, Tick: j.noting(func(n int) (time.Duration, error) {
			switch n {
			case 1:
				wake <- struct{}{}
				return 0, nil
			case 2:
				return 0, nil
			}
			return runner.UntilWoken, nil // the third tick finds the pending wake, the fourth does not
		})})
		j.mustBe(t, 0, 0, 0, 0)
	})
}

func TestClosedWakeWakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		wake := make(chan struct{})
		close(wake)
		runFor(t, 15*time.Second, noLog, runner.Loop{Wake: wake, Tick: j.noting(func(int) (time.Duration, error) {
			return 10 * time.Second, nil
		})})
		j.mustBe(t, 0, 0, 10*time.Second)
	})
}

func TestStopEndsAnyPauseAtOnce(t *testing.T) {
	for _, c := range []struct {
		delay time.Duration
		err   error
	}{{time.Hour, nil}, {runner.UntilWoken, nil}, {0, errBroken}} {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			r := runner.New(noLog, runner.Loop{Tick: j.noting(func(int) (time.Duration, error) { return c.delay, c.err })})
			r.Start(t.Context())
			time.Sleep(time.Millisecond)
			mustStopAll(t, r)
			if got := time.Since(j.made); got != time.Millisecond {
				t.Errorf("stopped at %v, want 1ms", got)
			}
			j.mustBe(t, 0)
		})
	}
}

func TestErrorsBackOffDespiteWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		wake := make(chan struct{}, 1)
		runFor(t, time.Minute, noLog, runner.Loop{Wake: wake, Tick: j.noting(func(n int) (time.Duration, error) {
			select {
			case wake <- struct{}{}:
			default:
			}
			switch {
			case n == 9: // a success: the next series starts from the minimum
				return 0, nil
			case n == 12:
				<-wake
				return runner.UntilWoken, nil
			}
			return 0, errBroken
		})})
		whole := []int{100, 200, 400, 800, 1000, 1000, 1000, 1000, 0, 100, 200} // milliseconds
		pauses := j.pauses()
		if len(pauses) != len(whole) {
			t.Fatalf("%d pauses, want %d", len(pauses), len(whole))
		}
		for i, ms := range whole {
			most := time.Duration(ms) * time.Millisecond
			if pauses[i] < most/2 || pauses[i] > most {
				t.Errorf("pause %d is %v, want at least %v and at most %v", i+1, pauses[i], most/2, most)
			}
		}
	})
}

// turnstile lets a loop make an exact number of ticks.
type turnstile struct {
	left int
	more chan int
	done chan struct{}
}

func newTurnstile() *turnstile {
	return &turnstile{more: make(chan int), done: make(chan struct{})}
}

// turn makes the loop do n ticks and waits for them.
func (s *turnstile) turn(n int) {
	s.more <- n
	<-s.done
}

// ticking returns a tick that waits for the turnstile, and returns the given delay.
func (s *turnstile) ticking(delay time.Duration) runner.Tick {
	return func(ctx context.Context) (time.Duration, error) {
		if s.left == 0 {
			select {
			case s.left = <-s.more:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		s.left--
		if s.left == 0 {
			s.done <- struct{}{}
		}
		return delay, nil
	}
}

func TestTicksDoNotAllocate(t *testing.T) {
	for _, delay := range []time.Duration{0, 1} { // the latter arms the timer for each tick
		s := newTurnstile()
		r := runner.New(noLog, runner.Loop{Jitter: 0.5, Tick: s.ticking(delay)})
		r.Start(t.Context())
		const ticks = 1000
		// The count covers the whole process. A single allocation per tick would still be ten times
		// the limit.
		if got := testing.AllocsPerRun(10, func() { s.turn(ticks) }); got > ticks/10 {
			t.Errorf("delay %v: %v allocations in %d ticks, want none", delay, got, ticks)
		}
		mustStopAll(t, r)
	}
}

func BenchmarkTick(b *testing.B) {
	for name, delay := range map[string]time.Duration{"NoRest": 0, "ShortestRest": 1} {
		b.Run(name, func(b *testing.B) {
			s := newTurnstile()
			r := runner.New(noLog, runner.Loop{Tick: s.ticking(delay)})
			r.Start(b.Context())
			b.ReportAllocs()
			b.ResetTimer()
			s.turn(b.N)
			b.StopTimer()
			if err := r.StopAll(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
}
