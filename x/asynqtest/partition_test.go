package asynqtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// partitioned configures the partitions of the default queue.
func partitioned(p asynq.PartitionConfig) asynqtest.DrainOption {
	return asynqtest.Configure(func(c *asynq.Config) {
		c.QueueConfigs = map[string]asynq.QueueConfig{"default": {Partitions: &p}}
	})
}

// enqueueKeyed enqueues tasks 1 to n of a partition, with IDs such as "a1".
func enqueueKeyed(t *testing.T, b *asynqtest.Broker, key string, n int) (ids []string) {
	t.Helper()
	for i := range n {
		ids = append(ids, fmt.Sprint(key, i+1))
		enqueue(t, b, "t", "", asynq.TaskID(ids[i]), asynq.PartitionKey(key), asynq.Retention(time.Hour))
	}
	return ids
}

func TestPartitionKeyMatches(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "t", "", asynq.PartitionKey("customer 7"))
	b.AssertEnqueued(t, asynqtest.Task{PartitionKey: "customer 7"})
	b.AssertEnqueued(t, asynqtest.Task{Options: []asynq.Option{asynq.PartitionKey("customer 7")}})
	wantFailure(t, func(t testing.TB) { b.AssertEnqueued(t, asynqtest.Task{PartitionKey: "customer 8"}) },
		`Task{PartitionKey: "customer 8"}`, `PartitionKey: want "customer 8", got "customer 7"`)
	wantFailure(t, func(t testing.TB) {
		b.AssertEnqueued(t, asynqtest.Task{Options: []asynq.Option{asynq.PartitionKey("other")}})
	}, `PartitionKey: want "other", got "customer 7"`)
}

// Drain runs all tasks of partitions, also of those whose limits make tasks wait for others.
func TestDrainPartitions(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]asynq.PartitionConfig{
		"no limits": {}, "one at a time": {Concurrency: 1}, "ordered": {Ordered: true}, "by type": {ByType: true, Concurrency: 1},
		"rate with a burst": {Rate: asynq.RateLimit{Events: 1, Per: time.Minute, Burst: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := asynqtest.Run(t)
			enqueueKeyed(t, b, "a", 20)
			enqueueKeyed(t, b, "b", 20)
			if outcomes := b.Drain(t, asynq.HandlerFunc(succeed), partitioned(p)); len(outcomes) != 40 {
				t.Errorf("%d tasks ran, want 40", len(outcomes))
			}
			b.AssertCount(t, 40, asynqtest.Task{State: asynq.TaskStateCompleted})
		})
	}
}

func TestDrainWithoutPartitionsIgnoresKeys(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	want := enqueueKeyed(t, b, "a", 3)
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)), want...)
}

// A failed task of an ordered partition precedes the others of its partition.
func TestDrainOrderedPartitions(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueueKeyed(t, b, "a", 3)
	failed := false
	outcomes := b.Drain(t, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		if id, _ := asynq.GetTaskID(ctx); id == "a1" && !failed {
			failed = true
			return errPlanned
		}
		return nil
	}), partitioned(asynq.PartitionConfig{Ordered: true}))
	wantIDs(t, outcomes, "a1", "a1", "a2", "a3")
}

// A failed task may be held behind the others of its partition when its outcome is read.
func TestOutcomesOfPartitions(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueueKeyed(t, b, "a", 20)
	var attempts int
	outcomes := b.Drain(t, asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if attempts++; attempts <= 20 {
			return errPlanned
		}
		return nil
	}), partitioned(asynq.PartitionConfig{Concurrency: 1}))
	if len(outcomes) != 40 {
		t.Errorf("%d attempts, want 40", len(outcomes))
	}
	for _, o := range outcomes {
		if want := map[bool]asynq.TaskState{true: asynq.TaskStateRetry, false: asynq.TaskStateCompleted}[o.Err != nil]; o.State != want {
			t.Errorf("%v, want %v", o, want)
		}
	}
}

// A task that waits for its retry holds up its partition until the clock is moved.
func TestDrainLeavesTasksBehindARetry(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueueKeyed(t, b, "a", 2)
	enqueueKeyed(t, b, "b", 2)
	ordered := partitioned(asynq.PartitionConfig{Ordered: true})
	outcomes := b.Drain(t, failing("a1"), asynqtest.LeaveRetries(), ordered)
	if len(outcomes) != 3 {
		t.Errorf("%v ran, want a1, b1 and b2", outcomes)
	}
	b.AssertEnqueued(t, asynqtest.Task{ID: "a2", Held: true})
	wantFailure(t, func(t testing.TB) { b.AssertEnqueued(t, asynqtest.Task{ID: "a1", Held: true}) }, "Held:")
	wantFailure(t, func(t testing.TB) { b.AssertNotEnqueued(t, asynqtest.Task{ID: "a2"}) }, "held by its partition")
	wantFailure(t, func(t testing.TB) { b.AssertEnqueued(t, asynqtest.Task{ID: "a2", ProcessIn: 24 * time.Hour}) }, "it is held by its partition")
	b.Advance(time.Hour)
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed), ordered), "a1", "a2")
}

// Tasks that a rate holds become due when the clock is moved, also by a handler.
func TestDrainRates(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueueKeyed(t, b, "a", 4)
	rate := partitioned(asynq.PartitionConfig{Rate: asynq.RateLimit{Events: 1, Per: 10 * time.Minute}})
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed), rate), "a1")
	b.Advance(9 * time.Minute)
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed), rate))
	b.Advance(time.Minute)
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed), rate), "a2")
	b.Advance(10 * time.Minute)
	moved := false
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if !moved {
			moved = true
			b.Advance(10 * time.Minute)
		}
		return nil
	}), rate), "a3", "a4")
}

func TestDrainLeavesPausedPartitions(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueueKeyed(t, b, "a", 2)
	enqueueKeyed(t, b, "b", 2)
	ctx := context.Background()
	if err := b.Inspector().PausePartition(ctx, "default", "a"); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed), partitioned(asynq.PartitionConfig{})), "b1", "b2")
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed))) // a server without partitions does not run held tasks
	if err := b.Inspector().ResumePartition(ctx, "default", "a"); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed), partitioned(asynq.PartitionConfig{})), "a1", "a2")
}

// Tasks that are scheduled later than held ones are not due, and neither are the held ones.
func TestDrainSkipsHeldTasksBeforeScheduledOnes(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueueKeyed(t, b, "a", 30)
	enqueue(t, b, "t", "", asynq.TaskID("later"), asynq.ProcessIn(100*time.Hour))
	rate := partitioned(asynq.PartitionConfig{Rate: asynq.RateLimit{Events: 1, Per: time.Hour}})
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed), rate), "a1")
	b.AssertCount(t, 29, asynqtest.Task{Held: true})
}
