package node

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// oursRedis returns the connection option that users of the library would write.
func oursRedis(c *conn) asynq.RedisConnOpt {
	switch c.Kind {
	case Cluster:
		return asynq.RedisClusterClientOpt{Addrs: c.Addrs}.Configure(func(o *redis.ClusterOptions) { o.Dialer = c.dial })
	case Sentinel:
		sentinels := asynq.RedisFailoverClientOpt{MasterName: c.Master, SentinelAddrs: c.Addrs}
		return sentinels.Configure(func(o *redis.FailoverOptions) { o.Dialer = c.dial })
	default:
		return asynq.RedisClientOpt{Addr: c.Addrs[0]}.Configure(func(o *redis.Options) { o.Dialer = c.dial })
	}
}

func oursConfig(cfg *asynq.Config, w *Worker) {
	cfg.LeaseDuration = w.Lease
	cfg.QueueConfigs = make(map[string]asynq.QueueConfig)
	for queue := range w.Queues {
		if l := limitsOf(queue); l != nil {
			p := &asynq.PartitionConfig{Concurrency: l.Concurrency, Ordered: l.Ordered}
			if l.Interval > 0 {
				p.Rate = asynq.RateLimit{Events: 1, Per: l.Interval, Burst: l.Burst}
			}
			cfg.QueueConfigs[queue] = asynq.QueueConfig{Partitions: p}
		}
	}
}

func oursOptions(t *task) []asynq.Option {
	if t.partition == "" {
		return nil
	}
	return []asynq.Option{asynq.PartitionKey(t.partition)}
}

func oursLost(ctx context.Context) bool { return errors.Is(context.Cause(ctx), asynq.ErrLeaseExpired) }

func (c oursClient) enqueue(ctx context.Context, tasks []*task) []error {
	if len(tasks) == 1 {
		_, err := c.EnqueueContext(ctx, oursTask(tasks[0]))
		return []error{err}
	}
	batch := make([]*asynq.Task, len(tasks))
	for i, t := range tasks {
		batch[i] = oursTask(t)
	}
	errs := make([]error, len(tasks))
	for i, r := range c.BatchEnqueueContext(ctx, batch) {
		errs[i] = r.Err
	}
	return errs
}
