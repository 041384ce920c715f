package asynqtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

func TestDrainRunsAllThatIsDueInOrder(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	for _, id := range []string{"1", "2", "3"} {
		enqueue(t, b, "a", "", asynq.TaskID(id))
	}
	enqueue(t, b, "a", "", asynq.TaskID("later"), asynq.ProcessIn(time.Second))
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)), "1", "2", "3")
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)))
	if left := b.Enqueued(); len(left) != 1 || left[0].ID != "later" {
		t.Errorf("left: %v", left)
	}
}

func TestDrainRunsInTheGoroutineOfItsCaller(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "")
	own := goroutine()
	b.Drain(t, asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if got := goroutine(); got != own {
			t.Errorf("the handler runs in %s, Drain in %s", got, own)
		}
		return nil
	}))
}

// goroutine returns the ID of the current goroutine.
func goroutine() string {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	return string(buf[:bytes.IndexByte(buf, '[')])
}

func TestDrainRunsWhatHandlersEnqueue(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "parent", "", asynq.TaskID("p"))
	outcomes := b.Drain(t, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "parent" {
			enqueue(t, b, "child", "", asynq.TaskID("c"))
			enqueue(t, b, "child", "", asynq.TaskID("n"), asynq.Queue("new"))
		}
		return nil
	}))
	wantIDs(t, outcomes, "p", "c", "n")
}

func TestDrainRetriesUntilTheArchive(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "", asynq.TaskID("fails"), asynq.MaxRetry(2))
	enqueue(t, b, "a", "", asynq.TaskID("good"))
	outcomes := b.Drain(t, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		if id, _ := asynq.GetTaskID(ctx); id == "fails" {
			return errPlanned
		}
		return nil
	}))
	want := []struct {
		id      string
		attempt int
		state   asynq.TaskState
		failed  bool
	}{
		{"fails", 1, asynq.TaskStateRetry, true},
		{"good", 1, 0, false},
		{"fails", 2, asynq.TaskStateRetry, true},
		{"fails", 3, asynq.TaskStateArchived, true},
	}
	if len(outcomes) != len(want) {
		t.Fatalf("got %v", outcomes)
	}
	for i, w := range want {
		o := outcomes[i]
		if o.ID != w.id || o.Attempt != w.attempt || o.State != w.state || errors.Is(o.Err, errPlanned) != w.failed || (o.Info == nil) != (o.State == 0) {
			t.Errorf("outcome %d: %+v, want %+v", i, o, w)
		}
	}
	b.AssertEnqueued(t, asynqtest.Task{ID: "fails", State: asynq.TaskStateArchived})
}

func TestLeaveRetries(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "")
	fail := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errPlanned })
	delay := asynqtest.Configure(func(cfg *asynq.Config) {
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Hour }
	})
	if outcomes := b.Drain(t, fail, asynqtest.LeaveRetries(), delay); len(outcomes) != 1 || outcomes[0].State != asynq.TaskStateRetry {
		t.Fatalf("got %v", outcomes)
	}
	info := b.AssertEnqueued(t, asynqtest.Task{State: asynq.TaskStateRetry, ProcessIn: time.Hour})
	if info.Retried != 1 || info.LastErr != errPlanned.Error() {
		t.Errorf("got %+v", info)
	}
	b.Advance(time.Hour - time.Minute)
	if outcomes := b.Drain(t, fail); len(outcomes) != 0 {
		t.Errorf("early: %v", outcomes)
	}
	b.Advance(time.Minute)
	if outcomes := b.Drain(t, fail, asynqtest.LeaveRetries()); len(outcomes) != 1 || outcomes[0].Attempt != 2 {
		t.Errorf("got %v", outcomes)
	}
	b.AssertEnqueued(t, asynqtest.Task{State: asynq.TaskStateRetry})
}

