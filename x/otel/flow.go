package asynqotel

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

// startFlowName is the operation that starts a flow.
const startFlowName = "start flow"

// StartFlow is flow.Start in a producer span. The attempts of all tasks of the flow are in the
// trace of that span: each node has a span of its own below it, with links to those of the nodes
// that it depends on, and the attempts of its tasks are children of the span of their node. It does
// not change f.
func (c *Client) StartFlow(ctx context.Context, f *flow.Flow) (*flow.Info, error) {
	if ctx == nil || f == nil {
		return flow.Start(ctx, c.Client, f) // it returns an error that describes the problem
	}
	var info *flow.Info
	err := c.in.startFlow(ctx, f, func(ctx context.Context, f *flow.Flow) (err error) {
		info, err = flow.Start(ctx, c.Client, f)
		return err
	})
	return info, err
}

// OpenBatch is flow.OpenBatch in a producer span, as StartFlow. Add members with EnqueueMembers and
// the same ctx, so that they are in the same trace.
func (c *Client) OpenBatch(ctx context.Context, b *flow.BatchFlow) (*flow.Batch, error) {
	if ctx == nil || b == nil || b.Flow == nil {
		return flow.OpenBatch(ctx, c.Client, b)
	}
	var batch *flow.Batch
	err := c.in.startFlow(ctx, b.Flow, func(ctx context.Context, f *flow.Flow) (err error) {
		batch, err = flow.OpenBatch(ctx, c.Client, &flow.BatchFlow{Flow: f, Members: b.Members})
		return err
	})
	return batch, err
}

// Members is what members can be added to: a *flow.Batch or a *flow.Member.
type Members interface {
	Enqueue(ctx context.Context, tasks []*asynq.Task, opts ...asynq.Option) ([]asynq.BatchEnqueueResult, error)
}

// EnqueueMembers is to.Enqueue in one producer span for all tasks, whose attempts are its children.
// Called by a handler of NewMiddleware with the handler's context, it is in the trace of the flow.
func (c *Client) EnqueueMembers(ctx context.Context, to Members, tasks []*asynq.Task, opts ...asynq.Option) ([]asynq.BatchEnqueueResult, error) {
	var err error
	results := c.in.enqueueBatch(ctx, tasks, opts, func(ctx context.Context, tasks []*asynq.Task, opts ...asynq.Option) (r []asynq.BatchEnqueueResult) {
		r, err = to.Enqueue(ctx, tasks, opts...)
		return r
	})
	return results, err
}

// startFlow calls start in a span, with a flow whose tasks carry the spans of their nodes.
func (in *instrument) startFlow(ctx context.Context, f *flow.Flow, start func(context.Context, *flow.Flow) error) error {
	begin := time.Now()
	ctx, span := in.tracer.Start(ctx, startFlowName, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		system, semconv.MessagingOperationName(startFlowName), semconv.MessagingOperationTypeSend, FlowIDKey.String(f.ID())))
	defer span.End()
	nodes := make(map[string]trace.SpanContext)
	err := start(ctx, f.WithHeaders(func(n flow.NodeInfo) map[string]string {
		ctx := in.createNode(ctx, f.ID(), n, nodes)
		nodes[n.Name] = trace.SpanContextFromContext(ctx)
		headers := make(map[string]string, len(in.fields))
		for _, field := range in.fields {
			headers[field] = "" // removes what another trace has left
		}
		in.propagator.Inject(ctx, carrier{in.prefix, headers})
		return headers
	}))
	if err != nil {
		fail(span, err)
	}
	in.metrics.flowStarted(ctx, begin, err)
	return err
}

// createNode makes the span of a node, with links to those of the nodes that it depends on. It
// returns its context.
func (in *instrument) createNode(ctx context.Context, id string, n flow.NodeInfo, nodes map[string]trace.SpanContext) context.Context {
	var links []trace.Link
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(n.After, n.AfterFailure, n.AfterEnd)))) {
		links = append(links, trace.Link{SpanContext: nodes[name]})
	}
	attributes := []attribute.KeyValue{
		system, semconv.MessagingOperationName(createName), semconv.MessagingOperationTypeCreate, FlowIDKey.String(id), FlowNodeKey.String(n.Name),
	}
	name := createName
	if len(n.Queues) == 1 {
		name += " " + n.Queues[0]
		attributes = append(attributes, semconv.MessagingDestinationName(n.Queues[0]))
	}
	if n.Batch {
		attributes = append(attributes, semconv.MessagingBatchMessageCount(n.Total))
	}
	ctx, span := in.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithLinks(links...), trace.WithAttributes(attributes...))
	span.End()
	return ctx
}
