package metrics_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/metrics"
)

// A process with workers measures itself.
func ExampleWorker() {
	m := metrics.NewWorker(metrics.WorkerOptions{})
	prometheus.MustRegister(m)

	mux := asynq.NewServeMux()
	mux.Use(m.Middleware)

	server := asynq.NewServer(asynq.RedisClientOpt{Addr: "localhost:6379"}, asynq.Config{Observer: m.Observer()})

	mux.HandleFunc("email:welcome", func(context.Context, *asynq.Task) error { return nil })
	if err := server.Start(mux); err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown()
	http.Handle("GET /metrics", promhttp.Handler())
	log.Print(http.ListenAndServe("localhost:2112", nil))
}

// A process with a metrics endpoint can also export the metrics of queues, instead of asynq
// exporter.
func ExampleCollector() {
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: "localhost:6379"})
	defer inspector.Close()

	prometheus.MustRegister(metrics.NewCollector(inspector, metrics.CollectorOptions{}))
	http.Handle("GET /metrics", promhttp.Handler())
	log.Print(http.ListenAndServe("localhost:2112", nil))
}

// NewQueueMetricsCollector exports the figures of all queues.
func ExampleNewQueueMetricsCollector() {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	opt := asynq.RedisClientOpt{Addr: redis.Addr()}

	client := asynq.NewClient(opt)
	defer client.Close()
	for range 3 {
		if _, err := client.Enqueue(asynq.NewTask("email:welcome", nil)); err != nil {
			log.Fatal(err)
		}
	}

	inspector := asynq.NewInspector(opt)
	defer inspector.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewQueueMetricsCollector(inspector))
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "asynq_queue_size" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: asynq_queue_size 3
}
