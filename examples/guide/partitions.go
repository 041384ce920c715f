package guide

import (
	"context"
	"time"

	"github.com/asynq-go/asynq"
)

// DeliverHook enqueues the delivery of an event to a customer. All deliveries to a customer are one
// partition of the queue.
func DeliverHook(ctx context.Context, client *asynq.Client, customer string, event []byte) error {
	task := asynq.NewTask("hook:deliver", event)
	_, err := client.EnqueueContext(ctx, task, asynq.Queue("hooks"), asynq.PartitionKey(customer))
	return err
}

// NewHookServer returns a server that delivers to all customers fairly: to each at most three
// events at once, and 100 a minute.
func NewHookServer(redis asynq.RedisConnOpt) *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		Concurrency: 50,
		Queues:      map[string]int{"hooks": 1},
		QueueConfigs: map[string]asynq.QueueConfig{
			"hooks": {Partitions: &asynq.PartitionConfig{
				Concurrency: 3,
				Rate:        asynq.RateLimit{Events: 100, Per: time.Minute, Burst: 10},
			}},
		},
	})
}

// UpgradeCustomer gives a customer twice the share of the queue, and ten deliveries at once.
func UpgradeCustomer(ctx context.Context, inspector *asynq.Inspector, customer string) error {
	return inspector.SetPartition(ctx, "hooks", customer, asynq.PartitionSettings{Weight: 2, Concurrency: 10})
}

// LongestLine returns the customer with the most events that wait.
func LongestLine(ctx context.Context, inspector *asynq.Inspector) (longest *asynq.PartitionInfo, err error) {
	for partition, err := range inspector.Partitions(ctx, "hooks") {
		if err != nil {
			return nil, err
		}
		if longest == nil || partition.Held > longest.Held {
			longest = partition
		}
	}
	return longest, nil
}
