// Package asynqotel traces and measures tasks of github.com/asynq-go/asynq with OpenTelemetry.
//
// NewClient makes a producer span for each call that enqueues, and sends the trace context and the baggage along in the headers of the
// task. NewMiddleware makes a consumer span for each attempt, with a link to the span that the task came from. NewGroupAggregator and
// EnqueueHeaders do the same where no caller enqueues: for tasks that stand for a group, and for periodic tasks. Names and attributes
// are those of OpenTelemetry's semantic conventions for messaging, as far as there are any.
package asynqotel
