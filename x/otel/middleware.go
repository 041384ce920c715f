package asynqotel

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

// NewMiddleware returns a middleware that makes a consumer span for each attempt, linked to the
// span that enqueued the task. For a task of a flow it is a child of that span, so that a flow is
// one trace; see Client.StartFlow. The handler's context has the span and the baggage of the task.
// It should be the outermost middleware, so that it includes the others.
//
// An error is recorded in the span, except those of Snooze and RevokeTask, which are intended. A
// panic is recorded and continues.
func NewMiddleware(opts ...Option) asynq.MiddlewareFunc {
	in := newInstrument(opts)
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			return in.process(ctx, task, next)
		})
	}
}

// attempt is an active attempt.
type attempt struct {
	in    *instrument
	ctx   context.Context //nolint:containedctx // For as long as one call lasts.
	span  trace.Span
	task  *asynq.Task
	queue string
	begin time.Time
}

func (in *instrument) process(ctx context.Context, task *asynq.Task, next asynq.Handler) error {
	a := in.start(ctx, task)
	defer func() { a.span.End() }() // called by defer itself: otherwise the SDK would record a panic twice
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover() // nil: the handler called runtime.Goexit, which continues without a panic
		a.end(&asynq.PanicError{Value: v, Stack: debug.Stack()})
		if v != nil {
			panic(v)
		}
	}()
	err := next.ProcessTask(a.ctx, task)
	returned = true
	a.end(err)
	return err
}

func (in *instrument) start(ctx context.Context, task *asynq.Task) *attempt {
	a := &attempt{in: in, task: task, begin: time.Now()}
	a.queue, _ = asynq.GetQueueName(ctx)
	attributes := make([]attribute.KeyValue, 0, 12)
	attributes = append(attributes, system, semconv.MessagingOperationName(processName), semconv.MessagingOperationTypeProcess,
		TaskTypeKey.String(task.Type()), semconv.MessagingMessageBodySize(len(task.Payload())))
	name := processName
	if a.queue != "" {
		name += " " + a.queue
		attributes = append(attributes, semconv.MessagingDestinationName(a.queue))
	}
	if id, ok := asynq.GetTaskID(ctx); ok {
		attributes = append(attributes, semconv.MessagingMessageID(id))
	}
	if n, ok := asynq.GetRetryCount(ctx); ok {
		attributes = append(attributes, TaskRetryCountKey.Int(n))
	}
	if n, ok := asynq.GetMaxRetry(ctx); ok {
		attributes = append(attributes, TaskMaxRetryKey.Int(n))
	}
	member, isMember := flow.FromContext(ctx)
	if isMember {
		attributes = append(attributes, FlowIDKey.String(member.FlowID()), FlowNodeKey.String(member.Node()))
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...)}
	ctx, producer := in.extract(ctx, task)
	if producer.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: producer}))
		if in.asParent || isMember {
			ctx = trace.ContextWithRemoteSpanContext(ctx, producer)
		}
	}
	a.ctx, a.span = in.tracer.Start(ctx, name, options...)
	in.metrics.consumed.Add(ctx, 1, processName, systemAttr, in.metrics.attributes(a.queue, task.Type(), nil)...)
	return a
}

// end records the outcome of the attempt.
func (a *attempt) end(err error) {
	outcome := a.outcome(err)
	if a.span.IsRecording() {
		a.span.SetAttributes(TaskOutcomeKey.String(outcome))
	}
	if outcome == OutcomeSnoozed || outcome == OutcomeRevoked {
		err = nil
	}
	if err != nil {
		var panicked *asynq.PanicError
		if errors.As(err, &panicked) {
			a.span.RecordError(err, trace.WithAttributes(semconv.ExceptionStacktrace(string(panicked.Stack))))
		} else {
			a.span.RecordError(err)
		}
		a.span.SetAttributes(errorType(err))
		a.span.SetStatus(codes.Error, err.Error())
	}
	a.in.metrics.processed(a.ctx, a.begin, a.queue, a.task.Type(), outcome, err)
}

func (a *attempt) outcome(err error) string {
	if err == nil {
		return OutcomeSuccess
	}
	cause := context.Cause(a.ctx)
	retried, _ := asynq.GetRetryCount(a.ctx)
	most, known := asynq.GetMaxRetry(a.ctx)
	switch {
	case errors.Is(err, asynq.RevokeTask):
		return OutcomeRevoked
	case errors.Is(err, asynq.SkipRetry):
		return OutcomeArchived
	case asynq.IsSnooze(err):
		return OutcomeSnoozed
	case errors.Is(cause, asynq.ErrServerClosed), errors.Is(cause, asynq.ErrLeaseExpired):
		return OutcomeInterrupted
	case known && retried >= most:
		return OutcomeArchived
	default:
		return OutcomeRetry
	}
}
