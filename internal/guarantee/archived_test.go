package guarantee_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// archivedTasks records the calls of OnArchived.
type archivedTasks struct {
	env *testenv.Env

	mu    sync.Mutex
	calls map[string][]archivedCall
}

type archivedCall struct {
	info  *asynq.TaskInfo
	err   error
	state string // of the task in Redis at the time of the call
	id    string // in the context
}

func recordArchived(env *testenv.Env) *archivedTasks {
	return &archivedTasks{env: env, calls: make(map[string][]archivedCall)}
}

func (a *archivedTasks) call(ctx context.Context, t *asynq.TaskInfo, err error) {
	id, _ := asynq.GetTaskID(ctx)
	call := archivedCall{t, err, a.env.State(t.ID), id}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[t.ID] = append(a.calls[t.ID], call)
}

func (a *archivedTasks) of(id string) []archivedCall {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls[id])
}

// mustHave requires one call for the task, and returns it.
func (a *archivedTasks) mustHave(id string) archivedCall {
	a.env.T.Helper()
	a.env.Eventually(func() bool { return len(a.of(id)) > 0 }, "OnArchived for %q", id)
	calls := a.of(id)
	if len(calls) != 1 {
		a.env.T.Errorf("%d calls of OnArchived for %q, want one", len(calls), id)
	}
	c := calls[0]
	if c.state != "archived" || c.info.State != asynq.TaskStateArchived || c.info.ID != id || c.id != id || c.info.Queue != "default" || c.err == nil {
		a.env.T.Errorf("%q: %+v of %+v", id, c, c.info)
	}
	return c
}

func TestOnArchived(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.AllowViolations() // an unreadable message violates an invariant
		ctx, calls, boom := context.Background(), recordArchived(env), errors.New("boom")
		env.Enqueue("crashed", asynq.MaxRetry(0))
		crashLongAgo(env, "crashed")
		env.RDB.HSet(ctx, env.Queue.Task("crashed and unreadable"), wire.FieldMessage, "\xff", wire.FieldState, "active")
		env.RDB.LPush(ctx, env.Queue.Active(), "crashed and unreadable")
		env.RDB.ZAdd(ctx, env.Queue.Lease(), redis.Z{Score: float64(time.Now().Unix() - 60), Member: "crashed and unreadable"})
		env.RDB.HSet(ctx, env.Queue.Task("unreadable"), wire.FieldMessage, "\xff", wire.FieldState, "pending")
		env.RDB.RPush(ctx, env.Queue.Pending(), "unreadable")
		env.Enqueue("last", asynq.MaxRetry(0), asynq.Header("k", "v"))
		for _, id := range []string{"skipped", "panics", "canceled", "by hand", "fails", "succeeds"} {
			env.Enqueue(id, asynq.MaxRetry(len(id)-len("panics")))
		}
		running := make(chan struct{})
		handler := func(ctx context.Context, task *asynq.Task) error {
			switch task.Type() {
			case "skipped":
				return asynq.SkipRetry
			case "panics":
				panic("oh no")
			case "canceled":
				close(running)
				<-ctx.Done()
			case "succeeds":
				return nil
			}
			return boom
		}
		srv := env.Serve(asynq.Config{
			Concurrency: 4, LeaseDuration: time.Second, OnArchived: calls.call,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
		}, handler)
		testenv.Await(env, running, "the task to start")
		env.Eventually(func() bool { // the server may not have subscribed yet
			env.NoError(env.Inspector().CancelAndArchive(ctx, "canceled"))
			return env.State("canceled") == "archived"
		}, "the cancellation")
		for id, want := range map[string]error{"last": boom, "skipped": asynq.SkipRetry, "canceled": boom, "crashed": asynq.ErrLeaseExpired} {
			c := calls.mustHave(id)
			if !errors.Is(c.err, want) || c.info.Type != id || c.info.LastErr != want.Error() || c.info.LastFailedAt.IsZero() {
				env.T.Errorf("%s: error %v, want %v, task %+v", id, c.err, want, c.info)
			}
		}
		if c := calls.mustHave("last"); c.info.Headers["k"] != "v" {
			env.T.Errorf("task %+v", c.info)
		}
		if c := calls.mustHave("panics"); !asynq.IsPanicError(c.err) {
			env.T.Errorf("error %v", c.err)
		}
		for _, id := range []string{"unreadable", "crashed and unreadable"} {
			if c := calls.mustHave(id); c.info.Type != "" || !strings.Contains(c.err.Error(), "decode") {
				env.T.Errorf("%s: error %v, task %+v", id, c.err, c.info)
			}
		}
		env.AwaitState("succeeds", "")
		env.AwaitState("by hand", "retry")
		env.AwaitState("fails", "archived")
		if err := env.Inspector().ArchiveTask("default", "by hand"); err != nil {
			env.T.Error(err)
		}
		srv.Shutdown()
		if n := len(calls.of("by hand")) + len(calls.of("succeeds")); n > 0 {
			env.T.Errorf("%d calls for tasks that the server has not archived", n)
		}
		env.NoError(env.Inspector().DeleteTask("default", "crashed and unreadable"))
		wantViolationsOnlyOf(env, "unreadable")
	})
}

