package asynq_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// awaitEntry waits until the entries of running schedulers are published, and returns the only one.
func awaitEntry(env *testenv.Env) *asynq.SchedulerEntry {
	env.T.Helper()
	env.Eventually(func() bool { return len(schedulerEntries(env)) == 1 }, "the entry to be published")
	return schedulerEntries(env)[0]
}

// awaitSkipped waits until Redis has recorded n more skipped ticks of an entry.
func awaitSkipped(env *testenv.Env, entryID string, n int) {
	env.T.Helper()
	seen := make(map[string]bool)
	env.Eventually(func() bool {
		if last := env.RDB.Get(context.Background(), env.Queue.Tick(entryID)).Val(); strings.HasSuffix(last, ":6") {
			seen[last] = true
		}
		return len(seen) > n
	}, "%d skipped ticks", n)
}

// The pause of an entry outlasts the leader. Its ticks are recorded as skipped, so that none is
// enqueued late.
func TestSchedulerEntryPaused(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		opts := asynq.SchedulerOpts{HeartbeatInterval: 5 * time.Second, MissedTicks: asynq.EnqueueAllMissed}
		a, entry := newMember(env, env.Opt(), opts)
		startScheduler(env, a)
		awaitTicks(env, 2)
		if awaitEntry(env).Paused {
			t.Error("the entry is paused")
		}
		for range 2 {
			env.NoError(i.PauseSchedulerEntry(ctx, entry))
		}
		awaitSkipped(env, entry, 1) // a tick that was in flight is over
		if !awaitEntry(env).Paused {
			t.Error("the entry is not shown as paused")
		}
		before := pendingTasks(env)
		awaitSkipped(env, entry, 3)
		a.Shutdown()
		b, _ := newMember(env, env.Opt(), opts)
		startScheduler(env, b)
		awaitLeader(env, b)
		awaitSkipped(env, entry, 3)
		if n := pendingTasks(env); n != before {
			t.Errorf("%d tasks were enqueued during the pause", n-before)
		}
		info, err := i.RunSchedulerEntry(ctx, entry)
		if err != nil || info.Type != "fast" {
			t.Errorf("run now: %+v, error %v", info, err)
		}
		last, _, _ := strings.Cut(env.RDB.Get(ctx, env.Queue.Tick(entry)).Val(), ":")
		ms, err := strconv.ParseInt(last, 10, 64)
		env.NoError(err)
		skipped := time.UnixMilli(ms)
		for range 2 {
			env.NoError(i.ResumeSchedulerEntry(ctx, entry))
		}
		awaitTicks(env, 3)
		b.Shutdown()
		for n := range time.Duration(5) {
			if tick := skipped.Add(-n * fast); env.State(asynq.TickTaskID(entry, tick)) != "" {
				t.Errorf("the tick at %v, which was skipped, was enqueued", tick)
			}
		}
		if n := env.RDB.Exists(ctx, wire.DefaultNamespace.SchedulerPauses()).Val(); n != 0 {
			t.Error("a pause is left")
		}
	})
}

// Without a group, a pause holds for entries with equal settings, also after a restart.
func TestSchedulerEntryPausedWithoutGroup(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		run := func(types ...string) (*asynq.Scheduler, []string) {
			sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{HeartbeatInterval: 5 * time.Second})
			var ids []string
			for _, typename := range types {
				ids = append(ids, registerFast(env, sched, asynq.NewTask(typename, nil), asynq.Queue(typename)))
			}
			startScheduler(env, sched)
			env.Eventually(func() bool { return len(schedulerEntries(env)) == len(types) }, "the entries")
			return sched, ids
		}
		pending := func(queue string) int {
			return int(env.RDB.LLen(ctx, wire.DefaultNamespace.Queue(queue).Pending()).Val())
		}
		first, ids := run("a")
		env.NoError(i.PauseSchedulerEntry(ctx, ids[0]))
		first.Shutdown()
		before := pending("a")
		second, ids := run("a", "b")
		env.Eventually(func() bool { return pending("b") >= 5 }, "ticks of the other entry")
		if n := pending("a"); n != before {
			t.Errorf("%d tasks were enqueued during the pause", n-before)
		}
		for _, e := range schedulerEntries(env) {
			if e.Paused != (e.Task.Type() == "a") {
				t.Errorf("%s is paused: %t", e.Task.Type(), e.Paused)
			}
		}
		env.NoError(i.ResumeSchedulerEntry(ctx, ids[0]))
		env.Eventually(func() bool { return pending("a") >= before+3 }, "ticks after the pause")
		second.Shutdown()
		for _, f := range []func(context.Context, string) error{i.PauseSchedulerEntry, i.ResumeSchedulerEntry} {
			if err := f(ctx, ids[0]); !errors.Is(err, asynq.ErrSchedulerEntryNotFound) {
				t.Errorf("without a scheduler: %v", err)
			}
		}
	})
}

