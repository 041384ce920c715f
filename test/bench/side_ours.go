package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// ours is this library.
type ours struct{ attemptLog int }

func (ours) connect(addr string, cluster bool) redis.UniversalClient {
	if cluster {
		return asynq.RedisClusterClientOpt{Addrs: []string{addr}}.MakeRedisClient().(redis.UniversalClient)
	}
	return asynq.RedisClientOpt{Addr: addr}.MakeRedisClient().(redis.UniversalClient)
}

func (ours) producer(conn redis.UniversalClient) producer {
	return oursProducer{asynq.NewClientFromRedisClient(conn)}
}

func (s ours) serve(conn redis.UniversalClient, cfg serverConfig) error {
	config := asynq.Config{
		Concurrency:              cfg.concurrency,
		Queues:                   cfg.queues,
		DelayedTaskCheckInterval: cfg.delayedCheck,
		GroupGracePeriod:         cfg.groupGrace,
		LogLevel:                 asynq.ErrorLevel,
		AttemptLog:               s.attemptLog,
	}
	if cfg.queueLimit > 0 || cfg.partitions != nil {
		queue := asynq.QueueConfig{Concurrency: cfg.queueLimit}
		if p := cfg.partitions; p != nil {
			queue.Partitions = &asynq.PartitionConfig{Concurrency: p.concurrency}
			if p.rate > 0 {
				queue.Partitions.Rate = asynq.RateLimit{Events: p.rate, Per: time.Second, Burst: p.rate}
			}
		}
		config.QueueConfigs = map[string]asynq.QueueConfig{defaultQueue: queue}
	}
	if cfg.retryDelay != nil {
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return *cfg.retryDelay }
	}
	if cfg.aggregate != nil {
		config.GroupAggregator = asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask(taskType, cfg.aggregate(len(tasks)))
		})
	}
	server := asynq.NewServerFromRedisClient
	if cfg.cluster != "" {
		server = func(_ redis.UniversalClient, config asynq.Config) *asynq.Server {
			return asynq.NewServer(asynq.RedisClusterClientOpt{Addrs: []string{cfg.cluster}}, config)
		}
	}
	return server(conn, config).Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		if cfg.failFirst {
			if n, _ := asynq.GetRetryCount(ctx); n == 0 {
				return errFirst
			}
		}
		return cfg.handle(attempt{payload: t.Payload(), result: t.ResultWriter()})
	}))
}

type oursProducer struct{ client *asynq.Client }

func (p oursProducer) enqueue(ctx context.Context, j *job) error {
	task, opts := p.task(j)
	_, err := p.client.EnqueueContext(ctx, task, opts...)
	return err
}

func (p oursProducer) batch(ctx context.Context, jobs []*job) error {
	tasks := make([]*asynq.Task, len(jobs))
	for i, j := range jobs {
		task, opts := p.task(j)
		if len(opts) > 0 {
			task = asynq.NewTask(task.Type(), task.Payload(), opts...)
		}
		tasks[i] = task
	}
	for _, r := range p.client.BatchEnqueueContext(ctx, tasks) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// task returns the task of a job.
func (oursProducer) task(j *job) (*asynq.Task, []asynq.Option) {
	var opts []asynq.Option
	if j.queue != "" {
		opts = append(opts, asynq.Queue(j.queue))
	}
	if j.group != "" {
		opts = append(opts, asynq.Group(j.group))
	}
	if j.key != "" {
		opts = append(opts, asynq.PartitionKey(j.key))
	}
	if j.delay > 0 {
		opts = append(opts, asynq.ProcessIn(j.delay))
	}
	if j.unique > 0 {
		opts = append(opts, asynq.Unique(j.unique))
	}
	if j.retention > 0 {
		opts = append(opts, asynq.Retention(j.retention))
	}
	return asynq.NewTask(taskType, j.payload), opts
}
