package step_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/step"
)

// once returns a function for Run that counts its calls and returns a value.
func once[T any](calls *atomic.Int32, value T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) {
		calls.Add(1)
		return value, nil
	}
}

// fast retries at once.
func fast(int, error, *asynq.Task) time.Duration { return 0 }

type order struct {
	ID    int
	Lines []string
	local string
}

func TestRun(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var charges, ships atomic.Int32
		got := make(chan order, 10)
		env.Enqueue("t", asynq.Retention(time.Hour), asynq.MaxRetry(5))
		env.Serve(asynq.Config{RetryDelayFunc: fast}, func(ctx context.Context, _ *asynq.Task) error {
			n, _ := asynq.GetRetryCount(ctx)
			o, err := step.Run(ctx, "charge", once(&charges, order{7, []string{"<a>", "b"}, "not kept"}))
			if err != nil {
				return err
			}
			got <- o
			_, err = step.Run(ctx, "ship", func(context.Context) (any, error) {
				if ships.Add(1); n < 2 {
					return nil, errors.New("no truck")
				}
				return nil, nil
			})
			return err
		})
		env.AwaitState("t", "completed")
		if charges.Load() != 1 || ships.Load() != 3 || len(got) != 3 { // one value for each attempt
			env.T.Errorf("%d charges, %d shipments, %d attempts", charges.Load(), ships.Load(), len(got))
		}
		for range 3 {
			o := testenv.Await(env, got, "a value")
			if o.ID != 7 || strings.Join(o.Lines, "") != "<a>b" || o.local != "" {
				env.T.Errorf("value %+v", o)
			}
		}
	})
}

// What a step does wrong archives the task, with a clear error.
func TestErrorsArchive(t *testing.T) {
	cases := map[string]struct {
		want    error
		text    string
		handler func(ctx context.Context) error
	}{
		"duplicate": {step.ErrDuplicate, `name is used twice in one attempt (step "a")`, func(ctx context.Context) error {
			if _, err := step.Run(ctx, "a", func(context.Context) (int, error) { return 1, nil }); err != nil {
				return err
			}
			return step.Sleep(ctx, "a", time.Hour)
		}},
		"no name": {step.ErrName, "must not be empty", func(ctx context.Context) error { return step.Sleep(ctx, " ", 1) }},
		"long name": {step.ErrName, "201 bytes", func(ctx context.Context) error {
			return testenv.ErrorOf(step.WaitSignal[int](ctx, strings.Repeat("n", 201), 1))
		}},
		"not UTF-8": {step.ErrName, "UTF-8", func(ctx context.Context) error { return step.Sleep(ctx, "\xff", 1) }},
		"too large": {step.ErrTooLarge, "at most 1048576", func(ctx context.Context) error {
			var tooLarge error
			for i := range 17 { // more than all steps may have, but none is recorded
				_, tooLarge = step.Run(ctx, fmt.Sprint(i), func(context.Context) (string, error) { return strings.Repeat("x", 1<<20), nil })
			}
			if _, err := step.Run(ctx, "largest", func(context.Context) (string, error) { return strings.Repeat("x", 1<<20-2), nil }); err != nil {
				return err
			}
			return tooLarge
		}},
		"too large in all": {step.ErrTooLarge, "exceed 16777216 bytes", func(ctx context.Context) (err error) {
			for i := 0; err == nil; i++ {
				_, err = step.Run(ctx, fmt.Sprint(i), func(context.Context) (string, error) { return strings.Repeat("x", 1<<20-2), nil })
			}
			return err
		}},
		"not JSON": {step.ErrValue, "unsupported value", func(ctx context.Context) error {
			return testenv.ErrorOf(step.Run(ctx, "a", func(context.Context) (float64, error) { return math.NaN(), nil }))
		}},
		"not from JSON": {step.ErrValue, "cannot unmarshal", func(ctx context.Context) error {
			return testenv.ErrorOf(step.Run(ctx, "a", func(context.Context) (error, error) { return errors.New("value"), nil }))
		}},
		"too many": {step.ErrTooMany, "too many steps", func(ctx context.Context) (err error) {
			for i := 0; err == nil; i++ {
				_, err = step.Run(ctx, fmt.Sprint(i), func(context.Context) (int, error) { return 1, nil })
			}
			return err
		}},
	}
	testenv.Each(t, func(env *testenv.Env) {
		for name := range cases {
			env.Enqueue(name)
		}
		env.Serve(asynq.Config{Concurrency: 3}, func(ctx context.Context, task *asynq.Task) error {
			c := cases[task.Type()]
			err := c.handler(ctx)
			env.ErrorIs(err, c.want)
			env.ErrorIs(err, asynq.SkipRetry)
			if err == nil || !strings.Contains(err.Error(), c.text) {
				env.T.Errorf("%s: error %v, want %q", task.Type(), err, c.text)
			}
			return err
		})
		for name := range cases {
			env.AwaitState(name, "archived")
		}
	})
}

