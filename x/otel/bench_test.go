package asynqotel

import (
	"context"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/asynq-go/asynq"
)

// discard is an exporter without cost.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }

// The cost that the package adds to an enqueue and to an attempt, for each state of tracing.
func BenchmarkOverhead(b *testing.B) {
	none := []Option{WithTracerProvider(tracenoop.NewTracerProvider()), WithMeterProvider(metricnoop.NewMeterProvider())}
	meters := WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))
	with := func(sampler sdktrace.Sampler) []Option {
		return []Option{meters, WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithSyncer(discard{})))}
	}
	for _, state := range []struct {
		name string
		opts []Option
	}{
		{"no providers", none}, {"metrics, not sampled", with(sdktrace.NeverSample())}, {"metrics, sampled", with(sdktrace.AlwaysSample())},
	} {
		in := newInstrument(state.opts)
		ctx := context.Background()
		task := asynq.NewTask("x", []byte("payload"))
		info := &asynq.TaskInfo{ID: "id", State: asynq.TaskStatePending}
		b.Run("enqueue/"+state.name, func(b *testing.B) {
			send := func(context.Context, *asynq.Task, ...asynq.Option) (*asynq.TaskInfo, error) { return info, ctx.Err() }
			b.ReportAllocs()
			for b.Loop() {
				_, _ = in.enqueue(ctx, task, nil, send)
			}
		})
		sendCtx, span := in.startSend(ctx, "default")
		traced := in.inject(sendCtx, task)
		span.End()
		handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
		b.Run("process/"+state.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = in.process(ctx, traced, handler)
			}
		})
	}
}
