package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// Servers keep to the limits of their archives, and Inspectors to those that the servers publish.
func TestArchiveLimits(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		cfg := asynq.Config{
			Concurrency: 1, Queues: map[string]int{"default": 1, "few": 1}, LeaseDuration: time.Second, JanitorInterval: 10 * time.Millisecond,
			Archive:      asynq.ArchiveConfig{MaxTasks: asynq.ArchiveMaxTasks + 5, MaxAge: 100 * 24 * time.Hour},
			QueueConfigs: map[string]asynq.QueueConfig{"few": {Archive: asynq.ArchiveConfig{MaxTasks: 3}}},
		}
		few := wire.DefaultNamespace.Queue("few")
		old := time.Now().Add(-95 * 24 * time.Hour).Unix() // too old for other libraries
		for _, q := range []wire.Queue{env.Queue, few} {
			env.Enqueue("old in "+q.Name, asynq.Queue(q.Name), asynq.ProcessIn(time.Hour))
			env.NoError(i.ArchiveTask(q.Name, "old in "+q.Name))
			env.NoError(env.RDB.ZAdd(ctx, q.Archived(), redis.Z{Score: float64(old), Member: "old in " + q.Name}).Err())
		}
		env.Serve(cfg, func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
		for queue, want := range map[string]asynq.ArchiveConfig{
			"default": cfg.Archive, "few": {MaxTasks: 3, MaxAge: cfg.Archive.MaxAge}, "unknown": {MaxTasks: asynq.ArchiveMaxTasks, MaxAge: 90 * 24 * time.Hour},
		} {
			env.Eventually(func() bool {
				got, err := i.ArchiveLimits(ctx, queue)
				env.NoError(err)
				return got == want
			}, "the limits of queue %q to be published", queue)
			if info, err := i.GetQueueInfo(queue); queue != "unknown" && (err != nil || info.Archive != want) {
				env.T.Errorf("queue info %+v, error %v; want the limits %+v", info, err, want)
			}
			if ttl := env.RDB.TTL(ctx, wire.DefaultNamespace.Queue(queue).ArchiveLimits()).Val(); queue != "unknown" && ttl < 29*24*time.Hour {
				env.T.Errorf("the limits of queue %q expire in %v", queue, ttl)
			}
		}
		for n := range 5 {
			env.Enqueue(fmt.Sprint("few", n), asynq.Queue("few"))
		}
		archived := func(queue string) []string {
			tasks, err := i.ListArchivedTasks(queue)
			env.NoError(err)
			return testenv.TaskIDs(tasks)
		}
		env.Eventually(func() bool { return fmt.Sprint(archived("few")) == "[few2 few3 few4]" }, "the newest three tasks in the archive")
		if got := archived("default"); len(got) != 1 {
			env.T.Errorf("the archive has %q: its limits are longer than the default", got)
		}
		if room, err := i.ArchiveRoom(ctx, "few"); err != nil || room != 0 {
			env.T.Errorf("room for %d tasks, error %v", room, err)
		}
		if room, err := i.ArchiveRoom(ctx, "default"); err != nil || room != asynq.ArchiveMaxTasks+4 {
			env.T.Errorf("room for %d tasks, error %v", room, err)
		}
		for n := range 5 {
			env.Enqueue(fmt.Sprint("hand", n), asynq.Queue("few"), asynq.ProcessIn(time.Hour))
		}
		if got, err := i.ArchiveTasks(ctx, "few", asynq.TaskStateScheduled, asynq.TaskFilter{}); err != nil || got != (asynq.ArchiveResult{Archived: 5, Discarded: 5}) {
			env.T.Errorf("archived by hand: %+v, error %v", got, err)
		}
		env.Enqueue("hand", asynq.ProcessIn(time.Hour))
		env.NoError(i.ArchiveTask("default", "hand"))
		if got := archived("default"); len(got) != 2 {
			env.T.Errorf("the archive has %q: the Inspector deleted an old task", got)
		}
		// A server with the default limits withdraws them, and trims by them.
		env.Serve(asynq.Config{Queues: cfg.Queues, JanitorInterval: 10 * time.Millisecond}, func(context.Context, *asynq.Task) error { return nil })
		env.Eventually(func() bool {
			return len(archived("default")) == 1 && env.RDB.Exists(ctx, env.Queue.ArchiveLimits()).Val() == 0
		}, "the default limits")
	})
}

// The recoverer archives by the limits of the queue, too.
func TestArchiveLimitsOfRecoverer(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		for n := range 4 {
			env.Enqueue(fmt.Sprint("t", n), asynq.MaxRetry(0))
			crashLongAgo(env, fmt.Sprint("t", n))
		}
		r := env.Receiver(asynq.ReceiverConfig{Archive: asynq.ArchiveConfig{MaxTasks: 1}})
		env.Eventually(func() bool { return env.RDB.Get(env.Context(), env.Queue.Failed()).Val() == "4" }, "the recovery")
		if n := env.RDB.ZCard(env.Context(), env.Queue.Archived()).Val(); n != 1 {
			env.T.Errorf("%d tasks are archived, want 1", n)
		}
		two := map[string]asynq.QueueConfig{"default": {Archive: asynq.ArchiveConfig{MaxTasks: 2}}}
		env.NoError(r.SetQueues(map[string]int{"default": 1}, two))
		for n := range 3 {
			env.Enqueue(fmt.Sprint("more", n), asynq.MaxRetry(0))
			env.NoError(receive(env, r, 1)[0].Fail(env.Context(), errors.New("failed")))
		}
		if n := env.RDB.ZCard(env.Context(), env.Queue.Archived()).Val(); n != 2 {
			env.T.Errorf("%d tasks are archived, want 2", n)
		}
		two["default"] = asynq.QueueConfig{Archive: asynq.ArchiveConfig{MaxAge: -1}}
		if err := r.SetQueues(nil, two); err == nil {
			env.T.Error("a negative age was accepted")
		}
	})
}
