package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// collectionsOf returns the key of each entry for a task ID. A key is repeated if it has several.
func collectionsOf(env *testenv.Env, id string) []string {
	ctx := context.Background()
	var in []string
	for _, key := range []string{env.Queue.Pending(), env.Queue.Active()} {
		for _, member := range env.RDB.LRange(ctx, key, 0, -1).Val() {
			if member == id {
				in = append(in, key)
			}
		}
	}
	sets := []string{env.Queue.Scheduled(), env.Queue.Retry(), env.Queue.Archived(), env.Queue.Completed()}
	for _, key := range append(sets, env.Keys(env.Queue.GroupPrefix()+"*")...) {
		if env.RDB.ZScore(ctx, key, id).Err() == nil {
			in = append(in, key)
		}
	}
	return in
}

// wantIn requires that the task is in one collection only and that its hash names it.
func wantIn(env *testenv.Env, id string, state wire.State, key string) {
	env.T.Helper()
	if got := collectionsOf(env, id); !slices.Equal(got, []string{key}) {
		env.T.Errorf("task %s is in %v, want only %s", id, got, key)
	}
	if got := env.State(id); got != state.String() {
		env.T.Errorf("the hash of task %s has state %q, want %q", id, got, state)
	}
	leased := env.RDB.ZScore(context.Background(), env.Queue.Lease(), id).Err() == nil
	if leased != (state == wire.StateActive) {
		env.T.Errorf("task %s is %v, has a lease: %v", id, state, leased)
	}
}

func TestGuarantee02OneState(t *testing.T) {
	t.Parallel()
	t.Run("new", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("pending")
			env.Enqueue("scheduled", asynq.ProcessIn(time.Hour))
			env.Enqueue("grouped", asynq.Group("g"))
			env.Enqueue("later-grouped", asynq.Group("g"), asynq.ProcessIn(time.Hour))
			wantIn(env, "pending", wire.StatePending, env.Queue.Pending())
			wantIn(env, "scheduled", wire.StateScheduled, env.Queue.Scheduled())
			wantIn(env, "grouped", wire.StateAggregating, env.Queue.Group("g"))
			wantIn(env, "later-grouped", wire.StateScheduled, env.Queue.Scheduled())
		})
	})
	t.Run("a lease if and only if active", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			started, proceed := make(chan string, 4), make(chan struct{})
			env.EnqueueMany(4)
			env.Serve(asynq.Config{Concurrency: 3}, func(_ context.Context, task *asynq.Task) error {
				started <- task.Type()
				<-proceed
				return nil
			})
			for range 3 {
				wantIn(env, testenv.Await(env, started, "a task to start"), wire.StateActive, env.Queue.Active())
			}
			wantIn(env, "t3", wire.StatePending, env.Queue.Pending())
			env.CheckInvariants("while tasks are active")
			close(proceed)
			env.AwaitEmpty()
		})
	})
	t.Run("many active tasks", func(t *testing.T) { testenv.Each(t, manyActive) })
	t.Run("after every outcome", func(t *testing.T) { testenv.Each(t, everyOutcome) })
	t.Run("under faults", func(t *testing.T) { testenv.Each(t, everythingAtOnce) })
}

// manyActive ends 3,000 active tasks of two servers in random order. Meanwhile another program
// removes the ID of one from the list.
func manyActive(env *testenv.Env) {
	const n = 3000
	started := make(chan chan struct{}, n)
	env.EnqueueMany(n)
	for range 2 {
		env.Serve(asynq.Config{Concurrency: n / 2}, func(context.Context, *asynq.Task) error {
			proceed := make(chan struct{})
			started <- proceed
			<-proceed
			return nil
		})
	}
	handlers := make([]chan struct{}, n)
	for i := range handlers {
		handlers[i] = testenv.Await(env, started, "task %d to start", i)
	}
	env.CheckInvariants("while tasks are active")
	rand.Shuffle(n, func(i, j int) { handlers[i], handlers[j] = handlers[j], handlers[i] })
	for i, proceed := range handlers {
		if i == n/6 {
			ctx := context.Background()
			id := env.RDB.LIndex(ctx, env.Queue.Active(), n/3).Val()
			env.NoError(env.RDB.LRem(ctx, env.Queue.Active(), 1, id).Err())
		}
		close(proceed)
	}
	for most := int64(n - n/6); most > 0; most -= n / 6 { // a miniredis copies the list for each task
		env.Eventually(func() bool { return env.RDB.LLen(context.Background(), env.Queue.Active()).Val() <= most }, "%d active tasks to be left", most)
	}
	env.AwaitEmpty()
	env.WantCounts(n, 0)
	if left := env.RDB.LRange(context.Background(), env.Queue.Active(), 0, -1).Val(); len(left) != 0 {
		env.T.Errorf("the active list holds %v", left)
	}
}

