package guarantee_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

func panicInHandler() { panic("deliberate") }

func TestGuarantee11Panics(t *testing.T) {
	t.Parallel()
	// runFailing runs a task that fails and then one that succeeds, in the same slot.
	runFailing := func(env *testenv.Env, cfg asynq.Config, fail func() error) {
		env.T.Helper()
		cfg.Concurrency = 1
		var ran testenv.Tally
		env.Enqueue("fails", asynq.MaxRetry(1))
		env.Enqueue("next")
		env.Serve(cfg, func(_ context.Context, task *asynq.Task) error {
			if ran.Add(task.Type()); task.Type() == "fails" {
				return fail()
			}
			return nil
		})
		env.AwaitState("next", "")
		env.AwaitState("fails", "retry")
		if ran.Of("fails") != 1 {
			env.T.Errorf("the failing task ran %d times, want once", ran.Of("fails"))
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
			testenv.Each(t, func(env *testenv.Env) {
				reports := make(chan error, 1)
				runFailing(env, asynq.Config{
					ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { reports <- err }),
				}, tc.fail)
				err := testenv.Await(env, reports, "the call of ErrorHandler")
				var panicked *asynq.PanicError
				if !asynq.IsPanicError(err) || !errors.As(err, &panicked) {
					env.T.Fatalf("ErrorHandler got %v, want a PanicError", err)
				}
				if panicked.Value != tc.value || !strings.Contains(string(panicked.Stack), "guarantee/panic_test.go") {
					env.T.Errorf("value %v, stack:\n%s", panicked.Value, panicked.Stack)
				}
				if env.Log.Count("handler panicked", "guarantee/panic_test.go") != 1 {
					env.T.Error("the panic was not logged with its stack")
				}
				env.WantCounts(2, 1)
				if m := env.Message("fails"); m.LastErr == "" || m.Retried != 1 {
					env.T.Errorf("last error %q, Retried %d", m.LastErr, m.Retried)
				}
			})
		})
	}
	for callback, cfg := range map[string]asynq.Config{
		"ErrorHandler": {ErrorHandler: asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { panicInHandler() })},
		"RetryDelayFunc": {RetryDelayFunc: func(int, error, *asynq.Task) time.Duration {
			panicInHandler()
			return 0
		}},
		"IsFailure": {IsFailure: func(error) bool {
			panicInHandler()
			return false
		}},
	} {
		t.Run("a panic in "+callback, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				runFailing(env, cfg, failed)
				env.WantCounts(2, 1) // if IsFailure panics, the error counts as a failure
				if env.Log.Count("callback panicked", callback) == 0 {
					env.T.Error("the panic was not logged")
				}
			})
		})
	}
	t.Run("a panic in BaseContext", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			var calls atomic.Int64
			env.Enqueue("fails", asynq.MaxRetry(1))
			env.Serve(asynq.Config{Concurrency: 1, BaseContext: func() context.Context {
				if calls.Add(1) == 1 {
					panicInHandler()
				}
				return context.Background()
			}}, func(context.Context, *asynq.Task) error { return nil })
			env.AwaitState("fails", "retry")
			env.Enqueue("next")
			env.AwaitState("next", "")
		})
	})
	t.Run("a panic in HealthCheckFunc", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			checks := make(chan struct{}, 100)
			env.Serve(asynq.Config{HealthCheckInterval: 10 * time.Millisecond, HealthCheckFunc: func(error) {
				checks <- struct{}{}
				if len(checks) == 1 {
					panicInHandler()
				}
			}}, func(context.Context, *asynq.Task) error { return nil })
			env.Eventually(func() bool { return len(checks) > 1 }, "a second health check")
			env.Enqueue("next")
			env.AwaitState("next", "")
		})
	})
	t.Run("a panic in Logger", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			runFailing(env, asynq.Config{Logger: panickingLogger{}}, func() error { panic("deliberate") })
		})
	})
	t.Run("a nil base context", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("fails", asynq.MaxRetry(1))
			env.Serve(asynq.Config{BaseContext: func() context.Context { return nil }}, func(context.Context, *asynq.Task) error { return nil })
			env.Eventually(func() bool { return env.State("fails") != "pending" && env.State("fails") != "active" }, "the task to leave pending and active")
		})
	})
}

// panickingLogger is a Logger that panics.
type panickingLogger struct{}

func (panickingLogger) Debug(...interface{}) { panicInHandler() }
func (panickingLogger) Info(...interface{})  { panicInHandler() }
func (panickingLogger) Warn(...interface{})  { panicInHandler() }
func (panickingLogger) Error(...interface{}) { panicInHandler() }
func (panickingLogger) Fatal(...interface{}) { panicInHandler() }

// Observer callbacks that panic do not affect the tasks.
func TestGuarantee11ObserverPanics(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.EnqueueMany(20)
		srv := env.Serve(asynq.Config{Concurrency: 2, Observer: &asynq.Observer{
			AttemptStarted: func(asynq.AttemptStart) { panicInHandler() },
			AttemptEnded:   func(asynq.AttemptEnd) { panicInHandler() },
			RoundTripEnded: func(asynq.RoundTripStats) { panicInHandler() },
		}}, func(context.Context, *asynq.Task) error { return nil })
		env.AwaitEmpty()
		srv.Shutdown()
		env.WantCounts(20, 0)
		for _, callback := range []string{"AttemptStarted", "AttemptEnded", "RoundTripEnded"} {
			if env.Log.Count("callback panicked", "Observer."+callback) == 0 {
				env.T.Errorf("the panic of %s was not logged", callback)
			}
		}
	})
}
