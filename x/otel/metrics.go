package asynqotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/semconv/v1.37.0/messagingconv"
)

// metrics are the instruments. An instrument that cannot be created is a no-op, and the error is
// passed to OpenTelemetry's error handler.
type metrics struct {
	enqueue  messagingconv.ClientOperationDuration
	sent     messagingconv.ClientSentMessages
	consumed messagingconv.ClientConsumedMessages
	process  messagingconv.ProcessDuration
	withType bool
}

// bounds are the buckets that the conventions recommend for durations in seconds, with some more at
// the end, because tasks take longer than requests.
var bounds = metric.WithExplicitBucketBoundaries(
	0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300, 1800)

func newMetrics(m metric.Meter, withType bool) *metrics {
	var errs [4]error
	made := &metrics{withType: withType}
	made.enqueue, errs[0] = messagingconv.NewClientOperationDuration(m, bounds)
	made.sent, errs[1] = messagingconv.NewClientSentMessages(m)
	made.consumed, errs[2] = messagingconv.NewClientConsumedMessages(m)
	made.process, errs[3] = messagingconv.NewProcessDuration(m, bounds)
	for _, err := range errs {
		if err != nil {
			otel.Handle(err)
		}
	}
	return made
}

const (
	systemAttr  = messagingconv.SystemAttr("asynq")
	enqueueName = "enqueue"
	processName = "process"
)

// attributes returns the attributes of metrics about tasks of a type in a queue.
func (m *metrics) attributes(queue, typename string, err error, more ...attribute.KeyValue) []attribute.KeyValue {
	if queue != "" {
		more = append(more, semconv.MessagingDestinationName(queue))
	}
	if m.withType && typename != "" {
		more = append(more, TaskTypeKey.String(typename))
	}
	if err != nil {
		more = append(more, errorType(err))
	}
	return more
}

// enqueued records a call that enqueues.
func (m *metrics) enqueued(ctx context.Context, start time.Time, queue, typename string, err error) {
	send := m.enqueue.AttrOperationType(messagingconv.OperationTypeSend)
	m.enqueue.Record(ctx, time.Since(start).Seconds(), enqueueName, systemAttr, m.attributes(queue, typename, err, send)...)
}

// tasksSent records n tasks of a call.
func (m *metrics) tasksSent(ctx context.Context, n int, queue, typename string, err error) {
	m.sent.Add(ctx, int64(n), enqueueName, systemAttr, m.attributes(queue, typename, err)...)
}

// processed records an attempt.
func (m *metrics) processed(ctx context.Context, start time.Time, queue, typename, outcome string, err error) {
	m.process.Record(ctx, time.Since(start).Seconds(), processName, systemAttr,
		m.attributes(queue, typename, err, TaskOutcomeKey.String(outcome))...)
}

// flowStarted records a call that starts a flow.
func (m *metrics) flowStarted(ctx context.Context, start time.Time, err error) {
	send := m.enqueue.AttrOperationType(messagingconv.OperationTypeSend)
	m.enqueue.Record(ctx, time.Since(start).Seconds(), startFlowName, systemAttr, m.attributes("", "", err, send)...)
}