func TestSnoozeAndRetryAfterWait(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"Snooze": asynq.Snooze(time.Hour), "RetryAfter": asynq.RetryAfter(time.Hour)} {
		b := asynqtest.Run(t)
		enqueue(t, b, "a", "")
		handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return err })
		outcomes := b.Drain(t, handler)
		if len(outcomes) != 1 || outcomes[0].State != asynq.TaskStateRetry || !errors.Is(outcomes[0].Err, err) {
			t.Errorf("%s: %v", name, outcomes)
		}
		b.AssertEnqueued(t, asynqtest.Task{ProcessIn: time.Hour})
		b.Advance(time.Hour)
		if outcomes := b.Drain(t, handler); len(outcomes) != 1 {
			t.Errorf("%s: an hour later: %v", name, outcomes)
		}
	}
}

func TestOutcomesOfErrorsWithAMeaning(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "skip", "", asynq.TaskID("s"))
	enqueue(t, b, "revoke", "", asynq.TaskID("r"))
	outcomes := b.Drain(t, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "skip" {
			return fmt.Errorf("no use: %w", asynq.SkipRetry)
		}
		return asynq.RevokeTask
	}))
	wantIDs(t, outcomes, "s", "r")
	if outcomes[0].State != asynq.TaskStateArchived || outcomes[1].State != 0 {
		t.Errorf("got %v", outcomes)
	}
}

func TestOutcomeHasTheResult(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "gone")
	enqueue(t, b, "a", "kept", asynq.Retention(time.Hour))
	outcomes := b.Drain(t, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write(append([]byte("result of "), task.Payload()...))
		return err
	}))
	if len(outcomes) != 2 || string(outcomes[0].Result) != "result of gone" || string(outcomes[1].Result) != "result of kept" {
		t.Fatalf("got %v", outcomes)
	}
	if o := outcomes[1]; o.State != asynq.TaskStateCompleted || string(o.Info.Result) != "result of kept" || string(o.Payload) != "kept" {
		t.Errorf("got %+v", o)
	}
}

func TestDrainContainsPanics(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "", asynq.MaxRetry(0))
	var outcomes []asynqtest.Outcome
	var told error
	text, failed := failure(t, func(t testing.TB) {
		outcomes = b.Drain(t, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { panic("planned") }),
			asynqtest.Configure(func(cfg *asynq.Config) {
				cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { told = err })
			}))
	})
	if failed || len(outcomes) != 1 || outcomes[0].State != asynq.TaskStateArchived || !asynq.IsPanicError(outcomes[0].Err) {
		t.Errorf("got %v", outcomes)
	}
	if !asynq.IsPanicError(told) {
		t.Errorf("the ErrorHandler was called with %v", told)
	}
	if !bytes.Contains([]byte(text), []byte("TestDrainContainsPanics")) {
		t.Errorf("the log of the test has no stack: %s", text)
	}
}

func TestHandlerMayEndTheTest(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "", asynq.TaskID("x"))
	wantFailure(t, func(t testing.TB) {
		b.Drain(t, asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			t.Fatal("planned")
			return nil
		}))
	}, "planned")
	info := b.AssertEnqueued(t, asynqtest.Task{ID: "x", State: asynq.TaskStatePending})
	if info.Retried != 0 {
		t.Errorf("an attempt was counted: %+v", info)
	}
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)), "x")
}

func TestDrainEndsEndlessLoops(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "again", "")
	calls := 0
	wantFailure(t, func(tb testing.TB) {
		b.Drain(tb, asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			calls++
			enqueue(t, b, "again", "")
			return nil
		}), asynqtest.MaxAttempts(10))
	}, "10 attempts", "again", "MaxAttempts")
	if calls != 10 {
		t.Errorf("%d calls", calls)
	}
}

func TestDrainRefuses(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	wantFailure(t, func(t testing.TB) { b.Drain(t, nil) }, "handler")
	enqueue(t, b, "a", "")
	wantFailure(t, func(t testing.TB) {
		b.Drain(t, asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			b.Drain(t, asynq.HandlerFunc(succeed))
			return nil
		}))
	}, "already running")
}

