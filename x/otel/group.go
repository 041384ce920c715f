package asynqotel

import (
	"context"
	"errors"
	"runtime/debug"

	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/asynq-go/asynq"
)

// NewGroupAggregator returns an aggregator that makes a producer span for each aggregation, with
// one link to the span of each member of the group. The resulting task carries the span's context,
// so that its attempts are two links away from each member. It panics if a is nil.
func NewGroupAggregator(a asynq.GroupAggregator, opts ...Option) asynq.GroupAggregator {
	if a == nil {
		panic("asynqotel: nil GroupAggregator")
	}
	in := newInstrument(opts)
	return asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
		return in.aggregate(a, group, tasks)
	})
}

var errNoTask = errors.New("the GroupAggregator returned no task")

func (in *instrument) aggregate(a asynq.GroupAggregator, group string, tasks []*asynq.Task) *asynq.Task {
	const name = "aggregate"
	ctx, span := in.tracer.Start(context.Background(), name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithLinks(in.producers(tasks)...),
		trace.WithAttributes(system, semconv.MessagingOperationName(name), semconv.MessagingOperationTypeCreate,
			semconv.MessagingBatchMessageCount(len(tasks)), GroupKey.String(group)))
	defer func() { span.End() }() // called by defer itself: otherwise the SDK would record a panic twice
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		fail(span, &asynq.PanicError{Value: v, Stack: debug.Stack()})
		if v != nil {
			panic(v)
		}
	}()
	combined := a.Aggregate(group, tasks)
	returned = true
	if combined == nil {
		fail(span, errNoTask)
		return nil
	}
	span.SetAttributes(TaskTypeKey.String(combined.Type()))
	return in.inject(ctx, combined)
}

// producers returns links to the spans that enqueued the tasks.
func (in *instrument) producers(tasks []*asynq.Task) []trace.Link {
	type origin struct {
		trace trace.TraceID
		span  trace.SpanID
	}
	seen := make(map[origin]bool)
	var links []trace.Link
	for _, task := range tasks {
		_, producer := in.extract(context.Background(), task)
		if from := (origin{producer.TraceID(), producer.SpanID()}); producer.IsValid() && !seen[from] {
			seen[from] = true
			links = append(links, trace.Link{SpanContext: producer})
		}
	}
	return links
}
