package asynq

import (
	"context"
	"errors"

	"github.com/asynq-go/asynq/internal/worker"
)

// errNilContext is what methods return that are given a nil context.
var errNilContext = errors.New("asynq: ctx must not be nil: pass context.Background() if there is no other")

// GetTaskID returns the ID of the task that a handler's context belongs to; ok is false for other contexts.
func GetTaskID(ctx context.Context) (id string, ok bool) {
	if a := attemptOf(ctx); a != nil {
		return a.Message.ID, true
	}
	return "", false
}

// GetRetryCount returns how many attempts of the task have failed before this one; ok is false for contexts that are not a handler's.
func GetRetryCount(ctx context.Context) (n int, ok bool) {
	if a := attemptOf(ctx); a != nil {
		return a.Retried, true
	}
	return 0, false
}

// GetMaxRetry returns how many failed attempts the task may have after its first; ok is false for contexts that are not a handler's.
func GetMaxRetry(ctx context.Context) (n int, ok bool) {
	if a := attemptOf(ctx); a != nil {
		return a.Message.MaxRetry, true
	}
	return 0, false
}

// GetQueueName returns the queue that the task came from; ok is false for contexts that are not a handler's.
func GetQueueName(ctx context.Context) (queue string, ok bool) {
	if a := attemptOf(ctx); a != nil {
		return a.Queue, true
	}
	return "", false
}

// attemptOf returns the attempt that a handler's context belongs to, nil for other contexts and where there is none.
func attemptOf(ctx context.Context) *worker.Attempt {
	if ctx == nil {
		return nil
	}
	return worker.FromContext(ctx)
}
