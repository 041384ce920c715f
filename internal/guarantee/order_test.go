package guarantee_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

func TestInOrderQueueOnServers(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var starts testenv.Tally
		env.EnqueueMany(6, asynq.MaxRetry(2))
		env.FetchAndCrash(1)
		cfg := asynq.Config{
			Concurrency: 5, QueueConfigs: map[string]asynq.QueueConfig{"default": {Ordered: true}}, LeaseDuration: time.Second,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Millisecond },
		}
		fails := map[string]int{"t1": 1, "t3": 9}
		for range 3 {
			env.Serve(cfg, func(ctx context.Context, task *asynq.Task) error {
				starts.Add(task.Type())
				if n, _ := asynq.GetRetryCount(ctx); n < fails[task.Type()] {
					return errors.New("failed")
				}
				return nil
			})
		}
		env.AwaitState("t3", "archived")
		env.Eventually(func() bool { return env.State("t5") == "" }, "the last task to finish")
		want := []string{"t0", "t1", "t1", "t2", "t3", "t3", "t3", "t4", "t5"}
		if got := starts.Order(); !slices.Equal(got, want) {
			env.T.Errorf("started %q, want %q", got, want)
		}
	})
}

func TestInOrderQueueOnReceivers(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		inOrder := map[string]asynq.QueueConfig{"default": {Ordered: true}}
		soon := func(int, error, *asynq.Task) time.Duration { return time.Millisecond }
		receiver := env.Receiver(asynq.ReceiverConfig{QueueConfigs: inOrder, RetryDelayFunc: soon})
		env.EnqueueMany(3)
		for _, want := range []string{"t0", "t0", "t1"} {
			leases := receive(env, receiver, 3)
			wantIDs(env, leases, want)
			if l := leases[0]; l.Info().Retried == 0 && want == "t0" {
				env.NoError(l.Fail(env.Context(), errors.New("failed")))
			} else {
				env.NoError(l.Complete(env.Context(), nil))
			}
		}

		// SetQueues keeps the order.
		changed := env.Receiver(asynq.ReceiverConfig{RetryDelayFunc: soon})
		env.NoError(changed.SetQueues(map[string]int{"default": 1}, inOrder))
		env.Enqueue("t3")
		for _, want := range []string{"t2", "t2"} {
			l := receive(env, changed, 3)[0]
			wantIDs(env, []*asynq.Lease{l}, want)
			env.NoError(l.Fail(env.Context(), errors.New("failed")))
		}
	})
}
