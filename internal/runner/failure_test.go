package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/runner"
)

// logBuffer collects log lines.
type logBuffer struct{ bytes.Buffer }

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, nil))
}

// line is a log line of a loop.
type line struct {
	Level, Msg, Loop, Error, Stack string
	Failures                       int
	Time                           time.Time
}

func (b *logBuffer) lines(t *testing.T) []line {
	t.Helper()
	var lines []line
	for d := json.NewDecoder(&b.Buffer); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// summary returns the relevant parts of the log lines.
func (b *logBuffer) summary(t *testing.T) []string {
	t.Helper()
	var s []string
	for _, l := range b.lines(t) {
		s = append(s, fmt.Sprintf("%s %s: %s %q %d", l.Level, l.Loop, l.Msg, l.Error, l.Failures))
	}
	return s
}

func TestFailuresAndRecoveryAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		j := newJournal()
		runFor(t, time.Hour, log.logger(), runner.Loop{Name: "janitor", Tick: j.noting(func(n int) (time.Duration, error) {
			switch n {
			case 1, 2, 4:
				return 0, errBroken
			case 6:
				return runner.UntilWoken, nil
			}
			return 0, nil
		})})
		want := []string{
			`ERROR janitor: loop failed "broken" 1`,
			`INFO janitor: loop recovered "" 2`,
			`ERROR janitor: loop failed "broken" 1`,
			`INFO janitor: loop recovered "" 1`,
		}
		if got := log.summary(t); !reflect.DeepEqual(got, want) {
			t.Errorf("logged %q, want %q", got, want)
		}
	})
}

func TestRepeatedFailuresAreLoggedEvery30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		j := newJournal()
		runFor(t, 5*time.Minute, log.logger(), runner.Loop{Tick: j.noting(func(int) (time.Duration, error) {
			return 0, errBroken
		})})
		lines := log.lines(t)
		for i, l := range lines[1:] {
			// At most 5 s pass between two failures, so no line is more than 5 s late.
			if d := l.Time.Sub(lines[i].Time); d < 30*time.Second || d > 35*time.Second {
				t.Errorf("%v between two log lines, want 30s to 35s", d)
			}
			failed := 0 // ticks before this line, all of which failed
			for _, at := range j.ticks {
				if !j.made.Add(at).After(l.Time) {
					failed++
				}
			}
			if l.Level != "ERROR" || l.Msg != "loop still failing" || l.Failures != failed {
				t.Errorf("logged %+v, want an error with %d failures", l, failed)
			}
		}
		if len(lines) < 9 || len(lines) > 10 {
			t.Errorf("%d log lines in 5 minutes, want 9 or 10", len(lines))
		}
	})
}

func TestOnlyTheOwnCancellationIsNotAFailure(t *testing.T) {
	stopped := func(err func(ctx context.Context) error) runner.Tick {
		return func(ctx context.Context) (time.Duration, error) {
			<-ctx.Done()
			return 0, err(ctx)
		}
	}
	for _, c := range []struct {
		name   string
		tick   runner.Tick
		logged []string
	}{
		{"wrapped context error", stopped(func(ctx context.Context) error { return fmt.Errorf("fetch: %w", ctx.Err()) }), nil},
		{"other error on stop", stopped(func(context.Context) error { return errBroken }),
			[]string{`ERROR a: loop failed "broken" 1`}},
		{"a deadline inside the tick", stopped(func(context.Context) error { return context.DeadlineExceeded }),
			[]string{`ERROR a: loop failed "context deadline exceeded" 1`}},
		{"panic with the context error", stopped(func(ctx context.Context) error { panic(ctx.Err()) }),
			[]string{`ERROR a: loop failed "panic: context canceled" 1`}},
		{"Goexit on stop", stopped(func(context.Context) error { runtime.Goexit(); return nil }),
			[]string{`ERROR a: loop failed "runtime.Goexit called" 1`}},
		{"another's cancellation", func(context.Context) (time.Duration, error) { return 0, context.Canceled },
			[]string{`ERROR a: loop failed "context canceled" 1`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logBuffer
				runFor(t, time.Second, log.logger(), runner.Loop{Name: "a", Tick: c.tick})
				if got := log.summary(t); !reflect.DeepEqual(got, c.logged) {
					t.Errorf("logged %q, want %q", got, c.logged)
				}
			})
		})
	}
}

func TestCrashesAreRecoveredAndLogged(t *testing.T) {
	for _, c := range []struct {
		name  string
		crash func()
		text  string
	}{
		{"panic with a value", func() { panic("boom 42") }, "panic: boom 42"},
		{"panic with an error", func() { panic(errBroken) }, "panic: broken"},
		{"nil dereference", func() { _ = *(*int)(nil) }, //nolint:govet // The crash is the point.
			"panic: runtime error: invalid memory address or nil pointer dereference"},
		{"Goexit", runtime.Goexit, "runtime.Goexit called"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logBuffer
				j := newJournal()
				runFor(t, time.Second, log.logger(), runner.Loop{Name: "a", Tick: j.noting(func(n int) (time.Duration, error) {
					if n <= 2 {
						crashHere(c.crash)
					}
					return runner.UntilWoken, nil
				})})
				lines := log.lines(t)
				if len(lines) != 2 || lines[0].Error != c.text || lines[0].Level != "ERROR" || lines[1].Failures != 2 {
					t.Fatalf("logged %+v, want the error %q and the recovery from two failures", lines, c.text)
				}
				if !strings.Contains(lines[0].Stack, "crashHere") {
					t.Errorf("the stack does not show the place of the crash:\n%s", lines[0].Stack)
				}
				for i, p := range j.pauses() {
					if least := 50 * time.Millisecond << i; p < least || p > 2*least {
						t.Errorf("pause %d after a crash is %v, want %v to %v", i+1, p, least, 2*least)
					}
				}
			})
		})
	}
}

//go:noinline
func crashHere(crash func()) { crash() }

func TestLoopWithoutTickFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		runFor(t, time.Second, log.logger(), runner.Loop{Name: "a"})
		if got := log.lines(t); len(got) != 1 || !strings.HasPrefix(got[0].Error, "panic: ") {
			t.Errorf("logged %+v, want one panic", got)
		}
	})
}
