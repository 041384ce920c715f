package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// A partition that is paused while no server runs is not checked again.
func TestPausedPartitionIsNotChecked(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		for _, id := range []string{"runs", "waits"} {
			env.Enqueue("x", asynq.TaskID(id), asynq.PartitionKey("a"))
		}
		rate := asynq.RateLimit{Events: 1, Per: 24 * time.Hour}
		srv := env.Serve(withPartitions(1, asynq.PartitionConfig{Rate: rate}), func(context.Context, *asynq.Task) error { return nil })
		env.Eventually(func() bool {
			p, err := i.GetPartitionInfo(ctx, "default", "a")
			return err == nil && p.Held == 1 && p.Active == 0 && p.IsBlocked && !p.CheckAt.IsZero()
		}, "the rate does not hold the second task: %s", partitionsOf(env))
		srv.Shutdown()
		env.NoError(i.PausePartition(ctx, "default", "a"))
		if p, err := i.GetPartitionInfo(ctx, "default", "a"); err != nil || !p.IsBlocked || !p.CheckAt.IsZero() {
			env.T.Errorf("%+v, %v; want it to be blocked, and not checked", p, err)
		}
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

// Servers and workers publish how they partition their queues.
func TestServersPublishPartitions(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		want := map[string]asynq.PartitionConfig{
			"default": {Concurrency: 3, Rate: asynq.RateLimit{Events: 10, Per: time.Minute, Burst: 2}, Weight: 2.5},
			"low":     {Concurrency: 1, Ordered: true, ByType: true, Weight: 1},
		}
		configs := map[string]asynq.QueueConfig{"plain": {}}
		for queue, p := range want {
			configs[queue] = asynq.QueueConfig{Partitions: &p}
		}
		unset := *configs["low"].Partitions
		unset.Weight, unset.Concurrency = 0, 0
		configs["low"], configs["other"] = asynq.QueueConfig{Partitions: &unset}, asynq.QueueConfig{Partitions: &unset}
		queues := map[string]int{"default": 1, "low": 1, "plain": 1}
		server := env.Serve(asynq.Config{Queues: queues, QueueConfigs: configs}, func(context.Context, *asynq.Task) error { return nil })
		published := func(worker string) (found bool) {
			servers, err := env.Inspector().Servers()
			env.NoError(err)
			for _, s := range servers {
				found = found || s.Worker == worker && maps.Equal(s.Partitions, want)
			}
			return found
		}
		env.Eventually(func() bool { return published("") }, "the partitions of the server")
		server.Shutdown()
		for key := range env.Snapshot(env.T) {
			if strings.HasPrefix(key, "asynq:servers:{") {
				env.T.Errorf("after the shutdown, %s is left", key)
			}
		}

		receiver := env.Receiver(asynq.ReceiverConfig{Queues: queues})
		env.NoError(receiver.SetQueues(queues, configs))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = receiver.ReceiveAs(ctx, "w", 1, "default", "low", "plain") // it ends with ctx
		}()
		env.Eventually(func() bool { return published("w") }, "the partitions of the worker")
		cancel()
		<-done
	})
}

// A change of some settings keeps what others change between its read and its write.
func TestUpdatePartition(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("x")
		var seen []asynq.PartitionSettings
		env.NoError(i.UpdatePartition(ctx, "default", "a", func(s *asynq.PartitionSettings) error {
			seen = append(seen, *s)
			switch s.Concurrency = 5; len(seen) {
			case 1:
				env.NoError(i.PausePartition(ctx, "default", "a"))
			case 2:
				env.NoError(i.SetPartition(ctx, "default", "a", asynq.PartitionSettings{Weight: 2, Paused: true}))
			}
			return nil
		}))
		if want := []asynq.PartitionSettings{{}, {Paused: true}, {Weight: 2, Paused: true}}; !slices.Equal(seen, want) {
			env.T.Errorf("it was called with %+v, want %+v", seen, want)
		}
		settings := func() asynq.PartitionSettings {
			p, err := i.GetPartitionInfo(ctx, "default", "a")
			env.NoError(err)
			return p.Settings
		}
		want := asynq.PartitionSettings{Concurrency: 5, Weight: 2, Paused: true}
		if got := settings(); got != want {
			env.T.Errorf("the settings are %+v, want %+v", got, want)
		}
		refused := errors.New("refused")
		err := i.UpdatePartition(ctx, "default", "a", func(s *asynq.PartitionSettings) error {
			s.Weight = 7
			return refused
		})
		if got := settings(); !errors.Is(err, refused) || got != want {
			env.T.Errorf("after an error (%v): %+v", err, got)
		}
	})
}

// tripHook calls on with the number of each round trip, after its reply.
type tripHook struct {
	scriptHook
}

func (h *tripHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.on(int(h.calls.Add(1)))
		return err
	}
}

func (h *tripHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		h.on(int(h.calls.Add(1)))
		return err
	}
}

// DeletePartitionTasks deletes tasks of a partition that start or change their state meanwhile.
func TestDeletePartitionTasksMeanwhile(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		cfg := withPartitions(10, asynq.PartitionConfig{Concurrency: 1})
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Hour }
		env.Serve(cfg, func(ctx context.Context, task *asynq.Task) error {
			if task.Type() == "fails" {
				return errors.New("it fails")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		env.AwaitSubscriber()
		// each calls DeletePartitionTasks with a change after each of its round trips.
		each := func(what string, prepare func(key string), change func(key string)) {
			for n, last := 1, false; !last; n++ {
				key := fmt.Sprint(what, n)
				prepare(key)
				h := &tripHook{scriptHook{on: func(trip int) {
					if trip == n {
						change(key)
					}
				}}}
				client := redis.NewClient(&redis.Options{Addr: env.Addr, DB: env.DB})
				client.AddHook(h)
				_, err := asynq.NewInspectorFromRedisClient(client).DeletePartitionTasks(ctx, "default", key)
				env.NoError(errors.Join(err, client.Close()))
				env.Eventually(func() bool { return env.State(key+"-0")+env.State(key+"-1")+env.State(key+"-2") == "" },
					"tasks to be deleted after %s at round trip %d; they are %q, %q, %q", what, n, env.State(key+"-0"), env.State(key+"-1"), env.State(key+"-2"))
				last = int(h.calls.Load()) < n
			}
		}
		each("a start", func(key string) {
			for n := range 3 {
				env.Enqueue("waits", asynq.TaskID(fmt.Sprint(key, "-", n)), asynq.PartitionKey(key))
			}
			env.AwaitState(key+"-0", "active")
			env.AwaitState(key+"-2", "scheduled")
		}, func(key string) {
			env.NoError(i.CancelAndDelete(ctx, key+"-0"))
			env.Eventually(func() bool { return env.State(key+"-1") != "scheduled" }, "the second task to start")
		})
		each("RunTask", func(key string) {
			env.Enqueue("fails", asynq.TaskID(key+"-0"), asynq.PartitionKey(key))
			env.AwaitState(key+"-0", "retry")
			env.NoError(i.PausePartition(ctx, "default", key))
		}, func(key string) {
			if err := i.RunTask("default", key+"-0"); !errors.Is(err, asynq.ErrTaskNotFound) {
				env.NoError(err)
				env.AwaitState(key+"-0", "scheduled") // it is held
			}
		})
	})
}
