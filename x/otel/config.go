package asynqotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Option changes how tasks are traced and measured.
type Option func(*config)

type config struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
	prefix     string
	asParent   bool
	metricType bool
}

// WithTracerProvider sets where spans go. Default: the global provider. Nil leaves the default.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if p != nil {
			c.tracers = p
		}
	}
}

// WithMeterProvider sets where metrics go. Default: the global provider. Nil leaves the default.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) {
		if p != nil {
			c.meters = p
		}
	}
}

// WithPropagator sets what is written into the headers of tasks and read from them; producers and consumers need the same. Default: the
// W3C trace context and baggage, whatever the global propagator is. Nil leaves the default.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(c *config) {
		if p != nil {
			c.propagator = p
		}
	}
}

// WithHeaderPrefix sets what the keys of the headers begin with; producers and consumers need the same. With "" they are the plain names
// of the propagator, as programs have them that do it by hand. Default: "otel.", which no header of the program's own is likely to.
func WithHeaderPrefix(prefix string) Option {
	return func(c *config) { c.prefix = prefix }
}

// WithProducerAsParent makes the span of an attempt a child of the span that enqueued the task, so that both are in one trace.
// Default: each attempt is in a trace of its own, or in that of the server's BaseContext. The link is there in both cases.
func WithProducerAsParent() Option {
	return func(c *config) { c.asParent = true }
}

// WithTaskTypeInMetrics adds the type of the task to the attributes of metrics. Use it where types are few. Default: only spans have it.
func WithTaskTypeInMetrics() Option {
	return func(c *config) { c.metricType = true }
}

// scope is the name of the instrumentation.
const scope = "github.com/asynq-go/asynq/x/otel"

// instrument is what all parts of the package work with.
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
