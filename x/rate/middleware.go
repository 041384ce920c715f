package rate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/asynq-go/asynq"
)

// ErrLimited is what a middleware of this package returns, wrapped, for a task that has to wait. The same error wraps asynq.Snooze, so
// the attempt counts neither as processed nor as failed. An ErrorHandler does not hear of it.
var ErrLimited = errors.New("rate: limited")

// KeyFunc says which bucket a task takes its token from. The empty key is for tasks that are not limited.
type KeyFunc func(ctx context.Context, task *asynq.Task) string

// ByType limits the tasks of each type for themselves.
func ByType(_ context.Context, task *asynq.Task) string { return task.Type() }

// ByQueue limits the tasks of each queue for themselves.
func ByQueue(ctx context.Context, _ *asynq.Task) string {
	queue, _ := asynq.GetQueueName(ctx)
	return queue
}

// MiddlewareOption changes how a middleware puts tasks off.
type MiddlewareOption func(*delays)

// WithJitter adds a random part to each delay: up to fraction of it. Default: 0.1. Below zero counts as zero.
func WithJitter(fraction float64) MiddlewareOption {
	return func(d *delays) { d.jitter = min(max(fraction, 0), 10) }
}

// WithRedisDelay sets how long a task is put off, without a used attempt, when Redis does not answer the middleware. Default: 5 s.
func WithRedisDelay(delay time.Duration) MiddlewareOption {
	return func(d *delays) { d.redis = delay }
}

// delays says how long tasks are put off.
type delays struct {
	jitter float64
	redis  time.Duration
}

func newDelays(opts []MiddlewareOption) delays {
	d := delays{jitter: 0.1, redis: 5 * time.Second}
	for _, opt := range opts {
		opt(&d)
	}
	return d
}

// limited puts a task off that has to wait.
func (d delays) limited(what string, wait time.Duration) error {
	return fmt.Errorf("%w by %s: %w", ErrLimited, what, asynq.Snooze(d.spread(wait)))
}

// unanswered puts a task off of which is not known whether it has to wait: to run it would be to have no limit.
func (d delays) unanswered(err error) error {
	return fmt.Errorf("%w: %w", err, asynq.Snooze(d.spread(d.redis)))
}

// spread adds the jitter. It has no part in what the limit allows.
func (d delays) spread(wait time.Duration) time.Duration {
	return wait + time.Duration(rand.Float64()*d.jitter*float64(wait)) //nolint:gosec // No secret depends on it.
}

// Middleware lets a task run if there is a token for it, and else puts it off until there is one, without a used attempt. The delay is
// exact: of many tasks that wait, each is told the time of its own token, as far as that is within an hour, and then whole seconds
// and a jitter are added to it. Tokens are not reserved: if others come first, the task is put off once more.
//
// The token is taken for each attempt, however it ends. If Redis does not answer, the task is put off as well.
func (l *Limiter) Middleware(key KeyFunc, opts ...MiddlewareOption) asynq.MiddlewareFunc {
	if key == nil {
		panic("rate: nil KeyFunc: use ByType, ByQueue or a function of your own")
	}
	d := newDelays(opts)
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			k := key(ctx, task)
			if k == "" {
				return next.ProcessTask(ctx, task)
			}
			result, turn, err := l.take(ctx, k, 1, true)
			if err != nil {
				return d.unanswered(err)
			}
			if !result.Allowed {
				return d.limited(fmt.Sprintf("%q, key %q", l.scope, k), turn)
			}
			return next.ProcessTask(ctx, task)
		})
	}
}

// Middleware lets a task run while it holds a token, and puts it off for retry, without a used attempt, if there is none. A
// task whose context has no deadline fails with ErrNoHandler.
func (s *Semaphore) Middleware(retry time.Duration, opts ...MiddlewareOption) asynq.MiddlewareFunc {
	d := newDelays(opts)
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			ok, err := s.Acquire(ctx)
			switch {
			case errors.Is(err, ErrNoHandler), err != nil && ctx.Err() != nil:
				return err
			case err != nil:
				return d.unanswered(err)
			case !ok:
				return d.limited(s.key, retry)
			}
			defer func() {
				if err := s.Release(ctx); err != nil {
					slog.WarnContext(ctx, "a token was not released, and is free when the task's deadline is over", "error", err)
				}
			}()
			return next.ProcessTask(ctx, task)
		})
	}
}
