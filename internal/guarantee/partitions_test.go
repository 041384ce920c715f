package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// partitioned returns the config of a server whose default queue has partitions.
func partitioned(slots int, p asynq.PartitionConfig) asynq.Config {
	return asynq.Config{
		Concurrency: slots, QueueConfigs: map[string]asynq.QueueConfig{"default": {Partitions: &p}},
		TaskCheckInterval: 100 * time.Millisecond,
	}
}

// enqueueKeyed enqueues n tasks of a partition, with IDs from its key and a number.
func enqueueKeyed(env *testenv.Env, key string, n int) {
	env.T.Helper()
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		tasks[i] = asynq.NewTask("t", []byte(strconv.Itoa(i)), asynq.TaskID(fmt.Sprintf("%s-%d", key, i)))
	}
	for part := range slices.Chunk(tasks, 1000) {
		for _, r := range env.Client.BatchEnqueueContext(env.Context(), part, asynq.PartitionKey(key)) {
			env.NoError(r.Err)
		}
	}
}

// numberOf returns the number in an environment variable, if it is set.
func numberOf(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

// A partition with many tasks does not delay one with few, also with ASYNQ_FLOOD_TASKS=100000.
func TestPartitionsAreFair(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const few, slots = 10, 5
		many := numberOf("ASYNQ_FLOOD_TASKS", 2000)
		enqueueKeyed(env, "a", many)
		enqueueKeyed(env, "b", few)
		var a, b atomic.Int64
		var before atomic.Int64 // starts of a when the last of b started
		env.Serve(partitioned(slots, asynq.PartitionConfig{}), func(ctx context.Context, task *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			if id[0] == 'a' {
				a.Add(1)
			} else if b.Add(1) == few {
				before.Store(a.Load())
			}
			return nil
		})
		env.AwaitEmpty()
		if a.Load() != int64(many) || b.Load() != few {
			env.T.Errorf("%d and %d tasks ran, want %d and %d", a.Load(), b.Load(), many, few)
		}
		env.T.Logf("%d tasks of the long partition started before the last of the short one", before.Load())
		if n := before.Load(); n > few+2*slots {
			env.T.Errorf("%d tasks of the long partition started before the last of the short one, want at most %d", n, few+2*slots)
		}
	})
}

// Many partitions with many tasks do not delay one with few, although their first tasks belong to
// different partitions: the tasks are slow. So it is with a limit of the queue.
func TestManyPartitionsAreFair(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const others, many, few, limit = 10, 60, 3, 2
		for i := range many {
			for k := range others {
				env.Enqueue("t", asynq.TaskID(fmt.Sprintf("a%d-%d", k, i)), asynq.PartitionKey(fmt.Sprint("a", k)))
			}
		}
		enqueueKeyed(env, "b", few)
		var a, b, before atomic.Int64 // before has the starts of others when the last of b started
		cfg := partitioned(20, asynq.PartitionConfig{})
		cfg.QueueConfigs["default"] = asynq.QueueConfig{Concurrency: limit, Partitions: cfg.QueueConfigs["default"].Partitions}
		env.Serve(cfg, func(ctx context.Context, _ *asynq.Task) error {
			if id, _ := asynq.GetTaskID(ctx); id[0] == 'a' {
				a.Add(1)
			} else if b.Add(1) == few {
				before.Store(a.Load())
			}
			time.Sleep(5 * time.Millisecond) // 400 tasks in a second
			return nil
		})
		env.AwaitEmpty()
		// Servers count what ends for 100 ms; in that time, 40 tasks start.
		if n := before.Load(); a.Load() != others*many || b.Load() != few || n > 40+others*few+40 {
			env.T.Errorf("%d and %d tasks ran; %d of others started before the last of b", a.Load(), b.Load(), n)
		}
	})
}

// No more tasks of a partition run than its limit allows, on two servers.
func TestPartitionConcurrency(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const limit, keys, tasks = 2, 5, 40
		for k := range keys {
			enqueueKeyed(env, "k"+strconv.Itoa(k), tasks)
		}
		var mu sync.Mutex
		running, most := map[string]int{}, 0
		handler := func(ctx context.Context, task *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			mu.Lock()
			running[id[:2]]++
			most = max(most, running[id[:2]])
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			running[id[:2]]--
			mu.Unlock()
			return nil
		}
		began := time.Now()
		for range 2 {
			env.Serve(partitioned(20, asynq.PartitionConfig{Concurrency: limit}), handler)
		}
		env.AwaitEmpty()
		if most != limit {
			env.T.Errorf("up to %d tasks of a partition ran at once, want %d", most, limit)
		}
		if d := time.Since(began); d > 20*time.Second {
			env.T.Errorf("the tasks took %v: a freed place was not noticed", d)
		}
	})
}

// The tasks of an ordered partition run in order, also if they fail, and with
// ASYNQ_ORDERED_PARTITIONS=10000.
func TestPartitionOrder(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const tasks = 10
		keys := numberOf("ASYNQ_ORDERED_PARTITIONS", 10)
		for k := range keys {
			enqueueKeyed(env, "k"+strconv.Itoa(k), tasks)
		}
		var mu sync.Mutex
		done := map[string]int{}
		cfg := partitioned(20, asynq.PartitionConfig{Ordered: true})
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Millisecond }
		cfg.DelayedTaskCheckInterval = 10 * time.Millisecond
		for range 2 {
			env.Serve(cfg, func(ctx context.Context, task *asynq.Task) error {
				id, _ := asynq.GetTaskID(ctx)
				key, _, _ := strings.Cut(id, "-")
				n, _ := strconv.Atoi(string(task.Payload()))
				mu.Lock()
				defer mu.Unlock()
				if done[key] != n {
					env.T.Errorf("%s runs after %d tasks of its partition", id, done[key])
				}
				if retried, _ := asynq.GetRetryCount(ctx); n == 3 && retried == 0 {
					return errors.New("fails once")
				}
				done[key] = n + 1
				return nil
			})
		}
		env.AwaitEmpty()
		for key, n := range done {
			if n != tasks {
				env.T.Errorf("%d tasks of %s ran", n, key)
			}
		}
		if len(done) != keys {
			env.T.Errorf("tasks of %d partitions ran, want %d", len(done), keys)
		}
	})
}

// Starts of a partition keep to its rate.
func TestPartitionRate(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const tasks, burst = 8, 3
		interval := 50 * time.Millisecond
		enqueueKeyed(env, "a", tasks)
		var mu sync.Mutex
		var starts []time.Time
		began := time.Now() // Redis lets the first task start after this, and its handler may start late
		env.Serve(partitioned(20, asynq.PartitionConfig{Rate: asynq.RateLimit{Events: 1, Per: interval, Burst: burst}}),
			func(context.Context, *asynq.Task) error {
				mu.Lock()
				starts = append(starts, time.Now())
				mu.Unlock()
				return nil
			})
		env.AwaitEmpty()
		took := starts[tasks-1].Sub(began)
		if least := (tasks - burst) * interval; took < least-10*time.Millisecond {
			env.T.Errorf("%d tasks started within %v, want at least %v", tasks, took, least)
		}
		if took > 10*time.Second {
			env.T.Errorf("%d tasks started within %v: the end of a limit was not noticed", tasks, took)
		}
	})
}
