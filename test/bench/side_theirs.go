package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	reference "github.com/hibiken/asynq"
)

// theirs is the reference.
type theirs struct{}

func (theirs) connect(addr string, cluster bool) redis.UniversalClient {
	if cluster {
		return reference.RedisClusterClientOpt{Addrs: []string{addr}}.MakeRedisClient().(redis.UniversalClient)
	}
	return reference.RedisClientOpt{Addr: addr}.MakeRedisClient().(redis.UniversalClient)
}

func (theirs) producer(conn redis.UniversalClient) producer {
	return theirsProducer{reference.NewClientFromRedisClient(conn)}
}

func (theirs) serve(conn redis.UniversalClient, cfg serverConfig) error {
	config := reference.Config{
		Concurrency:              cfg.concurrency,
		Queues:                   cfg.queues,
		DelayedTaskCheckInterval: cfg.delayedCheck,
		GroupGracePeriod:         cfg.groupGrace,
		LogLevel:                 reference.ErrorLevel,
	}
	if cfg.retryDelay != nil {
		config.RetryDelayFunc = func(int, error, *reference.Task) time.Duration { return *cfg.retryDelay }
	}
	if cfg.aggregate != nil {
		config.GroupAggregator = reference.GroupAggregatorFunc(func(_ string, tasks []*reference.Task) *reference.Task {
			return reference.NewTask(taskType, cfg.aggregate(len(tasks)))
		})
	}
	return reference.NewServerFromRedisClient(conn, config).Start(reference.HandlerFunc(func(ctx context.Context, t *reference.Task) error {
		if cfg.failFirst {
			if n, _ := reference.GetRetryCount(ctx); n == 0 {
				return errFirst
			}
		}
		return cfg.handle(attempt{payload: t.Payload(), result: t.ResultWriter()})
	}))
}

type theirsProducer struct{ client *reference.Client }

func (p theirsProducer) enqueue(ctx context.Context, j *job) error {
	task, opts := p.task(j)
	_, err := p.client.EnqueueContext(ctx, task, opts...)
	return err
}

// batch is a loop, because the library has no batches.
func (p theirsProducer) batch(ctx context.Context, jobs []*job) error {
	for _, j := range jobs {
		if err := p.enqueue(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// task returns the task of a job.
func (theirsProducer) task(j *job) (*reference.Task, []reference.Option) {
	var opts []reference.Option
	if j.queue != "" {
		opts = append(opts, reference.Queue(j.queue))
	}
	if j.group != "" {
		opts = append(opts, reference.Group(j.group))
	}
	if j.delay > 0 {
		opts = append(opts, reference.ProcessIn(j.delay))
	}
	if j.unique > 0 {
		opts = append(opts, reference.Unique(j.unique))
	}
	if j.retention > 0 {
		opts = append(opts, reference.Retention(j.retention))
	}
	return reference.NewTask(taskType, j.payload), opts
}
