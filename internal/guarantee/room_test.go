package guarantee_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// The receivers of the following two tests do not poll, so that only a wake marker unblocks them.

func TestSettlementWakesReceiverAtCapacity(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		for name, limit := range map[string]asynq.QueueConfig{"one": {Concurrency: 1}, "two": {Concurrency: 2}, "in-order": {Ordered: true}} {
			cfg := asynq.ReceiverConfig{QueueConfigs: map[string]asynq.QueueConfig{name: limit}, Queues: map[string]int{name: 1}, TaskCheckInterval: time.Hour}
			here := env.Receiver(cfg)
			rejected := make(chan struct{}, 100)
			cfg.Observer = &asynq.Observer{RoundTripEnded: func(trip asynq.RoundTripStats) {
				if trip.Requested > 0 && trip.Fetched == 0 {
					rejected <- struct{}{}
				}
			}}
			there := env.Receiver(cfg)
			held := max(limit.Concurrency, 1)
			for i := range held + 3 {
				env.Enqueue(name+strconv.Itoa(i), asynq.Queue(name))
			}
			var leases []*asynq.Lease
			for len(leases) < held {
				leases = append(leases, receive(env, here, held-len(leases))...)
			}
			next := startReceive(env.Context(), there, 1)
			testenv.Await(env, rejected, "the round trip that fetches nothing")
			env.NoError(leases[0].Complete(env.Context(), nil))
			last := testenv.Await(env, next, "the task that now fits the limit")
			next = startReceive(env.Context(), there, 1)
			testenv.Await(env, rejected, "another round trip that fetches nothing")
			env.NoError(last[0].Release(env.Context()))
			wantIDs(env, testenv.Await(env, next, "the released task"), last[0].ID())
		}
	})
}

func TestRetryWakesInOrderReceiver(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		cfg := asynq.ReceiverConfig{
			QueueConfigs: map[string]asynq.QueueConfig{"default": {Ordered: true}}, TaskCheckInterval: time.Hour,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Millisecond },
		}
		here, there := env.Receiver(cfg), env.Receiver(cfg)
		env.Enqueue("first", asynq.MaxRetry(1))
		env.Enqueue("second")
		l := receive(env, here, 1)[0]
		next := startReceive(env.Context(), there, 1)
		env.NoError(l.Fail(env.Context(), errors.New("failed")))
		again := testenv.Await(env, next, "the retried task")
		wantIDs(env, again, "first")
		next = startReceive(env.Context(), here, 1)
		env.NoError(again[0].Fail(env.Context(), errors.New("failed again")))
		wantIDs(env, testenv.Await(env, next, "the task behind the archived one"), "second")
	})
}
