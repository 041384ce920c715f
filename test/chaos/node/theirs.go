package node

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

type theirs struct{}

type theirsClient struct{ *asynq.Client }

func (theirs) client(c *conn) client { return theirsClient{asynq.NewClient(theirsRedis(c))} }

func (c theirsClient) refused(err error) bool {
	return errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, asynq.ErrDuplicateTask)
}

func (theirs) serve(c *conn, w *Worker, r reporter) error {
	cfg := asynq.Config{
		Concurrency:              w.Concurrency,
		Queues:                   w.Queues,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return retryDelay },
		TaskCheckInterval:        checkInterval,
		DelayedTaskCheckInterval: checkInterval,
		GroupGracePeriod:         groupGrace,
		GroupMaxDelay:            groupMaxDelay,
		GroupMaxSize:             groupMaxSize,
		ShutdownTimeout:          shutdownTimeout,
		HealthCheckInterval:      healthInterval,
		LogLevel:                 asynq.WarnLevel,
		GroupAggregator: asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			payloads := make([][]byte, len(tasks))
			for i, t := range tasks {
				payloads[i] = t.Payload()
			}
			return asynq.NewTask(typename, r.aggregate(payloads), asynq.Retention(memberRetention))
		}),
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, t *asynq.Task, err error) {
			r.failed(theirsAttempt(ctx, t), err)
		}),
	}
	theirsConfig(&cfg, w)
	return asynq.NewServer(theirsRedis(c), cfg).Run(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		a := theirsAttempt(ctx, t)
		a.result = func(data []byte) error {
			_, err := t.ResultWriter().Write(data)
			return err
		}
		return r.handle(ctx, a)
	}))
}

func theirsAttempt(ctx context.Context, t *asynq.Task) *attempt {
	a := &attempt{payload: t.Payload(), lost: func() bool { return theirsLost(ctx) }}
	a.id, _ = asynq.GetTaskID(ctx)
	a.queue, _ = asynq.GetQueueName(ctx)
	a.retried, _ = asynq.GetRetryCount(ctx)
	a.maxRetry, _ = asynq.GetMaxRetry(ctx)
	return a
}

func theirsTask(t *task) *asynq.Task {
	opts := []asynq.Option{asynq.TaskID(t.id), asynq.Queue(t.queue), asynq.MaxRetry(max(t.maxRetry, 0))}
	if t.timeout > 0 {
		opts = append(opts, asynq.Timeout(t.timeout))
	}
	if t.retention > 0 {
		opts = append(opts, asynq.Retention(t.retention))
	}
	if t.unique > 0 {
		opts = append(opts, asynq.Unique(t.unique))
	}
	if t.delay > 0 {
		opts = append(opts, asynq.ProcessIn(t.delay))
	}
	if t.group != "" {
		opts = append(opts, asynq.Group(t.group))
	}
	opts = append(opts, theirsOptions(t)...)
	return asynq.NewTask(typename, t.payload, opts...)
}
