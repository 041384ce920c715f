package node

import (
	"context"

	"github.com/hibiken/asynq"
)

func theirsRedis(c *conn) asynq.RedisConnOpt { return c }

func theirsConfig(*asynq.Config, *Worker) {} // it has one lease, of 30 s

func theirsLost(ctx context.Context) bool { return false } // it does not tell

func (c theirsClient) enqueue(ctx context.Context, tasks []*task) []error {
	errs := make([]error, len(tasks))
	for i, t := range tasks { // it has no batches
		_, errs[i] = c.EnqueueContext(ctx, theirsTask(t))
	}
	return errs
}