// An archived task that is run again continues where it was.
func TestArchivedTaskContinues(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var fixed atomic.Bool
		var calls atomic.Int32
		env.Enqueue("t", asynq.Retention(time.Hour))
		env.Serve(asynq.Config{}, func(ctx context.Context, _ *asynq.Task) error {
			if _, err := step.Run(ctx, "a", once(&calls, 1)); err != nil {
				return err
			}
			if !fixed.Load() {
				return asynq.SkipRetry
			}
			return nil
		})
		env.AwaitState("t", "archived")
		fixed.Store(true)
		env.NoError(env.Inspector().RunTask("default", "t"))
		env.AwaitState("t", "completed")
		if calls.Load() != 1 {
			env.T.Errorf("%d calls", calls.Load())
		}
	})
}

// A sleeping task holds no slot, does not use an attempt, and sleeps on if it is run by hand.
func TestSleep(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		attempts, other := make(chan error, 10), make(chan struct{})
		env.Enqueue("t", asynq.Retention(time.Hour), asynq.MaxRetry(0))
		env.Serve(asynq.Config{Concurrency: 1, DelayedTaskCheckInterval: time.Second, ErrorHandler: asynq.ErrorHandlerFunc(
			func(_ context.Context, _ *asynq.Task, err error) { env.T.Errorf("reported %v", err) },
		)}, func(ctx context.Context, task *asynq.Task) error {
			if task.Type() == "other" {
				close(other)
				return nil
			}
			if err := step.Sleep(ctx, "none", 0); err != nil {
				env.T.Error(err)
			}
			err := step.Sleep(ctx, "nap", 2*time.Second)
			if err != nil {
				if again := step.Sleep(ctx, "later", time.Hour); !errors.Is(again, err) {
					env.T.Errorf("a step after a sleep: %v", again)
				}
				err = fmt.Errorf("wrapped: %w", err)
			}
			attempts <- err
			return err
		})
		began := time.Now()
		if err := testenv.Await(env, attempts, "the first attempt"); !asynq.IsSnooze(err) || !strings.Contains(err.Error(), `step "nap" sleeps until `) {
			env.T.Errorf("error %v", err)
		}
		env.AwaitState("t", "retry")
		env.Enqueue("other")
		testenv.Await(env, other, "the other task")
		env.NoError(env.Inspector().RunTask("default", "t"))
		if err := testenv.Await(env, attempts, "the attempt by hand"); !asynq.IsSnooze(err) {
			env.T.Errorf("error %v", err)
		}
		env.NoError(testenv.Await(env, attempts, "the last attempt"))
		if d := time.Since(began); d < 1990*time.Millisecond || d > 4*time.Second+testenv.Slack {
			env.T.Errorf("slept for %v", d)
		}
		env.AwaitState("t", "completed")
		env.WantCounts(2, 0)
	})
}

type approval struct{ By string }

// approve is a handler that waits for the signal "approved" and sends what it gets.
type approve struct {
	timeout time.Duration
	waits   chan error
	values  chan approval
}

func newApprove(timeout time.Duration) *approve {
	return &approve{timeout: timeout, waits: make(chan error, 100), values: make(chan approval, 100)}
}

