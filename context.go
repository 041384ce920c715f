package asynq

import (
	"context"

	"github.com/asynq-go/asynq/internal/worker"
)

// GetTaskID returns the ID of the task that a handler's context belongs to; ok is false for other contexts.
func GetTaskID(ctx context.Context) (id string, ok bool) {
	if a := worker.FromContext(ctx); a != nil {
		return a.Message.ID, true
	}
	return "", false
}

// GetRetryCount returns how many attempts of the task have failed before this one; ok is false for contexts that are not a handler's.
func GetRetryCount(ctx context.Context) (n int, ok bool) {
	if a := worker.FromContext(ctx); a != nil {
		return a.Retried, true
	}
	return 0, false
}

// GetMaxRetry returns how many failed attempts the task may have after its first; ok is false for contexts that are not a handler's.
func GetMaxRetry(ctx context.Context) (n int, ok bool) {
	if a := worker.FromContext(ctx); a != nil {
		return a.Message.MaxRetry, true
	}
	return 0, false
}

// GetQueueName returns the queue that the task came from; ok is false for contexts that are not a handler's.
func GetQueueName(ctx context.Context) (queue string, ok bool) {
	if a := worker.FromContext(ctx); a != nil {
		return a.Queue, true
	}
	return "", false
}
