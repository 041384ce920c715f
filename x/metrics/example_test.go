package metrics_test

import (
	"context"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/metrics"
)

// A process with workers measures what it does.
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

// A process that has a metrics endpoint anyway can tell of the queues, too, in place of asynq exporter.
func ExampleCollector() {
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: "localhost:6379"})
	defer inspector.Close()

	prometheus.MustRegister(metrics.NewCollector(inspector, metrics.CollectorOptions{}))
	http.Handle("GET /metrics", promhttp.Handler())
	log.Print(http.ListenAndServe("localhost:2112", nil))
}
