package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// gauge counts running handlers.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

// enter returns the number of running handlers, including this one.
func (g *gauge) enter() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	g.most = max(g.most, g.now)
	return g.now
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
}

func (g *gauge) peak() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}

// handle is a handler that takes a millisecond.
func (g *gauge) handle(context.Context, *asynq.Task) error {
	g.enter()
	defer g.leave()
	time.Sleep(time.Millisecond) // so that handlers overlap
	return nil
}

func TestGuarantee12Concurrency(t *testing.T) {
	t.Parallel()
	t.Run("reached and not exceeded", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			var g gauge
			var once sync.Once
			full := make(chan struct{})
			env.EnqueueMany(200)
			env.Serve(asynq.Config{Concurrency: 7}, func(context.Context, *asynq.Task) error {
				if g.enter() >= 7 {
					once.Do(func() { close(full) })
				}
				defer g.leave()
				<-full                       // the first seven wait for each other
				time.Sleep(time.Millisecond) // so that more than seven would overlap
				return nil
			})
			testenv.Await(env, full, "7 handlers to run at once")
			env.AwaitEmpty()
			if g.peak() != 7 {
				env.T.Errorf("%d handlers ran at once, want 7", g.peak())
			}
		})
	})
	t.Run("limit of a queue across servers", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			var g gauge
			env.EnqueueMany(60)
			cfg := asynq.Config{Concurrency: 10, QueueConcurrency: map[string]int{"default": 3}, TaskCheckInterval: 20 * time.Millisecond}
			env.Serve(cfg, g.handle)
			env.Serve(cfg, g.handle)
			env.AwaitEmpty()
			if g.peak() > 3 {
				env.T.Errorf("%d handlers ran at once on both servers, want at most 3", g.peak())
			}
		})
	})
	t.Run("a stuck handler keeps its slot for the grace period", func(t *testing.T) { testenv.Each(t, stuckHandler) })
	t.Run("a handler that returns within the grace period is not stuck", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			h := newHeld()
			env.Enqueue("t", asynq.Timeout(time.Second), asynq.Retention(time.Hour))
			env.Serve(asynq.Config{StuckGracePeriod: time.Minute}, h.handle)
			if cause := testenv.Await(env, h.causes, "the deadline"); !errors.Is(cause, context.DeadlineExceeded) {
				env.T.Errorf("cause of the context: %v, want DeadlineExceeded", cause)
			}
			close(h.proceed)
			env.AwaitState("t", "completed")
			if env.Log.Count("stuck") > 0 {
				env.T.Error("the handler was reported as stuck")
			}
		})
	})
	t.Run("canceled by a message", func(t *testing.T) { testenv.Each(t, canceledHandler) })
}

func stuckHandler(env *testenv.Env) {
	const grace = 500 * time.Millisecond
	ends, started := make(chan time.Time, 1), make(chan time.Time, 1)
	reports, release := make(chan error, 10), make(chan struct{})
	defer close(release)
	env.Enqueue("stuck", asynq.Timeout(time.Second), asynq.MaxRetry(0))
	env.Enqueue("next")
	env.Serve(asynq.Config{
		Concurrency: 1, StuckGracePeriod: grace,
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { reports <- err }),
	}, func(ctx context.Context, task *asynq.Task) error {
		if task.Type() == "stuck" {
			deadline, _ := ctx.Deadline() // the attempt began before the handler runs
			ends <- deadline
			<-release
			return nil
		}
		started <- time.Now()
		return nil
	})
	deadline, next := testenv.Await(env, ends, "the first task to start"), testenv.Await(env, started, "the second task to start")
	if d := next.Sub(deadline); d < grace {
		env.T.Errorf("the slot was free %v after the deadline, before the grace period ended", d)
	}
	if err := testenv.Await(env, reports, "the call of ErrorHandler"); !errors.Is(err, asynq.ErrHandlerStuck) || !errors.Is(err, context.DeadlineExceeded) {
		env.T.Errorf("ErrorHandler got %v, want ErrHandlerStuck and DeadlineExceeded", err)
	}
	env.AwaitState("stuck", "archived")
	env.AwaitState("next", "")
	if n := env.Log.Count("ERROR", "stuck", "task=stuck"); n != 1 {
		env.T.Errorf("the stuck handler was logged %d times, want once", n)
	}
	env.WantCounts(2, 1)
}

func canceledHandler(env *testenv.Env) {
	const namespace = "canceled-handler" // all databases of a server share their channels
	h := newHeld()
	close(h.proceed)
	env.BrokerIn(namespace)
	id := strings.ReplaceAll(env.T.Name(), "/", "-")
	client := env.NewClient(asynq.WithNamespace(env.Opt(), namespace))
	env.Serve(asynq.Config{Namespace: namespace}, h.handle)
	if _, err := client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(id)); err != nil {
		env.T.Fatal(err)
	}
	testenv.Await(env, h.started, "the task to start")
	env.Eventually(func() bool {
		return env.RDB.Publish(context.Background(), namespace+":cancel", id).Val() > 0
	}, "the server to subscribe")
	if cause := testenv.Await(env, h.causes, "the handler to be canceled"); !errors.Is(cause, asynq.ErrTaskCanceled) {
		env.T.Errorf("cause of the context: %v, want ErrTaskCanceled", cause)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	t.Run("strict with one slot", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			var ran testenv.Tally
			var want []string
			for i := range 100 {
				want = append(want, fmt.Sprint("t", i))
			}
			env.EnqueueMany(100)
			env.Serve(asynq.Config{Concurrency: 1}, ran.Handle)
			env.AwaitEmpty()
			if got := ran.Order(); !slices.Equal(got, want) {
				env.T.Errorf("order %v", got)
			}
		})
	})
	queues := []string{"low", "middle", "high"}
	priorities := map[string]int{"low": 1, "middle": 3, "high": 6}
	// run processes 60 tasks of each queue with one slot and returns the queue of each task, in
	// order.
	run := func(env *testenv.Env, cfg asynq.Config) []string {
		var ran testenv.Tally
		for _, queue := range queues {
			for i := range 60 {
				env.Enqueue(fmt.Sprint(queue, i), asynq.Queue(queue))
			}
		}
		cfg.Queues = priorities
		cfg.Concurrency = 1
		env.Serve(cfg, func(ctx context.Context, _ *asynq.Task) error {
			queue, _ := asynq.GetQueueName(ctx)
			ran.Add(queue)
			return nil
		})
		env.Eventually(func() bool { return len(ran.Order()) == 180 }, "all tasks to run")
		return ran.Order()
	}
	t.Run("strict priorities", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			order := run(env, asynq.Config{StrictPriority: true})
			for i, queue := range order {
				if want := queues[2-i/60]; queue != want {
					env.T.Fatalf("task %d is from %q, want %q: %v", i, queue, want, order)
				}
			}
		})
	})
	t.Run("weighted priorities", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			shares := make(map[string]int)
			for _, queue := range run(env, asynq.Config{})[:60] { // while all queues have tasks
				shares[queue]++
			}
			for queue, weight := range priorities {
				if n, want := shares[queue], 6*weight; n < want/2 || n > want*2 {
					env.T.Errorf("%d of the first 60 tasks are from %q, want about %d", n, queue, want)
				}
			}
		})
	})
}
