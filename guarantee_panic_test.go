package asynq_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func panicInHandler() { panic("deliberate") }

func TestGuarantee11Panics(t *testing.T) {
	t.Parallel()
	// goesOn runs a task that fails under a configuration with one slot, and then one that must not suffer from it.
	goesOn := func(s *site, cfg asynq.Config, fail func() error) {
		s.t.Helper()
		cfg.Concurrency = 1
		var ran tally
		s.enqueue("fails", asynq.MaxRetry(1))
		s.enqueue("next")
		s.serve(cfg, func(_ context.Context, task *asynq.Task) error {
			if ran.add(task.Type()); task.Type() == "fails" {
				return fail()
			}
			return nil
		})
		s.awaitState("next", "")
		s.awaitState("fails", "retry")
		if ran.of("fails") != 1 {
			s.t.Errorf("it ran %d times, want once", ran.of("fails"))
		}
	}
	failed := func() error { return errors.New("failed") }

	for _, tc := range []struct {
		name  string
		value any
		fail  func() error
	}{
		{"a panic", "deliberate", func() error { panicInHandler(); return nil }},
		{"Goexit", nil, func() error { runtime.Goexit(); return nil }},
	} {
		t.Run(tc.name+" in the handler", func(t *testing.T) {
			everywhere(t, func(s *site) {
				reports := make(chan error, 1)
				goesOn(s, asynq.Config{
					ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { reports <- err }),
				}, tc.fail)
				err := receive(s, reports, "the ErrorHandler to hear of it")
				var panicked *asynq.PanicError
				if !asynq.IsPanicError(err) || !errors.As(err, &panicked) {
					s.t.Fatalf("ErrorHandler heard of %v, want a PanicError", err)
				}
				if panicked.Value != tc.value || !strings.Contains(string(panicked.Stack), "guarantee_panic_test.go") {
					s.t.Errorf("the value is %v, and the stack\n%s", panicked.Value, panicked.Stack)
				}
				if s.log.count("a handler panicked", "guarantee_panic_test.go") != 1 {
					s.t.Error("it was not logged with its stack")
				}
				s.wantCounts(2, 1)
				if m := s.message("fails"); m.LastErr == "" || m.Retried != 1 {
					s.t.Errorf("its last error is %q, retried %d times", m.LastErr, m.Retried)
				}
			})
		})
	}
	for end, leave := range map[string]func(){"a panic": panicInHandler, "Goexit": runtime.Goexit} {
		for name, cfg := range map[string]asynq.Config{
			"ErrorHandler": {ErrorHandler: asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { leave() })},
			"RetryDelayFunc": {RetryDelayFunc: func(int, error, *asynq.Task) time.Duration {
				leave()
				return 0
			}},
			"IsFailure": {IsFailure: func(error) bool {
				leave()
				return false
			}},
		} {
			t.Run(end+" in "+name, func(t *testing.T) {
				everywhere(t, func(s *site) {
					goesOn(s, cfg, failed)
					s.wantCounts(2, 1) // a failure counts as one, unless it is known not to be
					if s.log.count("a callback panicked", name) == 0 {
						s.t.Error("it was not logged")
					}
				})
			})
		}
		t.Run(end+" in BaseContext", func(t *testing.T) {
			everywhere(t, func(s *site) {
				var calls atomic.Int64
				s.enqueue("fails", asynq.MaxRetry(1))
				s.serve(asynq.Config{Concurrency: 1, BaseContext: func() context.Context {
					if calls.Add(1) == 1 {
						leave()
					}
					return context.Background()
				}}, func(context.Context, *asynq.Task) error { return nil })
				s.awaitState("fails", "retry")
				s.enqueue("next")
				s.awaitState("next", "")
			})
		})
		t.Run(end+" in HealthCheckFunc", func(t *testing.T) {
			everywhere(t, func(s *site) {
				checks := make(chan struct{}, 100)
				s.serve(asynq.Config{HealthCheckInterval: 10 * time.Millisecond, HealthCheckFunc: func(error) {
					checks <- struct{}{}
					if len(checks) == 1 {
						leave()
					}
				}}, func(context.Context, *asynq.Task) error { return nil })
				s.eventually(func() bool { return len(checks) > 1 }, "a second check")
				s.enqueue("next")
				s.awaitState("next", "")
			})
		})
		t.Run(end+" in Logger", func(t *testing.T) {
			everywhere(t, func(s *site) {
				goesOn(s, asynq.Config{Logger: leavingLogger{leave}}, func() error { panic("deliberate") })
			})
		})
	}
	t.Run("a nil base context", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("fails", asynq.MaxRetry(1))
			s.serve(asynq.Config{BaseContext: func() context.Context { return nil }}, func(context.Context, *asynq.Task) error { return nil })
			s.eventually(func() bool { return s.state("fails") != "pending" && s.state("fails") != "active" }, "an outcome")
		})
	})
}

// leavingLogger is a Logger that never returns.
type leavingLogger struct{ leave func() }

func (l leavingLogger) Debug(...interface{}) { l.leave() }
func (l leavingLogger) Info(...interface{})  { l.leave() }
func (l leavingLogger) Warn(...interface{})  { l.leave() }
func (l leavingLogger) Error(...interface{}) { l.leave() }
func (l leavingLogger) Fatal(...interface{}) { l.leave() }
