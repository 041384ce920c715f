package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/metrics"
)

// runTasks runs n tasks of each type on a server until they have ended. Those of types that begin
// with "fails" fail once.
func runTasks(t *testing.T, opt asynq.RedisConnOpt, n int, types ...string) {
	t.Helper()
	client, inspector := newClient(t, opt), newInspector(t, opt)
	for _, typename := range types {
		for range n {
			enqueue(t, client, typename, asynq.MaxRetry(0))
		}
	}
	srv := asynq.NewServer(opt, asynq.Config{Concurrency: 20, Logger: quiet()})
	err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if strings.HasPrefix(task.Type(), "fails") {
			return fmt.Errorf("dial tcp: no route to %s", task.Type())
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	for ticks := time.NewTicker(5 * time.Millisecond); ; <-ticks.C {
		info, err := inspector.GetQueueInfo("default")
		if err == nil && info.Pending+info.Active+info.Retry == 0 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("tasks are left")
		}
	}
	srv.Shutdown() // stores the statistics
}

// The counters are those of the attempts since the first scrape, of a bounded number of types and
// kinds.
func TestStatistics(t *testing.T) {
	t.Parallel()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	c := metrics.NewCollector(newInspector(t, opt), metrics.CollectorOptions{TaskTypes: 3, ErrorKinds: 1, MemorySamples: -1})
	runTasks(t, opt, 4, "a", "b")
	wantValues(t, gather(t, c), map[string]float64{ // what was before does not count
		`asynq_scrape_success{part=statistics}`:              1,
		`asynq_stats_duration_seconds{queue=default,type=a}`: 0,
		`asynq_stats_duration_seconds{queue=default,type=b}`: 0,
	})
	runTasks(t, opt, 5, "a", "fails:1", "fails:2", "other", "z")
	want := map[string]float64{
		`asynq_stats_attempts_total{outcome=succeeded,queue=default,type=a}`:     5,
		`asynq_stats_attempts_total{outcome=archived,queue=default,type=other}`:  5,
		`asynq_stats_attempts_total{outcome=succeeded,queue=default,type=other}`: 10,
		`asynq_stats_duration_seconds{queue=default,type=a}`:                     5,
		`asynq_stats_duration_seconds{queue=default,type=other}`:                 15,
	}
	got := gather(t, c)
	// One of the types that fail is the third one.
	third := "fails:1"
	if _, ok := got[`asynq_stats_duration_seconds{queue=default,type=fails:2}`]; ok {
		third = "fails:2"
	} else if _, ok := got[`asynq_stats_duration_seconds{queue=default,type=z}`]; ok {
		third = "z"
	}
	if third == "z" {
		want[`asynq_stats_attempts_total{outcome=succeeded,queue=default,type=z}`] = 5
		want[`asynq_stats_attempts_total{outcome=succeeded,queue=default,type=other}`] = 5
		want[`asynq_stats_attempts_total{outcome=archived,queue=default,type=other}`] = 10
	} else {
		want[`asynq_stats_attempts_total{outcome=archived,queue=default,type=`+third+`}`] = 5
	}
	wantValues(t, got, want)
	errorKinds, failures := 0, 0.0
	series := 0
	for name, v := range got {
		if strings.HasPrefix(name, "asynq_stats_errors_total{") {
			errorKinds++
			failures += v
		}
		if strings.HasPrefix(name, "asynq_stats_duration_seconds{") {
			series++
		}
	}
	if errorKinds == 0 || errorKinds > 2 || failures != 10 || series != 4 {
		t.Errorf("%d kinds with %v errors, %d types", errorKinds, failures, series)
	}
	inspector := newInspector(t, opt)
	if err := inspector.DeleteQueue("default", true); err != nil {
		t.Fatal(err)
	}
	gather(t, c)
	runTasks(t, opt, 2, "a")
	wantValues(t, gather(t, c), map[string]float64{`asynq_stats_attempts_total{outcome=succeeded,queue=default,type=a}`: 7})
}