func (h *approve) handle(ctx context.Context, _ *asynq.Task) error {
	a, err := step.WaitSignal[approval](ctx, "approved", h.timeout)
	if err != nil {
		h.waits <- err
		return err
	}
	h.values <- a
	return nil
}

// asleep waits until task t is in retry for more than a minute.
func asleep(env *testenv.Env) {
	env.T.Helper()
	env.Eventually(func() bool {
		info, err := env.Inspector().GetTaskInfo("default", "t")
		return err == nil && info.State == asynq.TaskStateRetry && time.Until(info.NextProcessAt) > time.Minute
	}, "the task to sleep")
}

// The Inspector shows the steps of a task.
func TestTaskSteps(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t")
		env.Serve(asynq.Config{}, func(ctx context.Context, _ *asynq.Task) error {
			for i := range 30 {
				if _, err := step.Run(ctx, fmt.Sprint("page ", i), func(context.Context) (int, error) { return i, nil }); err != nil {
					return err
				}
			}
			if err := step.Sleep(ctx, "nap", 0); err != nil {
				return err
			}
			if _, err := step.WaitSignal[int](ctx, "none", 0); !errors.Is(err, step.ErrSignalTimeout) {
				return err
			}
			_, err := step.WaitSignal[int](ctx, "go on", 2*time.Hour)
			return err
		})
		asleep(env)
		env.NoError(env.Client.Signal(env.Context(), "default", "t", "other", map[string]int{"n": 1}))
		all, err := env.Inspector().TaskSteps(env.Context(), "default", "t")
		if err != nil {
			env.T.Fatal(err)
		}
		if all.Awaits != "go on" || len(all.Signals) != 1 || all.Signals[0].Name != "other" || string(all.Signals[0].Value) != `{"n":1}` {
			env.T.Errorf("awaits %q, signals %+v", all.Awaits, all.Signals)
		}
		kinds := make(map[string]asynq.TaskStep)
		for i, s := range all.Steps {
			if kinds[s.Name] = s; i > 0 && s.Recorded.Before(all.Steps[i-1].Recorded) {
				env.T.Errorf("step %d is older than the one before", i)
			}
		}
		page, nap, none, wait := kinds["page 7"], kinds["nap"], kinds["none"], kinds["go on"]
		if len(all.Steps) != 33 || page.Kind != asynq.StepRun || string(page.Value) != "7" || !page.Until.IsZero() {
			env.T.Errorf("%d steps, %+v", len(all.Steps), page)
		}
		if nap.Kind != asynq.StepSleep || !nap.Until.Equal(nap.Recorded) || none.Kind != asynq.StepTimeout {
			env.T.Errorf("%+v, %+v", nap, none)
		}
		if d := wait.Until.Sub(wait.Recorded); wait.Kind != asynq.StepWait || d != 2*time.Hour {
			env.T.Errorf("%+v", wait)
		}
		env.ErrorIs(testenv.ErrorOf(env.Inspector().TaskSteps(env.Context(), "default", "none")), asynq.ErrTaskNotFound)
	})
}

// A task that waits for a signal sleeps, and runs at once when the signal comes. The first signal
// counts, and an early one is kept.
func TestWaitSignal(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		h, ctx := newApprove(time.Hour), env.Context()
		env.Serve(asynq.Config{}, h.handle)
		env.Enqueue("t", asynq.Retention(time.Hour), asynq.MaxRetry(0))
		if err := testenv.Await(env, h.waits, "the task to wait"); !asynq.IsSnooze(err) || !strings.Contains(err.Error(), "waits for its signal") {
			env.T.Errorf("error %v", err)
		}
		asleep(env)
		env.NoError(env.Client.Signal(ctx, "default", "t", "other", 1))
		asleep(env)
		began := time.Now()
		env.NoError(env.Client.Signal(ctx, "default", "t", "approved", approval{"ann"}))
		env.NoError(env.Client.Signal(ctx, "default", "t", "approved", approval{"bob"}))
		if a := testenv.Await(env, h.values, "the signal"); a.By != "ann" {
			env.T.Errorf("received %+v", a)
		}
		if d := time.Since(began); d > testenv.Slack {
			env.T.Errorf("received after %v", d)
		}
		env.AwaitState("t", "completed")
		env.ErrorIs(env.Client.Signal(ctx, "default", "t", "late", nil), asynq.ErrTaskState)
		env.ErrorIs(env.Client.Signal(ctx, "default", "none", "approved", nil), asynq.ErrTaskNotFound)

		env.Enqueue("early", asynq.ProcessIn(time.Hour))
		env.NoError(env.Client.Signal(ctx, "default", "early", "approved", approval{"eve"}))
		env.NoError(env.Inspector().RunTask("default", "early"))
		if a := testenv.Await(env, h.values, "the early signal"); a.By != "eve" {
			env.T.Errorf("received %+v", a)
		}
		if len(h.waits) > 0 {
			env.T.Errorf("the task has waited: %v", <-h.waits)
		}
	})
}

