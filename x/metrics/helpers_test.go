package metrics_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
)

func quiet() asynq.Logger { return asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))) }

func newInspector(t testing.TB, opt asynq.RedisConnOpt) *asynq.Inspector {
	t.Helper()
	i := asynq.NewInspector(opt)
	t.Cleanup(func() { _ = i.Close() })
	return i
}

func newClient(t testing.TB, opt asynq.RedisConnOpt) *asynq.Client {
	t.Helper()
	c := asynq.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func enqueue(t testing.TB, c *asynq.Client, typename string, opts ...asynq.Option) {
	t.Helper()
	if _, err := c.Enqueue(asynq.NewTask(typename, nil), opts...); err != nil {
		t.Fatal(err)
	}
}

// gather returns the values of all gauges and counters, and the counts of histograms, by name and
// labels.
func gather(t testing.TB, collectors ...prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetGauge() != nil:
				values[name] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				values[name] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				values[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return values
}

// wantValues compares some of the values.
func wantValues(t testing.TB, got, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if is, ok := got[name]; !ok || is != v {
			t.Errorf("%s is %v (exists: %v), want %v", name, is, ok, v)
		}
	}
	if t.Failed() {
		for name, v := range got {
			fmt.Println(name, v)
		}
	}
}

var errFailed = errors.New("failed")