// If Redis rejects the check, ticks are enqueued; if it cannot be reached, they are retried.
func TestSchedulerPausesUnreadable(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.NoError(env.RDB.Set(context.Background(), wire.DefaultNamespace.SchedulerPauses(), "x", time.Minute).Err())
		a, entry := newMember(env, env.Opt(), asynq.SchedulerOpts{})
		startScheduler(env, a)
		awaitTicks(env, 3)
		a.Shutdown()
		wantEachTickOnce(env, entry, 3)
		if env.Log.Count("check for paused entries") == 0 {
			t.Error("the rejection was not logged")
		}
		env.NoError(env.RDB.Del(context.Background(), wire.DefaultNamespace.SchedulerPauses()).Err())
	})
}

// The pause of an entry of a PeriodicTaskManager outlasts its syncs and restarts. An entry whose
// config changes is another one, and not paused.
func TestPeriodicTaskManagerPaused(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		config := func(queue, payload string) *asynq.PeriodicTaskConfig {
			return &asynq.PeriodicTaskConfig{Cronspec: "@every 1s", Task: asynq.NewTask(queue, []byte(payload)), Opts: []asynq.Option{asynq.Queue(queue)}}
		}
		pending := func(queue string) int {
			return int(env.RDB.LLen(ctx, wire.DefaultNamespace.Queue(queue).Pending()).Val())
		}
		awaitTicksOf := func(queue string, n int) {
			env.T.Helper()
			want := pending(queue) + n
			env.Eventually(func() bool { return pending(queue) >= want }, "%d ticks of %s", n, queue)
		}
		paused := func(want int) (id string) { // returns the ID of the entry of queue a
			env.T.Helper()
			env.Eventually(func() bool {
				all, n := schedulerEntries(env), 0
				for _, e := range all {
					if e.Paused {
						n++
					}
					if e.Task.Type() == "a" {
						id = e.ID
					}
				}
				return len(all) == 2 && n == want
			}, "two entries, %d of them paused", want)
			return id
		}
		p := &provider{}
		p.set(nil, nil, config("a", "old"), config("b", ""))
		start := func() *asynq.PeriodicTaskManager {
			m := newManager(env, p, asynq.SchedulerOpts{HeartbeatInterval: 5 * time.Second}, time.Hour)
			env.NoError(m.Start())
			return m
		}
		m := start()
		env.NoError(i.PauseSchedulerEntry(ctx, paused(0)))
		awaitTicksOf("b", 1) // a tick of the other entry that was in flight is over
		before := pending("a")
		m.Sync()
		awaitTicksOf("b", 2)
		m.Shutdown()
		m = start()
		paused(1)
		awaitTicksOf("b", 2)
		if n := pending("a"); n != before {
			t.Errorf("%d tasks were enqueued during the pause", n-before)
		}
		p.set(nil, nil, config("a", "new"), config("b", ""))
		m.Sync()
		awaitTicksOf("a", 1)
		p.set(nil, nil, config("a", "old"), config("b", ""))
		m.Sync()
		entry := paused(1)
		before = pending("a")
		awaitTicksOf("b", 2)
		if n := pending("a"); n > before+1 { // a tick of the changed entry may have been in flight
			t.Errorf("%d tasks were enqueued during the second pause", n-before)
		}
		env.NoError(i.ResumeSchedulerEntry(ctx, entry))
		awaitTicksOf("a", 1)
		m.Shutdown()
	})
}