// The timeout is that of the first call, and final.
func TestSignalTimeout(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		h := newApprove(time.Second)
		env.Serve(asynq.Config{DelayedTaskCheckInterval: time.Second, RetryDelayFunc: fast}, h.handle)
		env.Enqueue("t", asynq.MaxRetry(1))
		if err := testenv.Await(env, h.waits, "the task to wait"); !asynq.IsSnooze(err) {
			env.T.Errorf("error %v", err)
		}
		if err := testenv.Await(env, h.waits, "the timeout"); !errors.Is(err, step.ErrSignalTimeout) || errors.Is(err, asynq.SkipRetry) {
			env.T.Errorf("error %v", err)
		}
		env.ErrorIs(testenv.Await(env, h.waits, "the retry"), step.ErrSignalTimeout)
		env.AwaitState("t", "archived")
		env.NoError(env.Client.Signal(env.Context(), "default", "t", "approved", approval{"late"}))
		env.NoError(env.Inspector().RunTask("default", "t"))
		env.ErrorIs(testenv.Await(env, h.waits, "the attempt by hand"), step.ErrSignalTimeout)
	})
}

// Signals of many clients race with the settlements of tasks that wait for them.
func TestSignalsRace(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const tasks = 300
		h := newApprove(time.Hour)
		started := make(chan string, tasks)
		var first sync.Map
		env.Serve(asynq.Config{Concurrency: 20}, func(ctx context.Context, task *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			if _, again := first.LoadOrStore(id, true); !again {
				started <- id
			}
			a, err := step.WaitSignal[approval](ctx, "approved", h.timeout)
			if err == nil {
				h.values <- a
			}
			return err
		})
		h.values = make(chan approval, tasks)
		env.EnqueueMany(tasks)
		var senders sync.WaitGroup
		for range 8 {
			senders.Add(1)
			go func() {
				defer senders.Done()
				for id := range started {
					if err := env.Client.Signal(context.Background(), "default", id, "approved", approval{id}); err != nil {
						env.T.Error(err)
					}
				}
			}()
		}
		began := time.Now()
		got := make(map[string]bool)
		for len(got) < tasks {
			a := testenv.Await(env, h.values, "all signals: %d of %d", len(got), tasks)
			if got[a.By] {
				env.T.Errorf("task %s received its signal twice", a.By)
			}
			got[a.By] = true
		}
		close(started)
		senders.Wait()
		if d := time.Since(began); d > 2*testenv.Slack {
			env.T.Errorf("it took %v", d)
		}
		env.AwaitEmpty()
	})
}

// A step of an attempt without the lease is not recorded, and the handler learns of it.
func TestLostLease(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var calls atomic.Int32
		errs := make(chan error, 10)
		env.Enqueue("t", asynq.Retention(time.Hour))
		env.Serve(asynq.Config{LeaseDuration: time.Second}, func(ctx context.Context, _ *asynq.Task) error {
			_, err := step.Run(ctx, "a", func(context.Context) (int, error) {
				if calls.Add(1) == 1 {
					env.StealLease("t")
				}
				return 1, nil
			})
			if errs <- err; err != nil {
				if context.Cause(ctx) == nil {
					env.T.Error("the context of the handler has not ended")
				}
				env.ErrorIs(step.Sleep(ctx, "b", time.Hour), asynq.ErrLeaseExpired)
			}
			return err
		})
		if err := testenv.Await(env, errs, "the first attempt"); !errors.Is(err, asynq.ErrLeaseExpired) || !strings.Contains(err.Error(), "not recorded") {
			env.T.Errorf("error %v", err)
		}
		env.NoError(testenv.Await(env, errs, "the second attempt"))
		env.AwaitState("t", "completed")
		if calls.Load() != 2 {
			env.T.Errorf("%d calls", calls.Load())
		}
	})
}

