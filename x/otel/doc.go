// Package asynqotel traces and measures tasks of github.com/asynq-go/asynq with OpenTelemetry.
//
// NewClient makes a producer span for each call that enqueues, and adds the trace context and the
// baggage to the headers of the task. NewMiddleware makes a consumer span for each attempt, with a
// link to the span that enqueued the task. NewGroupAggregator and EnqueueHeaders do the same for
// tasks without a calling producer: those that replace a group, and periodic tasks.
// Client.StartFlow makes one trace of a flow.
//
// Names and attributes follow OpenTelemetry's semantic conventions for messaging where these define
// them.
package asynqotel
