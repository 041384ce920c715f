package parity

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	theirs "github.com/hibiken/asynq"
	theirmetrics "github.com/hibiken/asynq/x/metrics"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	ours "github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	ourmetrics "github.com/asynq-go/asynq/x/metrics"
)

// Every series of the reference's queue metrics exists with the same name, labels, type and value.
func TestQueueMetrics(t *testing.T) {
	t.Parallel()
	addr := proctest.StartRedis(t).Addr()
	seedMetrics(t, addr)
	theirInspector := theirs.NewInspector(theirs.RedisClientOpt{Addr: addr})
	ourInspector := ours.NewInspector(ours.RedisClientOpt{Addr: addr})
	t.Cleanup(func() { _, _ = theirInspector.Close(), ourInspector.Close() })
	want := gather(t, theirmetrics.NewQueueMetricsCollector(theirInspector))
	got := gather(t, ourmetrics.NewQueueMetricsCollector(ourInspector))
	if len(want) < 20 {
		t.Fatalf("the reference has %d series", len(want))
	}
	for series, w := range want {
		g, ok := got[series]
		if !ok {
			t.Errorf("%s is missing", series)
			continue
		}
		tolerance := 0.0
		switch {
		case strings.HasPrefix(series, "asynq_queue_latency_seconds"):
			tolerance = 60
		case strings.HasPrefix(series, "asynq_queue_memory_usage_approx_bytes"):
			tolerance = w.value / 2 // both are estimates
		}
		if g.kind != w.kind || math.Abs(g.value-w.value) > tolerance {
			t.Errorf("%s is %v %v, in the reference %v %v", series, g.kind, g.value, w.kind, w.value)
		}
	}
}

// seedMetrics creates tasks in each state, a successful attempt and a failed one.
func seedMetrics(t *testing.T, addr string) {
	t.Helper()
	opt := ours.RedisClientOpt{Addr: addr}
	client, inspector := ours.NewClient(opt), ours.NewInspector(opt)
	t.Cleanup(func() { _, _ = client.Close(), inspector.Close() })
	enqueue := func(id string, opts ...ours.Option) {
		t.Helper()
		if _, err := client.Enqueue(ours.NewTask("t", make([]byte, 500)), append(opts, ours.TaskID(id))...); err != nil {
			t.Fatal(err)
		}
	}
	enqueue("done", ours.Retention(time.Hour))
	enqueue("failed")
	ended := make(chan struct{}, 2)
	srv := ours.NewServer(opt, ours.Config{
		LogLevel: ours.FatalLevel, RetryDelayFunc: func(int, error, *ours.Task) time.Duration { return time.Hour },
		Observer: &ours.Observer{AttemptEnded: func(ours.AttemptEnd) { ended <- struct{}{} }},
	})
	err := srv.Start(ours.HandlerFunc(func(ctx context.Context, _ *ours.Task) error {
		if id, _ := ours.GetTaskID(ctx); id == "failed" {
			return context.DeadlineExceeded
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	<-ended
	srv.Shutdown()
	for _, id := range []string{"a", "b", "c"} {
		enqueue(id)
	}
	enqueue("later", ours.ProcessIn(time.Hour))
	enqueue("archived")
	if err := inspector.ArchiveTask("default", "archived"); err != nil {
		t.Fatal(err)
	}
	enqueue("other", ours.Queue("paused"))
	if err := inspector.PauseQueue("paused"); err != nil {
		t.Fatal(err)
	}
}

// sample is the value of a series.
type sample struct {
	kind  dto.MetricType
	value float64
}

// gather returns the gauges and counters of a collector by name and labels.
func gather(t *testing.T, c prometheus.Collector) map[string]sample {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples := make(map[string]sample)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make([]string, 0, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() // one is 0
			samples[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = sample{kind: f.GetType(), value: value}
		}
	}
	return samples
}
