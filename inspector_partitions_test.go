package asynq_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// withPartitions returns the config of a server whose default queue has partitions.
func withPartitions(slots int, p asynq.PartitionConfig) asynq.Config {
	return asynq.Config{Concurrency: slots, QueueConfigs: map[string]asynq.QueueConfig{"default": {Partitions: &p}}}
}

func partitionsOf(env *testenv.Env) string {
	env.T.Helper()
	text := ""
	for p, err := range env.Inspector().Partitions(context.Background(), "default") {
		env.NoError(err)
		text += fmt.Sprintf("%s: %d held, %d active, blocked %v, paused %v; ", p.Key, p.Held, p.Active, p.IsBlocked, p.Settings.Paused)
	}
	return text
}

// The Inspector shows what partitions hold, and changes it.
func TestInspectorPartitions(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		release := make(chan struct{})
		srv := env.Serve(withPartitions(10, asynq.PartitionConfig{Concurrency: 1}), func(ctx context.Context, _ *asynq.Task) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		for _, key := range []string{"a", "b;%", ""} {
			for n := range 3 {
				opts := []asynq.Option{asynq.TaskID(fmt.Sprintf("%s-%d", key, n)), asynq.PartitionKey(key)}
				if key == "" {
					opts = opts[:1]
				}
				env.Enqueue("x", opts...)
			}
		}
		want := ": 2 held, 1 active, blocked true, paused false; a: 2 held, 1 active, blocked true, paused false; " +
			"b;%: 2 held, 1 active, blocked true, paused false; "
		env.Eventually(func() bool { return partitionsOf(env) == want }, "partitions are %q, want %q", "other", want)

		info, err := i.GetQueueInfo("default")
		env.NoError(err)
		if info.Held != 6 || info.Scheduled != 0 || info.Active != 3 || info.Size != 9 {
			env.T.Errorf("the queue has %d held, %d scheduled, %d active of %d tasks, want 6, 0, 3 of 9", info.Held, info.Scheduled, info.Active, info.Size)
		}
		task, err := i.GetTaskInfo("default", "a-2")
		env.NoError(err)
		if !task.IsHeld || task.PartitionKey != "a" || task.State != asynq.TaskStateScheduled || time.Until(task.NextProcessAt) > time.Hour {
			env.T.Errorf("a held task: %+v", task)
		}
		env.NoError(i.PausePartition(ctx, "default", "a"))
		env.NoError(i.SetPartition(ctx, "default", "b;%", asynq.PartitionSettings{Concurrency: 3, Weight: 2}))
		want = ": 2 held, 1 active, blocked true, paused false; a: 2 held, 1 active, blocked true, paused true; " +
			"b;%: 0 held, 3 active, blocked false, paused false; "
		env.Eventually(func() bool { return partitionsOf(env) == want }, "partitions are not %q", want)
		if p, err := i.GetPartitionInfo(ctx, "default", "b;%"); err != nil || p.Settings != (asynq.PartitionSettings{Concurrency: 3, Weight: 2}) {
			env.T.Errorf("settings: %+v, %v", p, err)
		}
		if n, err := i.CancelPartitionTasks(ctx, "default", "b;%"); n != 3 || err != nil {
			env.T.Errorf("%d tasks were canceled (%v), want 3", n, err)
		}
		if n, err := i.DeletePartitionTasks(ctx, "default", "a"); n != 3 || err != nil {
			env.T.Errorf("%d tasks were deleted (%v), want 3", n, err)
		}
		close(release)
		env.NoError(i.ResumePartition(ctx, "default", "a"))
		env.Eventually(func() bool {
			info, err := i.GetQueueInfo("default")
			return err == nil && info.Held+info.Active+info.Pending == 0
		}, "tasks are left: %v", partitionsOf(env))
		srv.Shutdown()
	})
}

// Changes of held tasks by the Inspector leave no place behind; the invariant check sees it.
func TestChangesOfHeldTasks(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("first", asynq.TaskID("first"), asynq.Queue("default"))
		env.NoError(i.SetPartition(ctx, "default", "a", asynq.PartitionSettings{Paused: true}))
		for _, id := range []string{"run", "archive", "delete", "reschedule", "payload", "move", "stays"} {
			env.Enqueue("x", asynq.TaskID(id), asynq.PartitionKey("a"))
		}
		srv := env.Serve(withPartitions(1, asynq.PartitionConfig{}), func(context.Context, *asynq.Task) error { return nil })
		held := func(n int) {
			env.T.Helper()
			env.Eventually(func() bool {
				info, err := i.GetQueueInfo("default")
				return err == nil && info.Held == n && info.Pending+info.Active == 0
			}, "the queue does not hold %d tasks: %s", n, partitionsOf(env))
		}
		held(7)
		env.NoError(i.ArchiveTask("default", "archive"))
		env.NoError(i.DeleteTask("default", "delete"))
		env.NoError(i.RescheduleTask(ctx, "default", "reschedule", time.Now().Add(time.Hour)))
		env.NoError(i.UpdateTaskPayload("default", "payload", []byte("new")))
		held(4)
		env.NoError(i.RunTask("default", "run")) // it is held again: the partition is paused
		held(4)
		_, err := i.UpdateTask(ctx, "default", "move", nil, asynq.Queue("other"))
		env.NoError(err)
		held(3)
		env.CheckInvariants("with held tasks")
		env.NoError(i.ResumePartition(ctx, "default", "a"))
		held(0)
		srv.Shutdown()
		for id, want := range map[string]string{"archive": "archived", "reschedule": "scheduled", "stays": "", "payload": "", "run": ""} {
			if got := env.State(id); got != want {
				env.T.Errorf("task %s is %q, want %q", id, got, want)
			}
		}
	})
}
