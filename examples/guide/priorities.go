package guide

import (
	"github.com/asynq-go/asynq"
)

// NewWeightedServer returns a server with three queues. While all of them have tasks, it runs six
// critical tasks for every three default ones and a low one.
func NewWeightedServer(redis asynq.RedisConnOpt) *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		Concurrency: 50,
		Queues:      map[string]int{"critical": 6, "default": 3, "low": 1},
	})
}

// NewLimitedServer returns a server with two limited queues. Each limit holds for all servers
// together, provided that all set it.
func NewLimitedServer(redis asynq.RedisConnOpt) *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		Concurrency: 50,
		Queues:      map[string]int{"default": 2, "reports": 1, "ledger": 1},
		QueueConfigs: map[string]asynq.QueueConfig{
			"reports": {Concurrency: 3}, // The database can run three reports at a time.
			"ledger":  {Ordered: true},  // Entries are booked one by one, in their order.
		},
	})
}