// The histograms are native ones of schema 2, and classic ones, with the same counts.
func TestStatisticsHistogram(t *testing.T) {
	t.Parallel()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	c := metrics.NewCollector(newInspector(t, opt), metrics.CollectorOptions{TaskTypes: 1})
	runTasks(t, opt, 1, "a")
	gather(t, c)
	runTasks(t, opt, 50, "a")
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "asynq_stats_duration_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if f.GetType() != dto.MetricType_HISTOGRAM || h.GetSampleCount() != 50 || h.GetSampleSum() <= 0 || h.GetSchema() != 2 {
			t.Errorf("histogram %v", h)
		}
		classic := h.GetBucket()
		if len(classic) != 12 || classic[0].GetUpperBound() != 1.0/1024 || classic[11].GetUpperBound() != 4096 || classic[11].GetCumulativeCount() != 50 {
			t.Errorf("classic buckets %v", classic)
		}
		index, n, count, native := int32(0), int64(0), 0, int64(h.GetZeroCount())
		below := h.GetZeroCount() // up to 2^-10 s, the first classic bucket
		for _, span := range h.GetPositiveSpan() {
			index += span.GetOffset()
			for range span.GetLength() {
				n += h.GetPositiveDelta()[count]
				native += n
				if index <= -40 {
					below += uint64(n)
				}
				count++
				index++
			}
		}
		if native != 50 || count != len(h.GetPositiveDelta()) || below != classic[0].GetCumulativeCount() {
			t.Errorf("%d attempts in native buckets, %d of at most 1 ms: %v", native, below, h)
		}
		return
	}
	t.Error("there is no histogram")
}

// A Redis that is unreachable leaves the counters out, and does not reset them.
func TestStatisticsOutage(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: mini.Addr()}
	c := metrics.NewCollector(newInspector(t, opt), metrics.CollectorOptions{TaskTypes: 10, Timeout: time.Second, Health: &health.Settings{}})
	runTasks(t, opt, 1, "a")
	gather(t, c)
	runTasks(t, opt, 3, "a")
	const name = `asynq_stats_attempts_total{outcome=succeeded,queue=default,type=a}`
	wantValues(t, gather(t, c), map[string]float64{name: 3})
	mini.SetError("LOADING Redis is loading the dataset in memory")
	got := gather(t, c)
	if _, ok := got[name]; ok || got[`asynq_scrape_success{part=statistics}`] != 0 || got[`asynq_health_causes{kind=redis-unreachable,muted=false,severity=trouble}`] != 1 {
		t.Errorf("during an outage: %v", got)
	}
	mini.SetError("")
	wantValues(t, gather(t, c), map[string]float64{name: 3, `asynq_scrape_success{part=statistics}`: 1})
}

// Causes count by kind and severity, muted ones apart.
func TestHealthCauses(t *testing.T) {
	t.Parallel()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	inspector := newInspector(t, opt)
	c := metrics.NewCollector(inspector, metrics.CollectorOptions{Health: &health.Settings{}})
	enqueue(t, newClient(t, opt), "a")
	wantValues(t, gather(t, c), map[string]float64{
		`asynq_health_causes{kind=no-server,muted=false,severity=trouble}`: 1, `asynq_scrape_success{part=health}`: 1,
	})
	if err := inspector.MuteCause(t.Context(), asynq.Mute{ID: "no-server"}); err != nil {
		t.Fatal(err)
	}
	got := gather(t, c)
	wantValues(t, got, map[string]float64{`asynq_health_causes{kind=no-server,muted=true,severity=trouble}`: 1})
	if _, ok := got[`asynq_health_causes{kind=no-server,muted=false,severity=trouble}`]; ok {
		t.Errorf("a muted cause counts: %v", got)
	}
	invalid := metrics.NewCollector(inspector, metrics.CollectorOptions{Health: &health.Settings{Trend: time.Second}})
	wantValues(t, gather(t, invalid), map[string]float64{`asynq_scrape_success{part=health}`: 0})
	if _, err := health.NewMonitor(health.Settings{Trend: time.Second}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the settings are valid: %v", err)
	}
}
