package asynqotel

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// kit is an embedded Redis, a traced client on it, and the exported spans and metrics.
type kit struct {
	t      *testing.T
	broker *asynqtest.Broker
	client *Client
	opts   []Option
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
	reader *sdkmetric.ManualReader
}

func newKit(t *testing.T, opts ...Option) *kit {
	t.Helper()
	k := &kit{t: t, broker: asynqtest.Run(t), spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(k.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(k.reader))
	t.Cleanup(func() {
		_ = tracers.Shutdown(context.Background())
		_ = meters.Shutdown(context.Background())
	})
	k.opts = append([]Option{WithTracerProvider(tracers), WithMeterProvider(meters)}, opts...)
	k.tracer = tracers.Tracer("the program")
	k.client = NewClient(k.broker.Client(), k.opts...)
	return k
}

// drain runs the due tasks with the middleware.
func (k *kit) drain(handler asynq.HandlerFunc, opts ...asynqtest.DrainOption) []asynqtest.Outcome {
	k.t.Helper()
	return k.broker.Drain(k.t, NewMiddleware(k.opts...)(handler), opts...)
}

func (k *kit) enqueue(ctx context.Context, task *asynq.Task, opts ...asynq.Option) *asynq.TaskInfo {
	k.t.Helper()
	info, err := k.client.EnqueueContext(ctx, task, opts...)
	if err != nil {
		k.t.Fatal(err)
	}
	return info
}

// named returns the spans with a name, in the order in which they ended.
func (k *kit) named(name string) (found []tracetest.SpanStub) {
	for _, s := range k.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// one returns the only span with a name.
func (k *kit) one(name string) tracetest.SpanStub {
	k.t.Helper()
	found := k.named(name)
	if len(found) != 1 {
		k.t.Fatalf("%d spans %q in %v", len(found), name, k.spans.GetSpans())
	}
	return found[0]
}

// linksTo checks that a span has exactly one link to each of the others.
func linksTo(t *testing.T, from tracetest.SpanStub, others ...tracetest.SpanStub) {
	t.Helper()
	if len(from.Links) != len(others) {
		t.Fatalf("%s has %d links, want %d", from.Name, len(from.Links), len(others))
	}
	for i, to := range others {
		got := from.Links[i].SpanContext
		if got.TraceID() != to.SpanContext.TraceID() || got.SpanID() != to.SpanContext.SpanID() {
			t.Errorf("link %d of %s leads to %v, want %s %v", i, from.Name, got.SpanID(), to.Name, to.SpanContext.SpanID())
		}
	}
}

// has checks attributes of a span. A nil value means that the attribute must not exist.
func has(t *testing.T, s tracetest.SpanStub, want map[string]any) {
	t.Helper()
	got := make(map[string]any)
	for _, kv := range s.Attributes {
		got[string(kv.Key)] = kv.Value.AsInterface()
	}
	for key, value := range want {
		if n, ok := value.(int); ok {
			value = int64(n)
		}
		if got[key] != value {
			t.Errorf("%s: %s is %v, want %v", s.Name, key, got[key], value)
		}
	}
}

// points returns the data of a metric by attributes: the count of a histogram, or the value of a
// counter.
func (k *kit) points(name string) map[string]int64 {
	k.t.Helper()
	var all metricdata.ResourceMetrics
	if err := k.reader.Collect(context.Background(), &all); err != nil {
		k.t.Fatal(err)
	}
	found := make(map[string]int64)
	put := func(set attribute.Set, n int64) { found[set.Encoded(attribute.DefaultEncoder())] += n }
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, int64(p.Count))
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, p.Value)
				}
			default:
				k.t.Fatalf("%s is a %T", name, m.Data)
			}
		}
	}
	return found
}
