package asynqotel

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/asynq-go/asynq"
)

// What the semantic conventions have no names for.
const (
	// TaskTypeKey is the type of the task.
	TaskTypeKey = attribute.Key("asynq.task.type")
	// TaskStateKey is the state of the task after it was enqueued.
	TaskStateKey = attribute.Key("asynq.task.state")
	// TaskRetryCountKey is how many attempts have failed before this one.
	TaskRetryCountKey = attribute.Key("asynq.task.retry_count")
	// TaskMaxRetryKey is how many failed attempts the task may have after its first.
	TaskMaxRetryKey = attribute.Key("asynq.task.max_retry")
	// TaskOutcomeKey is what the attempt comes to: one of the Outcome values.
	TaskOutcomeKey = attribute.Key("asynq.task.outcome")
	// GroupKey is the name of the group that is aggregated.
	GroupKey = attribute.Key("asynq.group")
	// BatchRefusedKey is how many tasks of a batch were not enqueued.
	BatchRefusedKey = attribute.Key("asynq.batch.refused")
)

// Outcomes of an attempt, as far as its handler can tell: what Config.IsFailure and the Inspector make of it comes later.
const (
	OutcomeSuccess     = "success"     // the handler returned nil
	OutcomeRetry       = "retry"       // it failed, and has attempts left
	OutcomeArchived    = "archived"    // it failed, and has none left; or SkipRetry
	OutcomeRevoked     = "revoked"     // RevokeTask
	OutcomeSnoozed     = "snoozed"     // Snooze; a rate limit, for example
	OutcomeInterrupted = "interrupted" // its server stopped, or lost it: the attempt does not count
)

var system = semconv.MessagingSystemKey.String("asynq")

// queueOf returns the queue that a task is about to go to: of several options the last one holds.
func queueOf(task *asynq.Task, opts []asynq.Option) string {
	queue := "default"
	look := func(opts []asynq.Option) {
		for _, opt := range opts {
			if opt == nil || opt.Type() != asynq.QueueOpt {
				continue
			}
			if name, ok := opt.Value().(string); ok {
				queue = name
			}
		}
	}
	look(task.Options())
	look(opts)
	return queue
}

// errorType names an error for the attribute error.type, with few different values.
func errorType(err error) attribute.KeyValue {
	name := ""
	switch {
	case errors.Is(err, asynq.ErrDuplicateTask):
		name = "duplicate_task"
	case errors.Is(err, asynq.ErrTaskIDConflict):
		name = "task_id_conflict"
	case errors.Is(err, asynq.ErrRedisFull):
		name = "redis_full"
	case errors.Is(err, asynq.ErrHandlerNotFound):
		name = "handler_not_found"
	case asynq.IsPanicError(err):
		name = "panic"
	default:
		return semconv.ErrorType(err)
	}
	return semconv.ErrorTypeKey.String(name)
}
