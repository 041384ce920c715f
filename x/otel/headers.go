package asynqotel

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/asynq-go/asynq"
)

// carrier adapts the headers of a task to a propagator.
type carrier struct {
	prefix  string
	headers map[string]string
}

// Get returns the value of a key, or "" if there is none.
func (c carrier) Get(key string) string { return c.headers[c.prefix+key] }

// Set sets the value of a key.
func (c carrier) Set(key, value string) { c.headers[c.prefix+key] = value }

// Keys returns the keys of the propagator.
func (c carrier) Keys() []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(c.headers)) {
		if name, ok := strings.CutPrefix(key, c.prefix); ok {
			keys = append(keys, name)
		}
	}
	return keys
}

// inject returns the task with the context of ctx in its headers. It removes the headers of an
// earlier trace: a handler may enqueue the task that it was given, or one with its headers.
func (in *instrument) inject(ctx context.Context, task *asynq.Task) *asynq.Task {
	headers := maps.Clone(task.Headers())
	if headers == nil {
		headers = make(map[string]string, len(in.fields))
	}
	for _, field := range in.fields {
		delete(headers, field)
	}
	in.propagator.Inject(ctx, carrier{in.prefix, headers})
	return asynq.NewTaskWithHeaders(task.Type(), task.Payload(), headers, task.Options()...)
}

// extract returns ctx with the context of the task, such as baggage, and the span that enqueued the
// task, which is not valid if there is none. The span in ctx stays the same.
func (in *instrument) extract(ctx context.Context, task *asynq.Task) (_ context.Context, producer trace.SpanContext) {
	headers := task.Headers()
	if len(headers) == 0 {
		return ctx, trace.SpanContext{}
	}
	around := trace.SpanFromContext(ctx)
	ctx = in.propagator.Extract(trace.ContextWithSpan(ctx, nil), carrier{in.prefix, headers})
	producer = trace.SpanContextFromContext(ctx)
	return trace.ContextWithSpan(ctx, around), producer
}
