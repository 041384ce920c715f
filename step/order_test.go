package step_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/step"
)

// In an ordered queue and in an ordered partition, the tasks behind a task that waits for a signal
// run after it.
func TestOrder(t *testing.T) {
	t.Parallel()
	for name, queue := range map[string]asynq.QueueConfig{
		"queue":     {Ordered: true},
		"partition": {Partitions: &asynq.PartitionConfig{Ordered: true}},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				ended, waits := make(chan string, 10), make(chan struct{}, 10)
				env.EnqueueMany(3, asynq.PartitionKey("k"))
				env.Enqueue("t", asynq.PartitionKey("k"))
				env.Serve(asynq.Config{
					Concurrency: 5, QueueConfigs: map[string]asynq.QueueConfig{"default": queue},
				}, func(ctx context.Context, task *asynq.Task) error {
					if task.Type() == "t0" {
						if _, err := step.WaitSignal[int](ctx, "go", time.Hour); err != nil {
							waits <- struct{}{}
							return err
						}
					}
					ended <- task.Type()
					return nil
				})
				testenv.Await(env, waits, "the first task to wait")
				env.AwaitState("t0", "retry")
				if len(ended) > 0 {
					env.T.Errorf("task %s has overtaken the first one", <-ended)
				}
				env.NoError(env.Client.Signal(env.Context(), "default", "t0", "go", 1))
				var order []string
				for range 4 {
					order = append(order, testenv.Await(env, ended, "the tasks to end"))
				}
				if want := []string{"t0", "t1", "t2", "t"}; !slices.Equal(order, want) {
					env.T.Errorf("order %q, want %q", order, want)
				}
			})
		})
	}
}
