package metrics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/metrics"
)

// The collector logs once that Redis is unavailable, and once that it is available again, with any
// number of scrapes.
func TestCollectorLogsOutage(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	addr := mini.Addr()
	inspector := newInspector(t, asynq.RedisClientOpt{Addr: addr})
	var log strings.Builder
	c := metrics.NewCollector(inspector, metrics.CollectorOptions{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	logged := func() (records []map[string]any) {
		t.Helper()
		for line := range strings.Lines(log.String()) {
			var r map[string]any
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			records = append(records, r)
		}
		log.Reset()
		return records
	}
	scrape := func(success float64) {
		t.Helper()
		// go-redis keeps returning its last error for up to a second after a server is back.
		proctest.Eventually(t, "the scrape to change", func() bool { return gather(t, c)["asynq_scrape_success{part=queues}"] == success })
		gather(t, c)
	}
	if scrape(1); log.Len() > 0 {
		t.Errorf("while Redis is available: %s", log.String())
	}
	for range 2 {
		mini.Close()
		scrape(0)
		if r := logged(); len(r) != 1 || r[0]["msg"] != "Redis is unavailable" || r[0]["level"] != "ERROR" ||
			!strings.Contains(fmt.Sprint(r[0]["error"]), addr) {
			t.Errorf("after the outage began: %v", r)
		}
		proctest.Until(t, "the port to be free", mini.Restart) // another process may have taken it
		scrape(1)
		if r := logged(); len(r) != 1 || r[0]["msg"] != "Redis is available again" || r[0]["level"] != "INFO" || r[0]["unavailable_for"] == nil {
			t.Errorf("after the outage: %v", r)
		}
	}
	mini.Close()
	gather(t, metrics.NewCollector(inspector, metrics.CollectorOptions{})) // without a logger
}

func TestCollector(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: mini.Addr()}
	client, inspector := newClient(t, opt), newInspector(t, opt)
	for _, id := range []string{"a", "b", "c"} {
		enqueue(t, client, id, asynq.TaskID(id))
	}
	enqueue(t, client, "s", asynq.ProcessIn(time.Hour))
	enqueue(t, client, "g", asynq.Group("g"))
	enqueue(t, client, "x", asynq.Queue("low"), asynq.TaskID("x"))
	if err := inspector.ArchiveTask("low", "x"); err != nil {
		t.Fatal(err)
	}
	if err := inspector.PauseQueue("low"); err != nil {
		t.Fatal(err)
	}
	c := metrics.NewCollector(inspector, metrics.CollectorOptions{})
	got := gather(t, c)
	wantValues(t, got, map[string]float64{
		"asynq_tasks_enqueued_total{queue=default,state=pending}":   3,
		"asynq_tasks_enqueued_total{queue=default,state=scheduled}": 1,
		"asynq_tasks_enqueued_total{queue=low,state=archived}":      1,
		"asynq_queue_tasks{queue=default,state=aggregating}":        1,
		"asynq_queue_tasks{queue=default,state=completed}":          0,
		"asynq_queue_size{queue=default}":                           5,
		"asynq_queue_paused_total{queue=low}":                       1,
		"asynq_queue_paused{queue=default}":                         0,
		"asynq_queue_groups{queue=default}":                         1,
		"asynq_tasks_processed_total{queue=default}":                0,
		"asynq_queue_scrape_success{queue=low}":                     1,
		"asynq_scrape_success{part=queues}":                         1,
		"asynq_scrape_success{part=servers}":                        1,
		"asynq_scrape_success{part=schedulers}":                     1,
		"asynq_servers{status=active}":                              0,
		"asynq_slots{}":                                             0,
		"asynq_scheduler_entries{}":                                 0,
	})
	for _, name := range []string{"asynq_tasks_enqueued_total{queue=default,state=aggregating}",
		"asynq_scrape_last_error_timestamp_seconds{part=queues}"} {
		if _, ok := got[name]; ok {
			t.Errorf("%s exists", name)
		}
	}
	mini.SetTime(time.Now().Add(2 * time.Hour))
	got = gather(t, metrics.NewCollector(inspector, metrics.CollectorOptions{MemorySamples: -1}))
	if _, ok := got["asynq_queue_memory_usage_approx_bytes{queue=default}"]; ok {
		t.Error("the memory is reported with MemorySamples -1")
	}
	if wait, due := got["asynq_queue_latency_seconds{queue=default}"], got["asynq_queue_scheduled_overdue_seconds{queue=default}"]; wait < 7100 || due < 3500 || due > 3700 {
		t.Errorf("the oldest waits %v s, and the first scheduled one is overdue for %v s", wait, due)
	}
}

// The memory of each queue is estimated by default, also under the reference's name of the
// collector.
func TestNewQueueMetricsCollector(t *testing.T) {
	t.Parallel()
	server := proctest.StartRedis(t)
	opt := asynq.RedisClientOpt{Addr: server.Addr()}
	client := newClient(t, opt)
	for _, queue := range []string{"default", "low"} {
		for range 20 {
			if _, err := client.Enqueue(asynq.NewTask("t", make([]byte, 1000)), asynq.Queue(queue)); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := metrics.NewQueueMetricsCollector(newInspector(t, opt))
	var _ prometheus.Collector = c
	got := gather(t, c)
	wantValues(t, got, map[string]float64{"asynq_queue_size{queue=default}": 20, "asynq_queue_paused_total{queue=low}": 0})
	for _, queue := range []string{"default", "low"} {
		if bytes := got["asynq_queue_memory_usage_approx_bytes{queue="+queue+"}"]; bytes < 20_000 || bytes > 40_000 {
			t.Errorf("memory of queue %s: %v bytes", queue, bytes)
		}
	}
}

// A queue that cannot be read does not hide the others.
func TestCollectorWithABrokenQueue(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: mini.Addr()}
	client := newClient(t, opt)
	enqueue(t, client, "a")
	enqueue(t, client, "b", asynq.Queue("broken"))
	if _, err := mini.SAdd("asynq:queues", "br\xffken"); err != nil { // not a valid label
		t.Fatal(err)
	}
	if err := mini.Set("asynq:{broken}:retry", "no set"); err != nil {
		t.Fatal(err)
	}
	c := metrics.NewCollector(newInspector(t, opt), metrics.CollectorOptions{})
	got := gather(t, c)
	wantValues(t, got, map[string]float64{
		"asynq_queue_scrape_success{queue=broken}":     0,
		"asynq_queue_scrape_success{queue=default}":    1,
		"asynq_queue_size{queue=default}":              1,
		`asynq_queue_size{queue="br\xffken"}`:          0,
		"asynq_scrape_success{part=queues}":            1,
		"asynq_queue_tasks{queue=default,state=retry}": 0,
	})
	const last = "asynq_queue_scrape_last_error_timestamp_seconds{queue=broken}"
	if at := got[last]; time.Since(time.Unix(int64(at), 0)).Abs() > time.Minute {
		t.Errorf("the last error was at %v", at)
	}
	if _, ok := got["asynq_queue_size{queue=broken}"]; ok {
		t.Error("the broken queue has a size")
	}
	mini.Del("asynq:{broken}:retry")
	again := gather(t, c)
	wantValues(t, again, map[string]float64{"asynq_queue_scrape_success{queue=broken}": 1, last: got[last]})
}

// A scrape of an unresponsive Redis fails in time.
func TestCollectorWithoutRedis(t *testing.T) {
	t.Parallel()
	silent := freeListener(t)
	opt := asynq.RedisClientOpt{Addr: silent.Addr().String(), ReadTimeout: time.Minute, Params: "max_retries=-1"}
	c := metrics.NewCollector(newInspector(t, opt), metrics.CollectorOptions{Timeout: 200 * time.Millisecond})
	began := time.Now()
	got := gather(t, c)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	wantValues(t, got, map[string]float64{
		"asynq_scrape_success{part=queues}": 0, "asynq_scrape_success{part=servers}": 0, "asynq_scrape_success{part=schedulers}": 0,
	})
}

// Servers and schedulers have metrics.
func TestCollectorServers(t *testing.T) {
	t.Parallel()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client := newClient(t, opt)
	enqueue(t, client, "runs", asynq.Queue("q"))
	started, proceed := make(chan struct{}), make(chan struct{})
	srv := asynq.NewServer(opt, asynq.Config{Concurrency: 3, Queues: map[string]int{"q": 1, "low": 1}, Logger: quiet()})
	err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		close(started)
		<-proceed
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	t.Cleanup(func() { close(proceed) })
	sched := asynq.NewScheduler(opt, &asynq.SchedulerOpts{Logger: quiet()})
	if _, err := sched.Register("@every 1h", asynq.NewTask("p", nil)); err != nil {
		t.Fatal(err)
	}
	if err := sched.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sched.Shutdown)
	<-started
	c := metrics.NewCollector(newInspector(t, opt), metrics.CollectorOptions{})
	var got map[string]float64
	proctest.Until(t, "the heartbeat with the task", func() error {
		if got = gather(t, c); got["asynq_slots_busy{}"] != 1 || got["asynq_scheduler_entries{}"] != 1 {
			return errFailed
		}
		return nil
	})
	wantValues(t, got, map[string]float64{
		"asynq_servers{status=active}": 1, "asynq_slots{}": 3, "asynq_queue_servers{queue=q}": 1, "asynq_queue_servers{queue=low}": 1,
		"asynq_queue_slots_busy{queue=q}": 1, "asynq_queue_slots_busy{queue=low}": 0, "asynq_scheduler_lag_seconds{}": 0,
	})
	if run := got["asynq_queue_longest_run_seconds{queue=q}"]; run <= 0 || run > 60 {
		t.Errorf("it has been running for %v s", run)
	}
}