// OnArchived waits for the confirmation of Redis, and is called once although the outcome is sent
// several times.
func TestOnArchivedAfterLostReplies(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		p, opt := env.Proxy()
		calls := recordArchived(env)
		env.ServeOn(opt, asynq.Config{Concurrency: 1, OnArchived: calls.call}, func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
		env.Enqueue("warm") // loads the script
		calls.mustHave("warm")
		for _, executed := range []bool{true, false} {
			id := "not executed"
			first := p.LoseCommands
			if executed {
				id, first = "executed", p.SwallowReplies
			}
			f := first(1, "evalsha", "archive 10000")
			later := p.LoseCommands(2, "evalsha", "archive 10000")
			env.Enqueue(id)
			testenv.Await(env, f.Done(), "the first reply to be lost")
			testenv.Await(env, later.Done(), "the connection to be lost again")
			if n := len(calls.of(id)); n > 0 {
				env.T.Errorf("%s: called before Redis confirmed the outcome", id)
			}
			p.Resume()
			calls.mustHave(id)
			env.AwaitState(id, "archived")
		}
	})
}

// While connections break at any moment, OnArchived is called for the archived tasks and no others.
func TestOnArchivedMatchesArchive(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const n = 2000
		p, opt := env.Proxy()
		calls, handled := recordArchived(env), atomic.Int64{}
		env.EnqueueMany(n, asynq.MaxRetry(1))
		env.ServeOn(opt, asynq.Config{
			Concurrency: 20, OnArchived: calls.call, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
		}, func(context.Context, *asynq.Task) error {
			if handled.Add(1)%200 == 0 {
				p.Cut()
			}
			return []error{nil, asynq.SkipRetry, errors.New("boom")}[rand.IntN(3)]
		})
		i, total := env.Inspector(), 0
		env.Eventually(func() bool {
			info, err := i.GetQueueInfo("default")
			env.NoError(err)
			total = info.Archived
			return info.Pending+info.Active+info.Retry == 0
		}, "all tasks to end")
		if total < n/3 {
			env.T.Errorf("%d of %d tasks are archived", total, n)
		}
		for task, err := range i.Tasks(env.Context(), "default", asynq.TaskStateArchived, asynq.TaskFilter{}) {
			env.NoError(err)
			calls.mustHave(task.ID)
		}
		calls.mu.Lock()
		defer calls.mu.Unlock()
		if len(calls.calls) != total {
			env.T.Errorf("OnArchived for %d tasks, %d are archived", len(calls.calls), total)
		}
	})
}

// The recoverer reports a task whose archiving Redis confirmed only when it was repeated.
func TestOnArchivedAfterLostReplyToRecovery(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		p, opt := env.Proxy()
		calls := recordArchived(env)
		env.Enqueue("first", asynq.MaxRetry(0))
		crashLongAgo(env, "first")
		env.ServeOn(opt, asynq.Config{Concurrency: 1, LeaseDuration: time.Second, OnArchived: calls.call}, func(context.Context, *asynq.Task) error { return nil })
		calls.mustHave("first")                          // loads the script
		p.SwallowReplies(20, "evalsha", "archive 10000") // more than go-redis repeats
		env.Enqueue("crashed", asynq.MaxRetry(0), asynq.ProcessIn(time.Hour))
		env.RDB.ZRem(env.Context(), env.Queue.Scheduled(), "crashed")
		crashLongAgo(env, "crashed")
		env.AwaitState("crashed", "archived")
		p.Resume()
		calls.mustHave("crashed")
	})
}

func TestOnArchivedAndShutdown(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		started, release := make(chan context.Context, 2), make(chan struct{})
		cfg := asynq.Config{Concurrency: 1, ShutdownTimeout: time.Hour, OnArchived: func(ctx context.Context, _ *asynq.TaskInfo, _ error) {
			started <- ctx
			<-release
			panic("contained")
		}}
		skip := func(context.Context, *asynq.Task) error { return asynq.SkipRetry }
		srv := env.Serve(cfg, skip)
		env.Enqueue("a")
		ctx := testenv.Await(env, started, "OnArchived")
		down := make(chan error, 1)
		go func() { down <- srv.ShutdownContext(context.Background()) }()
		env.Eventually(func() bool { return env.Log.Count("shutting down") == 1 }, "the shutdown to begin")
		select {
		case err := <-down:
			env.T.Fatalf("the shutdown did not wait for OnArchived: %v", err)
		case <-time.After(50 * time.Millisecond): // it must not end
		}
		close(release)
		if err := testenv.Await(env, down, "the shutdown"); err != nil {
			env.T.Error(err)
		}
		if env.Log.Count("callback panicked", "OnArchived", "task=a") != 1 {
			env.T.Error("the panic was not logged")
		}
		<-ctx.Done() // when the call returned

		release = make(chan struct{})
		srv = env.Serve(cfg, skip)
		env.Enqueue("b")
		ctx = testenv.Await(env, started, "OnArchived")
		late, cancel := context.WithCancel(context.Background())
		cancel()
		if err := srv.ShutdownContext(late); err == nil || !strings.Contains(err.Error(), "OnArchived") {
			env.T.Errorf("error %v", err)
		}
		testenv.Await(env, ctx.Done(), "the context to end")
		close(release)
		env.Eventually(func() bool { return env.Log.Count("callback panicked", "task=b") == 1 }, "the call to return")
	})
}

func TestOnArchivedOfReceiver(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		calls, boom := recordArchived(env), errors.New("boom")
		r := env.Receiver(asynq.ReceiverConfig{OnArchived: calls.call, LeaseDuration: time.Second})
		env.Enqueue("fails", asynq.MaxRetry(0))
		if err := receive(env, r, 1)[0].Fail(env.Context(), boom); err != nil {
			env.T.Error(err)
		}
		if c := calls.mustHave("fails"); !errors.Is(c.err, boom) {
			env.T.Errorf("error %v", c.err)
		}
		env.Enqueue("abandoned", asynq.MaxRetry(0))
		receive(env, r, 1)
		if c := calls.mustHave("abandoned"); !errors.Is(c.err, asynq.ErrLeaseExpired) {
			env.T.Errorf("error %v", c.err)
		}
	})
}