func TestDrainLeavesPausedAndOtherQueues(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "", asynq.TaskID("paused"), asynq.Queue("paused"))
	enqueue(t, b, "a", "", asynq.TaskID("other"), asynq.Queue("other"))
	enqueue(t, b, "a", "", asynq.TaskID("mine"), asynq.Queue("mine"))
	if err := b.Inspector().PauseQueue("paused"); err != nil {
		t.Fatal(err)
	}
	only := asynqtest.Configure(func(cfg *asynq.Config) {
		*cfg = asynq.Config{Concurrency: 50, Queues: map[string]int{"mine": 3, "paused": 1}}
	})
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed), only), "mine")
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)), "other")
}

func TestHandlerSeesItsContextAndMiddleware(t *testing.T) {
	t.Parallel()
	type key struct{}
	b := asynqtest.Run(t)
	enqueue(t, b, "email:welcome", "", asynq.TaskID("x"), asynq.MaxRetry(7), asynq.Timeout(time.Hour))
	mux := asynq.NewServeMux()
	mux.HandleFunc("email:", func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		most, _ := asynq.GetMaxRetry(ctx)
		if _, ok := ctx.Deadline(); !ok || id != "x" || most != 7 || ctx.Value(key{}) != 1 {
			t.Errorf("ID %q, retries %d, value %v, deadline %v", id, most, ctx.Value(key{}), ok)
		}
		return ctx.Err()
	})
	base := func() context.Context { return context.WithValue(context.Background(), key{}, 1) }
	b.Drain(t, mux, asynqtest.Configure(func(cfg *asynq.Config) { cfg.BaseContext = base }))
}

func TestDrainFailsWhereNothingHappens(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "slow", "")
	taken, end := make(chan struct{}), make(chan struct{})
	srv := asynq.NewServer(b.RedisConnOpt(), asynq.Config{LogLevel: asynq.ErrorLevel})
	err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		close(taken)
		<-end
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	defer close(end)
	<-taken
	wantFailure(t, func(t testing.TB) {
		b.Drain(t, asynq.HandlerFunc(succeed), asynqtest.StallAfter(50*time.Millisecond))
	}, "no progress for 50ms", "slow", "active")
}

func TestDrainTellsOfErrorsOfRedis(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	b.Miniredis().SetError("ERR planned")
	defer b.Miniredis().SetError("")
	wantFailure(t, func(t testing.TB) { b.Drain(t, asynq.HandlerFunc(succeed)) }, "planned")
	wantFailure(t, func(t testing.TB) { b.AssertEnqueued(t, asynqtest.Task{}) }, "planned")
}

func BenchmarkDrain(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			broker := asynqtest.Run(b)
			for b.Loop() {
				for range n {
					if _, err := broker.Client().Enqueue(asynq.NewTask("a", nil)); err != nil {
						b.Fatal(err)
					}
				}
				if got := len(broker.Drain(b, asynq.HandlerFunc(succeed))); got != n {
					b.Fatalf("%d tasks ran, want %d", got, n)
				}
			}
		})
	}
}

// lastMoment enqueues a task when the server begins to shut down, and waits until the server has
// taken it.
type lastMoment struct {
	asynq.Logger
	t    *testing.T
	b    *asynqtest.Broker
	once *sync.Once
}

func (l lastMoment) Info(args ...any) {
	if !strings.Contains(fmt.Sprint(args...), "shutting down") {
		return
	}
	l.once.Do(func() {
		enqueue(l.t, l.b, "late", "")
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if q, err := l.b.Inspector().GetQueueInfo("default"); err == nil && q.Pending == 0 {
				return
			}
			if time.Now().After(deadline) {
				l.t.Error("the server has not taken the task")
				return
			}
		}
	})
}

// A task may come after Drain has seen that none is due, for example from a flow.
func TestDrainRunsTasksOfTheLastMoment(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "first", "")
	outcomes := b.Drain(t, asynq.HandlerFunc(succeed), asynqtest.Configure(func(cfg *asynq.Config) {
		cfg.Logger, cfg.LogLevel = lastMoment{t: t, b: b, once: new(sync.Once)}, asynq.InfoLevel
	}))
	if len(outcomes) != 2 || outcomes[1].Type != "late" {
		t.Errorf("outcomes %v", outcomes)
	}
}
