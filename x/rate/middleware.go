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

// ErrLimited is the error of a task that the middlewares of this package snooze. It is wrapped in
// an error that also wraps asynq.Snooze: the attempt counts neither as processed nor as failed, and
// ErrorHandler is not called.
var ErrLimited = errors.New("rate: limited")

// KeyFunc returns the key of the bucket for a task. Tasks with an empty key are not limited.
type KeyFunc func(ctx context.Context, task *asynq.Task) string

// ByType uses one bucket per task type.
func ByType(_ context.Context, task *asynq.Task) string { return task.Type() }

// ByQueue uses one bucket per queue.
func ByQueue(ctx context.Context, _ *asynq.Task) string {
	queue, _ := asynq.GetQueueName(ctx)
	return queue
}

// MiddlewareOption configures a middleware.
type MiddlewareOption func(*delays)

// WithJitter adds a random part to each delay, up to the given fraction of it. The default is 0.1.
// Negative values count as zero.
func WithJitter(fraction float64) MiddlewareOption {
	return func(d *delays) { d.jitter = min(max(fraction, 0), 10) }
}

// WithRedisDelay sets the delay of a task if Redis does not reply to the middleware. The attempt
// does not count. The default is 5 s.
func WithRedisDelay(delay time.Duration) MiddlewareOption {
	return func(d *delays) { d.redis = delay }
}

// delays computes the delays of snoozed tasks.
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

// limited returns the error that snoozes a limited task.
func (d delays) limited(what string, wait time.Duration) error {
	return fmt.Errorf("%w by %s: %w", ErrLimited, what, asynq.Snooze(d.spread(wait)))
}

// unanswered returns the error that snoozes a task if Redis did not reply: running it could exceed
// the limit.
func (d delays) unanswered(err error) error {
	return fmt.Errorf("%w: %w", err, asynq.Snooze(d.spread(d.redis)))
}

// spread adds the jitter. It is not part of the limit.
func (d delays) spread(wait time.Duration) time.Duration {
	return wait + time.Duration(rand.Float64()*d.jitter*float64(wait)) //nolint:gosec // No secret depends on it.
}

// Middleware returns a middleware that takes a token for each task. If there is none, it snoozes
// the task until one is available, without using an attempt. The delay is exact: waiting tasks form
// a line, and each gets the time of its own token, up to an hour ahead, plus the jitter, rounded up
// to whole seconds. Tokens are not reserved: if other tasks take them first, the task is snoozed
// again.
//
// Each attempt takes a token, regardless of its outcome. If Redis does not reply, the task is
// snoozed, too.
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

// Middleware returns a middleware that runs a task while it holds a token. If there is none, it
// snoozes the task for retry, without using an attempt. A task whose context has no deadline fails
// with ErrNoHandler.
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
					slog.WarnContext(ctx, "token not released, it expires with the task's deadline", "error", err)
				}
			}()
			return next.ProcessTask(ctx, task)
		})
	}
}
