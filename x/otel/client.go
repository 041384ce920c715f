package asynqotel

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/asynq-go/asynq"
)

// Client is an asynq.Client that traces and measures its calls, and adds the trace context to the
// tasks.
type Client struct {
	*asynq.Client
	in *instrument
}

// NewClient returns a client that enqueues with c. It panics if c is nil. Closing either client
// closes both.
func NewClient(c *asynq.Client, opts ...Option) *Client {
	if c == nil {
		panic("asynqotel: nil client: pass what asynq.NewClient returned")
	}
	return &Client{Client: c, in: newInstrument(opts)}
}

// Enqueue is EnqueueContext without a deadline and without a parent span: it starts a trace.
func (c *Client) Enqueue(task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	return c.EnqueueContext(context.Background(), task, opts...)
}

// EnqueueContext is that of asynq.Client in a producer span. It does not change the task: it
// enqueues a copy with further headers.
func (c *Client) EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	return c.in.enqueue(ctx, task, opts, c.Client.EnqueueContext)
}

// BatchEnqueueContext is that of asynq.Client in one producer span for all tasks. All their
// attempts link to it.
func (c *Client) BatchEnqueueContext(ctx context.Context, tasks []*asynq.Task, opts ...asynq.Option) []asynq.BatchEnqueueResult {
	return c.in.enqueueBatch(ctx, tasks, opts, c.Client.BatchEnqueueContext)
}

// startSend starts the span of a call that enqueues.
func (in *instrument) startSend(ctx context.Context, queue string, more ...attribute.KeyValue) (context.Context, trace.Span) {
	name := enqueueName
	more = append(more, system, semconv.MessagingOperationName(enqueueName), semconv.MessagingOperationTypeSend)
	if queue != "" {
		name += " " + queue
		more = append(more, semconv.MessagingDestinationName(queue))
	}
	return in.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(more...))
}

func (in *instrument) enqueue(ctx context.Context, task *asynq.Task, opts []asynq.Option,
	send func(context.Context, *asynq.Task, ...asynq.Option) (*asynq.TaskInfo, error),
) (*asynq.TaskInfo, error) {
	if ctx == nil || task == nil {
		return send(ctx, task, opts...) // it returns an error that describes the problem
	}
	begin := time.Now()
	queue := queueOf(task, opts)
	ctx, span := in.startSend(ctx, queue, TaskTypeKey.String(task.Type()), semconv.MessagingMessageBodySize(len(task.Payload())))
	defer span.End()
	info, err := send(ctx, in.inject(ctx, task), opts...)
	if err != nil {
		fail(span, err)
	} else if span.IsRecording() {
		span.SetAttributes(semconv.MessagingMessageID(info.ID), TaskStateKey.String(info.State.String()))
	}
	in.metrics.enqueued(ctx, begin, queue, task.Type(), err)
	in.metrics.tasksSent(ctx, 1, queue, task.Type(), err)
	return info, err
}

func (in *instrument) enqueueBatch(ctx context.Context, tasks []*asynq.Task, opts []asynq.Option,
	send func(context.Context, []*asynq.Task, ...asynq.Option) []asynq.BatchEnqueueResult,
) []asynq.BatchEnqueueResult {
	if ctx == nil || len(tasks) == 0 {
		return send(ctx, tasks, opts...)
	}
	begin := time.Now()
	queues := make([]string, len(tasks))
	common := ""
	for i, task := range tasks {
		queues[i] = queueOf(task, opts)
		if i == 0 {
			common = queues[0]
		} else if queues[i] != common {
			common = ""
		}
	}
	ctx, span := in.startSend(ctx, common, semconv.MessagingBatchMessageCount(len(tasks)))
	defer span.End()
	traced := make([]*asynq.Task, len(tasks))
	for i, task := range tasks {
		if task != nil {
			traced[i] = in.inject(ctx, task)
		}
	}
	results := send(ctx, traced, opts...)

	refused, first := in.countBatch(ctx, tasks, queues, results)
	if refused > 0 {
		span.SetAttributes(BatchRefusedKey.Int(refused))
		fail(span, fmt.Errorf("%d of %d tasks were not enqueued; first error: %w", refused, len(tasks), first))
	}
	in.metrics.enqueued(ctx, begin, common, "", first)
	return results
}

// countBatch records the metrics of a batch. It returns how many tasks were not enqueued, and the
// first error.
func (in *instrument) countBatch(
	ctx context.Context, tasks []*asynq.Task, queues []string, results []asynq.BatchEnqueueResult,
) (refused int, first error) {
	type kind struct {
		queue, typename string
		failed          attribute.KeyValue
	}
	type sent struct {
		n   int
		err error
	}
	counts := make(map[kind]sent)
	for i, r := range results {
		k := kind{queue: queues[i]}
		if in.metrics.withType {
			k.typename = tasks[i].Type()
		}
		if r.Err != nil {
			refused++
			if first == nil {
				first = r.Err
			}
			k.failed = errorType(r.Err)
		}
		counts[k] = sent{counts[k].n + 1, r.Err}
	}
	for k, s := range counts {
		in.metrics.tasksSent(ctx, s.n, k.queue, k.typename, s.err)
	}
	return refused, first
}

// fail marks a span as failed.
func fail(span trace.Span, err error) {
	span.RecordError(err)
	span.SetAttributes(errorType(err))
	span.SetStatus(codes.Error, err.Error())
}
