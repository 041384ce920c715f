package asynq

import (
	"context"

	"github.com/asynq-go/asynq/internal/worker"
)

// GetTaskID returns the ID of the task that is being processed. It reports false if ctx is not
// derived from the context of a handler or a lease.
func GetTaskID(ctx context.Context) (id string, ok bool) {
	return ofAttempt(ctx, func(a *worker.Attempt) string { return a.Message.ID })
}

// GetRetryCount returns the number of failed attempts before the current one. It reports false if
// ctx is not derived from the context of a handler or a lease.
func GetRetryCount(ctx context.Context) (n int, ok bool) {
	return ofAttempt(ctx, func(a *worker.Attempt) int { return a.Retried })
}

// GetMaxRetry returns the maximum number of retries of the task. It reports false if ctx is not
// derived from the context of a handler or a lease.
func GetMaxRetry(ctx context.Context) (n int, ok bool) {
	return ofAttempt(ctx, func(a *worker.Attempt) int { return a.Message.MaxRetry })
}

// GetQueueName returns the name of the task's queue. It reports false if ctx is not derived from
// the context of a handler or a lease.
func GetQueueName(ctx context.Context) (queue string, ok bool) {
	return ofAttempt(ctx, func(a *worker.Attempt) string { return a.Queue })
}

// ofAttempt returns a property of the attempt that ctx, which may be nil, belongs to.
func ofAttempt[T any](ctx context.Context, property func(*worker.Attempt) T) (v T, ok bool) {
	if ctx == nil {
		return v, false
	}
	a := worker.FromContext(ctx)
	if a == nil {
		return v, false
	}
	return property(a), true
}
