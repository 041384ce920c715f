package guarantee_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// In a rolling deploy, servers of the old version return tasks of a new type, until one of the new
// version gets them.
func TestUnhandledInRollingDeploy(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("new:type", asynq.MaxRetry(0), asynq.Retention(time.Hour), asynq.Header("k", "v"))
		rec := newRecorder()
		cfg := asynq.Config{
			Concurrency: 1, UnhandledFor: time.Hour, Observer: rec.observer(),
			ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { env.T.Errorf("error %v", err) }),
			OnArchived:   func(_ context.Context, t *asynq.TaskInfo, _ error) { env.T.Errorf("archived %s", t.ID) },
		}
		older := asynq.NewServeMux()
		older.HandleFunc("old:", func(context.Context, *asynq.Task) error { return nil })
		env.Serve(cfg, older.ProcessTask)
		env.AwaitState("new:type", "retry")
		if info, err := env.Inspector().GetTaskInfo("default", "new:type"); err != nil || info.Retried != 0 || len(info.Headers) != 1 || info.LastErr == "" {
			env.T.Errorf("the returned task is %+v, error %v", info, err)
		}
		env.Eventually(func() bool {
			return rec.holds(func() bool { return rec.ends["new:type"].Outcome == asynq.OutcomeDeferred })
		}, "the observer")
		newer := asynq.NewServeMux()
		newer.HandleFunc("new:", func(ctx context.Context, task *asynq.Task) error {
			if n, _ := asynq.GetRetryCount(ctx); n != 0 || len(task.Headers()) != 1 {
				env.T.Errorf("retried %d, headers %v", n, task.Headers())
			}
			return nil
		})
		env.Serve(cfg, newer.ProcessTask)
		env.Eventually(func() bool {
			_, err := env.Inspector().RunAllRetryTasks("default") // instead of waiting for seconds
			env.NoError(err)
			return env.State("new:type") == "completed"
		}, "the new server to process the task")
		env.WantCounts(1, 0)
		if info, err := env.Inspector().GetTaskInfo("default", "new:type"); err != nil || info.Retried != 0 || len(info.Headers) != 1 {
			env.T.Errorf("the completed task is %+v, error %v", info, err)
		}
		if msg := env.Message("new:type"); msg.Ext() != "" {
			env.T.Errorf("the message of the completed task has %q", msg.Ext())
		}
		if n := env.Log.Count("no handler for its type"); n != 1 {
			env.T.Errorf("%d log lines, want one in a minute", n)
		}
	})
}

// Two services that handle different types share a queue: all tasks succeed at their first attempt.
// ASYNQ_SHARED_TASKS sets their number.
func TestServicesShareQueue(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		n := 400
		if set, err := strconv.Atoi(os.Getenv("ASYNQ_SHARED_TASKS")); err == nil {
			n = set
		}
		var ran [2]atomic.Int64
		for service := range ran {
			mux := asynq.NewServeMux()
			mux.HandleFunc("service"+strconv.Itoa(service), func(ctx context.Context, _ *asynq.Task) error {
				if retried, _ := asynq.GetRetryCount(ctx); retried != 0 {
					env.T.Errorf("retried %d times", retried)
				}
				ran[service].Add(1)
				return nil
			})
			env.Serve(asynq.Config{
				Concurrency: 20, UnhandledFor: time.Hour,
				OnArchived: func(_ context.Context, t *asynq.TaskInfo, err error) { env.T.Errorf("archived %s: %v", t.ID, err) },
			}, mux.ProcessTask)
		}
		client := env.NewClient(env.Opt())
		for part := range slices.Chunk(make([]struct{}, n), 1000) {
			tasks := make([]*asynq.Task, len(part))
			for i := range tasks {
				tasks[i] = asynq.NewTask("service"+strconv.Itoa(i%2), nil)
			}
			for _, r := range client.BatchEnqueueContext(env.Context(), tasks) {
				env.NoError(r.Err)
			}
		}
		env.Eventually(func() bool {
			_, err := env.Inspector().RunAllRetryTasks("default") // instead of waiting for seconds
			env.NoError(err)
			return ran[0].Load()+ran[1].Load() == int64(n)
		}, "all tasks to run")
		if ran[0].Load() != ran[1].Load() {
			env.T.Errorf("%d and %d tasks ran", ran[0].Load(), ran[1].Load())
		}
		env.AwaitEmpty()
		env.WantCounts(int64(n), 0)
	})
}

func TestUnhandledIsArchived(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		calls, failed := recordArchived(env), make(chan error, 10)
		env.Enqueue("unknown", asynq.MaxRetry(5))
		env.Serve(asynq.Config{
			Concurrency: 1, UnhandledFor: time.Second, OnArchived: calls.call,
			ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { failed <- err }),
		}, asynq.NewServeMux().ProcessTask)
		if c := calls.mustHave("unknown"); !errors.Is(c.err, asynq.ErrHandlerNotFound) || c.info.Retried != 0 || c.info.Headers != nil {
			env.T.Errorf("error %v, task %+v", c.err, c.info)
		}
		if len(failed) != 1 {
			env.T.Errorf("%d errors, want 1", len(failed))
		}
		env.WantCounts(1, 1)
		if msg := env.Message("unknown"); msg.Ext() != "" {
			env.T.Errorf("the archived message has %q", msg.Ext())
		}
	})
}

// Without UnhandledFor, a missing handler is an error like any other.
func TestUnhandledFails(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("unknown", asynq.MaxRetry(1))
		env.Serve(asynq.Config{Concurrency: 1}, asynq.NewServeMux().ProcessTask)
		env.AwaitState("unknown", "retry")
		if msg := env.Message("unknown"); msg.Retried != 1 || msg.Headers != nil {
			env.T.Errorf("message %+v", msg)
		}
	})
}