// everyOutcome checks the collection of a task after each outcome.
func everyOutcome(env *testenv.Env) {
	outcomes := map[string]error{
		"done": nil, "completed": nil, "retry": errors.New("failed"), "archived": asynq.SkipRetry, "revoked": asynq.RevokeTask,
		"exhausted": errors.New("failed"), "snoozed": asynq.Snooze(time.Hour), "retry-after": asynq.RetryAfter(time.Hour), "panics": nil,
	}
	opts := map[string][]asynq.Option{"completed": {asynq.Retention(time.Hour)}, "exhausted": {asynq.MaxRetry(0)}}
	for id := range outcomes {
		env.Enqueue(id, append(opts[id], asynq.Unique(time.Hour))...)
	}
	srv := env.Serve(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "panics" {
			panic("failed")
		}
		return outcomes[task.Type()]
	})
	for id, state := range map[string]string{
		"done": "", "completed": "completed", "retry": "retry", "archived": "archived", "revoked": "", "exhausted": "archived",
		"snoozed": "retry", "retry-after": "retry", "panics": "retry",
	} {
		env.AwaitState(id, state)
	}
	srv.Shutdown()
	wantIn(env, "completed", wire.StateCompleted, env.Queue.Completed())
	for _, id := range []string{"archived", "exhausted"} {
		wantIn(env, id, wire.StateArchived, env.Queue.Archived())
	}
	for _, id := range []string{"retry", "snoozed", "retry-after", "panics"} {
		wantIn(env, id, wire.StateRetry, env.Queue.Retry())
	}
	for _, id := range []string{"done", "revoked"} {
		if in := collectionsOf(env, id); in != nil {
			env.T.Errorf("task %s is finished, but in %v", id, in)
		}
	}
	// Tasks that succeeded or were revoked hold no lock.
	if locks := env.Keys("*:unique:*"); len(locks) != 6 {
		env.T.Errorf("%d locks, want those of 6 tasks: %v", len(locks), locks)
	}
	env.CheckInvariants("after every outcome")
}

// everythingAtOnce runs tasks of all kinds on two servers with failing connections, stops the
// servers, and checks the invariants.
func everythingAtOnce(env *testenv.Env) {
	p, opt := env.Proxy()
	client := env.NewClient(opt)
	var ran testenv.Tally
	handler := func(ctx context.Context, task *asynq.Task) error {
		n := ran.Add(task.Type())
		switch len(task.Type()) * n % 7 {
		case 0:
			return asynq.SkipRetry
		case 1:
			return errors.New("failed")
		case 2:
			panic("failed")
		case 3:
			return asynq.Snooze(time.Millisecond)
		}
		_, err := task.ResultWriter().Write([]byte("result"))
		return err
	}
	cfg := asynq.Config{
		Concurrency: 4, LeaseDuration: time.Second, ShutdownTimeout: time.Second,
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration { return time.Duration(n%2) * time.Second },
	}
	first, second := env.ServeOn(opt, cfg, handler), env.ServeOn(opt, cfg, handler)
	for i := range 150 {
		id := fmt.Sprintf("%0*d", 1+i%7+3, i)
		opts := [][]asynq.Option{
			{}, {asynq.Unique(time.Minute)}, {asynq.Retention(time.Second)}, {asynq.ProcessIn(time.Second)}, {asynq.MaxRetry(1)},
		}[i%5]
		// Whether the task was accepted does not matter here.
		_, _ = client.Enqueue(asynq.NewTask(id, []byte{byte(i % 3)}), append(opts, asynq.TaskID(id))...)
		switch i % 25 {
		case 10:
			p.Cut()
		case 15:
			env.RDB.ScriptFlush(context.Background())
		case 20:
			p.SwallowReplies(3, "evalsha")
		case 24:
			p.LoseCommands(2, "evalsha")
		}
	}
	env.Eventually(func() bool { return ran.Distinct() > 100 }, "most tasks to run")
	p.Resume()
	first.Shutdown()
	second.Shutdown()
	if n := env.RDB.ZCard(context.Background(), env.Queue.Lease()).Val(); n > 0 {
		// A fetch whose reply was lost just before the shutdown leaves leases that must expire.
		env.Serve(cfg, handler).Stop()
		env.Eventually(func() bool { return env.RDB.ZCard(context.Background(), env.Queue.Lease()).Val() == 0 }, "leases to expire")
	}
	env.CheckInvariants("after the faults")
}
