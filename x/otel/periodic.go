package asynqotel

import (
	"context"

	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/asynq-go/asynq"
)

// createName is the operation that creates a task without a call of Enqueue.
const createName = "create"

// EnqueueHeaders returns a function for asynq.SchedulerOpts.EnqueueHeaders. It makes a producer
// span for each tick of a periodic task, which starts a trace, and adds its context to the task.
// The span ends before the task is sent, and does not show whether that succeeded.
func EnqueueHeaders(opts ...Option) func(*asynq.Task, []asynq.Option) map[string]string {
	in := newInstrument(opts)
	return func(task *asynq.Task, opts []asynq.Option) map[string]string {
		queue := queueOf(task, opts)
		ctx, span := in.tracer.Start(context.Background(), createName+" "+queue, trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(system, semconv.MessagingOperationName(createName), semconv.MessagingOperationTypeCreate,
				semconv.MessagingDestinationName(queue), TaskTypeKey.String(task.Type())))
		defer span.End()
		headers := make(map[string]string, len(in.fields))
		own := task.Headers()
		for _, field := range in.fields {
			if _, ok := own[field]; ok {
				headers[field] = "" // left by another trace: the entry may have been created from a task that a handler received
			}
		}
		in.propagator.Inject(ctx, carrier{in.prefix, headers})
		return headers
	}
}
