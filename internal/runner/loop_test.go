package runner_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/runner"
)

var errBroken = errors.New("broken")

// journal notes when each tick begins, relative to its own making.
type journal struct {
	made  time.Time
	ticks []time.Duration
}

func newJournal() *journal { return &journal{made: time.Now()} }

// noting returns a tick that takes down its beginning, and does as next says; next gets the number of the tick, from 1.
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
func runFor(t *testing.T, d time.Duration, opts runner.Options, l runner.Loop) {
	t.Helper()
	r := runner.New(opts, l)
	r.Start(t.Context())
	time.Sleep(d) // the clock of the bubble: it costs nothing
	synctest.Wait()
	mustStopAll(t, r)
}

func TestRestSetsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		rests := []time.Duration{time.Second, 0, 0, 2 * time.Second, time.Millisecond, runner.UntilWoken}
		runFor(t, time.Hour, quiet, runner.Loop{Tick: j.noting(func(n int) (time.Duration, error) {
			return rests[n-1], nil
		})})
		j.mustBe(t, 0, time.Second, time.Second, time.Second, 3*time.Second, 3001*time.Millisecond)
	})
}

func TestJitterShortensRests(t *testing.T) {
	for _, c := range []struct{ jitter, share float64 }{{0, 0}, {0.25, 0.25}, {1, 1}, {-1, 0}, {7, 1}} {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			runFor(t, time.Hour, quiet, runner.Loop{Jitter: c.jitter, Tick: j.noting(func(n int) (time.Duration, error) {
				if n > 100 {
					return runner.UntilWoken, nil
				}
				return time.Second, nil
			})})
			shortest := time.Duration((1 - c.share) * float64(time.Second))
			different := map[time.Duration]bool{}
			for _, p := range j.pauses() {
				if p < shortest || p > time.Second {
					t.Errorf("jitter %v: rest of %v, want at least %v and at most 1s", c.jitter, p, shortest)
				}
				different[p] = true
			}
			if random := len(different) > 1; random != (c.share > 0) || len(different) == 0 {
				t.Errorf("jitter %v: %d different rests", c.jitter, len(different))
			}
		})
	}
}

func TestWakeEndsARest(t *testing.T) {
	for _, rest := range []time.Duration{time.Minute, runner.UntilWoken} {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			wake := make(chan struct{}, 1)
			r := runner.New(quiet, runner.Loop{Wake: wake, Tick: j.noting(func(n int) (time.Duration, error) {
				if n == 3 {
					return 10 * time.Second, nil
				}
				return rest, nil
			})})
			r.Start(t.Context())
			for range 2 {
				time.Sleep(time.Second)
				wake <- struct{}{}
			}
			time.Sleep(15 * time.Second)
			// The third rest lasts its whole time: nothing is left of those that were cut short.
			j.mustBe(t, 0, time.Second, 2*time.Second, 12*time.Second)
			mustStopAll(t, r)
		})
	}
}

func TestWakeDuringATickEndsTheNextRest(t *testing.T) {
	for _, rest := range []time.Duration{runner.UntilWoken, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			wake := make(chan struct{}, 1)
			runFor(t, time.Minute, quiet, runner.Loop{Wake: wake, Tick: j.noting(func(n int) (time.Duration, error) {
				if n == 1 {
					wake <- struct{}{}
				}
				return rest, nil
			})})
			j.mustBe(t, 0, 0)
		})
	}
}

func TestGoingOnAtOnceKeepsTheWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		wake := make(chan struct{}, 1)
		runFor(t, time.Hour, quiet, runner.Loop{Wake: wake, Tick: j.noting(func(n int) (time.Duration, error) {
			switch n {
			case 1:
				wake <- struct{}{}
				return 0, nil
			case 2:
				return 0, nil
			}
			return runner.UntilWoken, nil // the third tick finds the wake still there, the fourth does not
		})})
		j.mustBe(t, 0, 0, 0, 0)
	})
}

func TestClosedWakeWakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		wake := make(chan struct{})
		close(wake)
		runFor(t, 15*time.Second, quiet, runner.Loop{Wake: wake, Tick: j.noting(func(int) (time.Duration, error) {
			return 10 * time.Second, nil
		})})
		j.mustBe(t, 0, 0, 10*time.Second)
	})
}

func TestStopEndsAnyPauseAtOnce(t *testing.T) {
	for _, c := range []struct {
		rest time.Duration
		err  error
	}{{time.Hour, nil}, {runner.UntilWoken, nil}, {0, errBroken}} {
		synctest.Test(t, func(t *testing.T) {
			opts := quiet
			opts.MinBackoff = time.Hour
			j := newJournal()
			r := runner.New(opts, runner.Loop{Tick: j.noting(func(int) (time.Duration, error) { return c.rest, c.err })})
			r.Start(t.Context())
			time.Sleep(time.Second)
			mustStopAll(t, r)
			if got := time.Since(j.made); got != time.Second {
				t.Errorf("stopped at %v, want 1s", got)
			}
			j.mustBe(t, 0)
		})
	}
}

func TestErrorsBackOffDespiteWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		wake := make(chan struct{}, 1)
		runFor(t, time.Minute, quiet, runner.Loop{Wake: wake, Tick: j.noting(func(n int) (time.Duration, error) {
			select {
			case wake <- struct{}{}:
			default:
			}
			switch {
			case n == 9: // a success: the next row starts anew
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

func TestBackoffOptions(t *testing.T) {
	for _, c := range []struct{ min, max, first, last time.Duration }{
		{0, 0, 100 * time.Millisecond, time.Second},
		{-1, -1, 100 * time.Millisecond, time.Second},
		{time.Second, 4 * time.Second, time.Second, 4 * time.Second},
		{time.Minute, 0, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			opts := quiet
			opts.MinBackoff, opts.MaxBackoff = c.min, c.max
			j := newJournal()
			runFor(t, time.Hour, opts, runner.Loop{Tick: j.noting(func(int) (time.Duration, error) { return 0, errBroken })})
			pauses := j.pauses()
			if p := pauses[0]; p < c.first/2 || p > c.first {
				t.Errorf("%+v: first pause %v", c, p)
			}
			if p := pauses[len(pauses)-1]; p < c.last/2 || p > c.last {
				t.Errorf("%+v: last pause %v", c, p)
			}
		})
	}
}

// turnstile lets a loop do exactly as many ticks as asked for.
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

// ticking returns a tick that passes the turnstile and asks for the given rest.
func (s *turnstile) ticking(rest time.Duration) runner.Tick {
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
		return rest, nil
	}
}

func TestTicksDoNotAllocate(t *testing.T) {
	for _, rest := range []time.Duration{0, 1} { // the latter arms the timer for each tick
		s := newTurnstile()
		r := runner.New(quiet, runner.Loop{Jitter: 0.5, Tick: s.ticking(rest)})
		r.Start(t.Context())
		const ticks = 1000
		// The count takes in the whole process; a single allocation per tick would still be ten times the limit.
		if got := testing.AllocsPerRun(10, func() { s.turn(ticks) }); got > ticks/10 {
			t.Errorf("rest %v: %v allocations in %d ticks, want none", rest, got, ticks)
		}
		mustStopAll(t, r)
	}
}

func BenchmarkTick(b *testing.B) {
	for name, rest := range map[string]time.Duration{"NoRest": 0, "ShortestRest": 1} {
		b.Run(name, func(b *testing.B) {
			s := newTurnstile()
			r := runner.New(quiet, runner.Loop{Tick: s.ticking(rest)})
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