// Redis is unreachable while a step ends: it is recorded as soon as Redis is back.
func TestRecordDuringOutage(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		p, opt := env.Proxy()
		var calls atomic.Int32
		errs := make(chan error, 10)
		env.Enqueue("t", asynq.Retention(time.Hour))
		env.ServeOn(opt, asynq.Config{}, func(ctx context.Context, _ *asynq.Task) error {
			_, err := step.Run(ctx, "a", func(context.Context) (int, error) {
				calls.Add(1)
				p.Down()
				time.AfterFunc(time.Second, p.Resume)
				return 1, nil
			})
			errs <- err
			return err
		})
		env.NoError(testenv.Await(env, errs, "the attempt"))
		env.AwaitState("t", "completed")
		if calls.Load() != 1 {
			env.T.Errorf("%d calls", calls.Load())
		}
	})
}

// The value is recorded although the time of the attempt is over.
func TestRecordAfterTimeout(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var calls atomic.Int32
		env.Enqueue("t", asynq.Retention(time.Hour), asynq.Timeout(time.Second))
		env.Serve(asynq.Config{RetryDelayFunc: fast}, func(ctx context.Context, _ *asynq.Task) error {
			_, err := step.Run(ctx, "slow", func(ctx context.Context) (int, error) {
				calls.Add(1)
				<-ctx.Done()
				return 1, nil
			})
			env.NoError(err)
			return ctx.Err()
		})
		env.AwaitState("t", "completed")
		if calls.Load() != 1 {
			env.T.Errorf("%d calls", calls.Load())
		}
	})
}

// Steps may run concurrently. One that fails or panics may be repeated in the same attempt.
func TestConcurrentSteps(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const steps = 50
		var calls atomic.Int32
		var failed atomic.Bool
		env.Enqueue("t", asynq.Retention(time.Hour), asynq.MaxRetry(1))
		env.Serve(asynq.Config{RetryDelayFunc: fast}, func(ctx context.Context, _ *asynq.Task) error {
			var running sync.WaitGroup
			for i := range steps {
				running.Add(1)
				go func() {
					defer running.Done()
					if got, err := step.Run(ctx, fmt.Sprint("part ", i), once(&calls, i)); got != i || err != nil {
						env.T.Errorf("step %d: value %d, error %v", i, got, err)
					}
				}()
			}
			running.Wait()
			if failed.Load() {
				return nil
			}
			for _, f := range []func(context.Context) (int, error){
				func(context.Context) (int, error) { return 0, errors.New("failed") },
				func(context.Context) (int, error) { panic("failed") },
			} {
				func() {
					defer func() { _ = recover() }() // of the second function
					if got, err := step.Run(ctx, "again", f); got != 0 || err == nil || err.Error() != "failed" {
						env.T.Errorf("value %d, error %v", got, err)
					}
				}()
			}
			if got, err := step.Run(ctx, "again", once(&calls, 3)); got != 3 || err != nil {
				env.T.Errorf("value %d, error %v", got, err)
			}
			failed.Store(true)
			return errors.New("failed")
		})
		env.AwaitState("t", "completed")
		if calls.Load() != steps+1 {
			env.T.Errorf("%d calls", calls.Load())
		}
		info, err := env.Inspector().GetTaskInfo("default", "t")
		if err != nil || info.Retried != 1 {
			env.T.Errorf("%+v, error %v", info, err)
		}
	})
}

