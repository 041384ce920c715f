package asynqotel

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

// Attributes that the semantic conventions do not define.
const (
	// TaskTypeKey is the type of the task.
	TaskTypeKey = attribute.Key("asynq.task.type")
	// TaskStateKey is the state of the task after the enqueue.
	TaskStateKey = attribute.Key("asynq.task.state")
	// TaskRetryCountKey is the number of failed attempts before this one.
	TaskRetryCountKey = attribute.Key("asynq.task.retry_count")
	// TaskMaxRetryKey is the maximum number of retries of the task.
	TaskMaxRetryKey = attribute.Key("asynq.task.max_retry")
	// TaskOutcomeKey is the outcome of the attempt: one of the Outcome values.
	TaskOutcomeKey = attribute.Key("asynq.task.outcome")
	// GroupKey is the name of the aggregated group.
	GroupKey = attribute.Key("asynq.group")
	// FlowIDKey is the ID of the flow.
	FlowIDKey = attribute.Key("asynq.flow.id")
	// FlowNodeKey is the name of the node of the flow.
	FlowNodeKey = attribute.Key("asynq.flow.node")
	// BatchRefusedKey is the number of tasks of a batch that were not enqueued.
	BatchRefusedKey = attribute.Key("asynq.batch.refused")
)

// Outcomes of an attempt, according to its handler's result. Config.IsFailure or the Inspector may
// still change the outcome.
const (
	OutcomeSuccess     = "success"     // the handler returned nil
	OutcomeRetry       = "retry"       // it failed and will be retried
	OutcomeArchived    = "archived"    // it failed without retries left, or returned SkipRetry
	OutcomeRevoked     = "revoked"     // it returned RevokeTask
	OutcomeSnoozed     = "snoozed"     // it returned Snooze, for example because of a rate limit
	OutcomeInterrupted = "interrupted" // the server stopped or lost the lease: the attempt does not count
)

var system = semconv.MessagingSystemKey.String("asynq")

// queueOf returns the queue in which a task will be enqueued: that of the last Queue option.
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

// errorType returns a value for the attribute error.type with low cardinality.
func errorType(err error) attribute.KeyValue {
	name := ""
	switch {
	case errors.Is(err, asynq.ErrDuplicateTask):
		name = "duplicate_task"
	case errors.Is(err, asynq.ErrTaskIDConflict):
		name = "task_id_conflict"
	case errors.Is(err, flow.ErrExists):
		name = "flow_exists"
	case errors.Is(err, flow.ErrClosed):
		name = "flow_closed"
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
