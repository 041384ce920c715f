package metrics_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/metrics"
)

// BenchmarkScrape scrapes an exporter over HTTP: 100 queues with 1,000,000 tasks in several states
// on a redis-server of its own. It reports the median and the 99th percentile.
//
//	go test -run '^$' -bench Scrape -benchtime 200x ./...
func BenchmarkScrape(b *testing.B) {
	opt := asynq.RedisClientOpt{Addr: proctest.StartRedis(b).Addr()}
	const queues, each = 100, 10_000
	client := newClient(b, opt)
	payload := []byte(strings.Repeat("x", 100))
	kinds := []func(i int) []asynq.Option{
		func(int) []asynq.Option { return nil },
		func(int) []asynq.Option { return nil },
		func(int) []asynq.Option { return []asynq.Option{asynq.ProcessIn(24 * time.Hour)} },
		func(i int) []asynq.Option { return []asynq.Option{asynq.Group(fmt.Sprint("g", i%20))} },
	}
	for q := range queues {
		tasks := make([]*asynq.Task, each)
		for i := range tasks {
			tasks[i] = asynq.NewTask(fmt.Sprint("type", i%10), payload, kinds[i%len(kinds)](i)...)
		}
		for _, r := range client.BatchEnqueueContext(context.Background(), tasks, asynq.Queue(fmt.Sprint("queue", q))) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	inspector := newInspector(b, opt)
	for q := range 20 {
		if _, err := inspector.ArchiveAllScheduledTasks(fmt.Sprint("queue", q)); err != nil {
			b.Fatal(err)
		}
	}
	url := "http://" + exporter(b, opt, metrics.ServeOptions{}) + "/metrics"
	took := make([]time.Duration, 0, b.N)
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		resp, err := http.Get(url)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || n < 10_000 {
			b.Fatal(n, resp.Status, err)
		}
		took = append(took, time.Since(began))
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(took[len(took)-1].Seconds()*1000, "max-ms")
	got := gather(b, metrics.NewCollector(inspector, metrics.CollectorOptions{}))
	total := 0.0
	for name, v := range got {
		if strings.HasPrefix(name, "asynq_queue_tasks{") {
			total += v
		}
	}
	if total != queues*each {
		b.Fatalf("there are %v tasks", total)
	}
}

// BenchmarkWorker measures the cost of a Worker per task, without the goroutines in which the
// server calls its Observer.
func BenchmarkWorker(b *testing.B) {
	m := metrics.NewWorker(metrics.WorkerOptions{})
	prometheus.NewRegistry().MustRegister(m)
	o := m.Observer()
	handler := m.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
	task, seen := asynq.NewTask("type", nil), asynq.ObservedTask{ID: "t", Queue: "q", Type: "type"}
	b.ReportAllocs()
	for b.Loop() {
		o.AttemptStarted(asynq.AttemptStart{ObservedTask: seen, Wait: time.Millisecond})
		_ = handler.ProcessTask(context.Background(), task)
		o.AttemptEnded(asynq.AttemptEnd{ObservedTask: seen, Outcome: asynq.OutcomeSucceeded})
	}
}

// BenchmarkProcess drains a queue of no-op tasks with and without a Worker.
func BenchmarkProcess(b *testing.B) {
	for _, seen := range []bool{false, true} {
		b.Run(fmt.Sprintf("seen=%v", seen), func(b *testing.B) {
			opt := asynq.RedisClientOpt{Addr: proctest.StartRedis(b).Addr()}
			client := newClient(b, opt)
			for left := b.N; left > 0; left -= 1000 {
				tasks := make([]*asynq.Task, min(left, 1000))
				for i := range tasks {
					tasks[i] = asynq.NewTask("type", nil)
				}
				client.BatchEnqueueContext(context.Background(), tasks)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan struct{})
			var handler asynq.Handler = asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
				if left.Add(-1) == 0 {
					close(done)
				}
				return nil
			})
			cfg := asynq.Config{Concurrency: 100, Logger: quiet()}
			if seen {
				m := metrics.NewWorker(metrics.WorkerOptions{})
				cfg.Observer, handler = m.Observer(), m.Middleware(handler)
			}
			srv := asynq.NewServer(opt, cfg)
			b.ReportAllocs()
			b.ResetTimer()
			if err := srv.Start(handler); err != nil {
				b.Fatal(err)
			}
			<-done
			b.StopTimer()
			srv.Shutdown()
		})
	}
}