// A name keeps the kind of its first step, and its value the type.
func TestChangedSteps(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, done := context.Background(), make(chan struct{}, 2)
		env.Enqueue("t", asynq.ProcessIn(time.Hour))
		env.NoError(env.RDB.HSet(ctx, env.Queue.Task("t"),
			"step:run", `run 1 "text"`, "step:nap", "sleep 1 2", "step:wait", "wait 1 99999999999999", "step:over", "timeout 1 2",
			"step:odd", "something", "step:odd2", "odd 1 2", "sig:wait", `"text"`).Err())
		env.Serve(asynq.Config{}, func(ctx context.Context, task *asynq.Task) error {
			defer func() { done <- struct{}{} }()
			if task.Type() == "u" {
				env.ErrorIs(step.Sleep(ctx, "a", 1), step.ErrKind)
				env.ErrorIs(testenv.ErrorOf(step.WaitSignal[int](ctx, "b", 1)), step.ErrKind)
				env.ErrorIs(step.Sleep(ctx, "c", 1), step.ErrKind)
				return nil
			}
			number := func(context.Context) (int, error) { env.T.Error("the function runs"); return 0, nil }
			for name, want := range map[string]error{"run": step.ErrValue, "nap": step.ErrKind, "over": step.ErrKind, "odd": asynq.SkipRetry, "odd2": asynq.SkipRetry} {
				env.ErrorIs(testenv.ErrorOf(step.Run(ctx, name, number)), want)
			}
			env.ErrorIs(testenv.ErrorOf(step.WaitSignal[int](ctx, "wait", time.Hour)), step.ErrValue)
			return nil
		})
		env.NoError(env.Inspector().RunTask("default", "t"))
		testenv.Await(env, done, "the task to run")

		env.Enqueue("u", asynq.ProcessIn(time.Hour))
		env.NoError(env.RDB.HSet(ctx, env.Queue.Task("u"), "step:a", "run 1 1", "step:b", "sleep 1 2", "step:c", "wait 1 99999999999999").Err())
		env.NoError(env.Inspector().RunTask("default", "u"))
		testenv.Await(env, done, "the other task to run")
	})
}

func TestOutsideOfHandler(t *testing.T) {
	t.Parallel()
	for _, ctx := range []context.Context{nil, context.Background()} {
		_, run := step.Run(ctx, "a", func(context.Context) (int, error) { return 0, nil })
		_, wait := step.WaitSignal[int](ctx, "a", 1)
		for _, err := range []error{run, wait, step.Sleep(ctx, "a", 1)} {
			if !errors.Is(err, step.ErrNoTask) {
				t.Errorf("error %v", err)
			}
		}
	}
}

// The holder of a lease uses steps with its context, and fails with their errors.
func TestLease(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		r, ctx := env.Receiver(asynq.ReceiverConfig{}), env.Context()
		env.Enqueue("t", asynq.Retention(time.Hour))
		receive := func() *asynq.Lease {
			env.T.Helper()
			leases, err := r.Receive(ctx, 1, "default")
			if err != nil || len(leases) != 1 {
				env.T.Fatalf("%d leases, error %v", len(leases), err)
			}
			return leases[0]
		}
		var calls atomic.Int32
		for range 2 {
			l := receive()
			if got, err := step.Run(l.Context(), "a", once(&calls, "value")); got != "value" || err != nil {
				env.T.Errorf("value %q, error %v", got, err)
			}
			_, err := step.WaitSignal[int](l.Context(), "go", time.Hour)
			if calls.Load() != 1 {
				env.T.Errorf("%d calls", calls.Load())
			}
			if err == nil {
				env.NoError(l.Complete(ctx, nil))
				_, err := step.Run(l.Context(), "b", once(&calls, "value"))
				env.ErrorIs(err, asynq.ErrLeaseExpired)
				break
			}
			env.NoError(l.Fail(ctx, err))
			asleep(env)
			env.NoError(env.Client.Signal(ctx, "default", "t", "go", 1))
		}
		env.AwaitState("t", "completed")
		var fields []string
		for field := range env.RDB.HGetAll(ctx, env.Queue.Task("t")).Val() {
			if strings.HasPrefix(field, wire.FieldStep) || strings.HasPrefix(field, wire.FieldSignal) {
				fields = append(fields, field)
			}
		}
		if len(fields) != 3 {
			env.T.Errorf("fields %q", fields)
		}
	})
}
