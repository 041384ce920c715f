package node

import (
	"context"

	"github.com/hibiken/asynq"
)

func theirsRedis(c *conn) asynq.RedisConnOpt { return c }

func theirsConfig(*asynq.Config, *Worker) {} // leases are always 30 s

func theirsOptions(*task) []asynq.Option { return nil } // it has no partitions

func theirsLost(ctx context.Context) bool { return false } // not reported

func (c theirsClient) enqueue(ctx context.Context, tasks []*task) []error {
	errs := make([]error, len(tasks))
	for i, t := range tasks { // batches are not supported
		_, errs[i] = c.EnqueueContext(ctx, theirsTask(t))
	}
	return errs
}
