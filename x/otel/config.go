package asynqotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

// Option configures tracing and measurement.
type Option func(*config)

type config struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
	prefix     string
	asParent   bool
	metricType bool
}

// WithTracerProvider sets the provider of spans. If nil or not set, the global provider is used.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if p != nil {
			c.tracers = p
		}
	}
}

// WithMeterProvider sets the provider of metrics. If nil or not set, the global provider is used.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) {
		if p != nil {
			c.meters = p
		}
	}
}

// WithPropagator sets the propagator for the headers of tasks. Producers and consumers need the
// same. If nil or not set, W3C trace context and baggage are used, independent of the global
// propagator.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(c *config) {
		if p != nil {
			c.propagator = p
		}
	}
}

// WithHeaderPrefix sets the prefix of the header keys. Producers and consumers need the same. With
// "" they are the plain names of the propagator, as in programs that propagate the context
// themselves. The default is "otel.", which avoids conflicts with the program's own headers.
func WithHeaderPrefix(prefix string) Option {
	return func(c *config) { c.prefix = prefix }
}

// WithProducerAsParent makes the span of an attempt a child of the span that enqueued the task, so
// that both are in one trace. By default, only those of tasks of flows are; each other attempt is
// in a trace of its own, or in that of the server's BaseContext. The link exists in all cases.
func WithProducerAsParent() Option {
	return func(c *config) { c.asParent = true }
}

// WithTaskTypeInMetrics adds the task type to the attributes of metrics. Use it if there are few
// types. By default, only spans have it.
func WithTaskTypeInMetrics() Option {
	return func(c *config) { c.metricType = true }
}

// scope is the name of the instrumentation.
const scope = "github.com/asynq-go/asynq/x/otel"

// instrument is the common state of the package's components.
type instrument struct {
	tracer     trace.Tracer
	metrics    *metrics
	propagator propagation.TextMapPropagator
	fields     []string // of the propagator, with the prefix
	prefix     string
	asParent   bool
}

func newInstrument(opts []Option) *instrument {
	c := config{
		tracers:    otel.GetTracerProvider(),
		meters:     otel.GetMeterProvider(),
		propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
		prefix:     "otel.",
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&c)
		}
	}
	in := &instrument{
		tracer:     c.tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		metrics:    newMetrics(c.meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)), c.metricType),
		propagator: c.propagator,
		prefix:     c.prefix,
		asParent:   c.asParent,
	}
	for _, field := range c.propagator.Fields() {
		in.fields = append(in.fields, c.prefix+field)
	}
	return in
}
