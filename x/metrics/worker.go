package metrics

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
)

// WorkerOptions configures a Worker. Zero values stand for defaults.
type WorkerOptions struct {
	// Types is the number of task types with their own series: the first ones that occur. All
	// others share the type "other". The default is 100.
	Types int

	// Buckets are the upper bounds of the classic histogram buckets, in seconds, for a Prometheus
	// without native histograms, which are always exported. An empty list that is not nil disables
	// the classic ones. The default is 12 buckets from 5 ms to 30 min.
	Buckets []float64

	// ConstLabels are added to all metrics.
	ConstLabels prometheus.Labels
}

// Worker measures the servers of this process. It is a prometheus.Collector and safe for concurrent
// use. Several servers may share one.
//
// Its Observer counts attempts, and its Middleware measures handlers. Each works without the other.
type Worker struct {
	types typeNames

	processing, waiting              *prometheus.HistogramVec
	running                          *prometheus.GaugeVec
	attempts, stuck, lost, recovered *prometheus.CounterVec
	roundTrip, settled, fetched      prometheus.Histogram
	roundTripErrors, rejected        prometheus.Counter
	all                              []prometheus.Collector
}

// other is the type of tasks beyond WorkerOptions.Types, unreadable that of tasks whose message
// cannot be decoded.
const (
	other      = "other"
	unreadable = "unreadable"
)

// NewWorker returns the metrics of a worker process, to be registered:
//
//	m := metrics.NewWorker(metrics.WorkerOptions{})
//	prometheus.MustRegister(m)
//	mux.Use(m.Middleware)
//	server := asynq.NewServer(redis, asynq.Config{Observer: m.Observer()})
func NewWorker(opts WorkerOptions) *Worker {
	if opts.Types <= 0 {
		opts.Types = 100
	}
	if opts.Buckets == nil {
		opts.Buckets = []float64{.005, .02, .1, .25, .5, 1, 2.5, 10, 30, 120, 600, 1800}
	}
	w := &Worker{types: typeNames{limit: int64(opts.Types)}}
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{
			Name: "asynq_" + name, Help: help, ConstLabels: opts.ConstLabels, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}
	}
	counts := []float64{}
	if len(opts.Buckets) > 0 {
		counts = []float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "asynq_" + name, Help: help, ConstLabels: opts.ConstLabels}, labels)
		w.all = append(w.all, v)
		return v
	}
	w.processing = prometheus.NewHistogramVec(histogram("task_processing_seconds",
		"Duration of handlers, by outcome: succeeded, failed or panicked.", opts.Buckets), []string{"queue", "type", "outcome"})
	w.waiting = prometheus.NewHistogramVec(histogram("task_waiting_seconds",
		"Time of tasks in pending until they were fetched.", opts.Buckets), []string{"queue", "type"})
	w.running = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "asynq_handlers_running", Help: "Running handlers.",
		ConstLabels: opts.ConstLabels}, []string{"queue", "type"})
	w.attempts = counter("attempts_total", "Attempts finished, by outcome.", "queue", "type", "outcome")
	w.stuck = counter("handlers_stuck_total", "Handlers abandoned because they kept running after their context ended.", "queue", "type")
	w.lost = counter("leases_lost_total", "Leases lost, or not extended in time, while a handler ran.", "queue", "type")
	w.recovered = counter("tasks_recovered_total", "Tasks recovered by this process from crashed servers.", "queue", "type")
	w.roundTrip = prometheus.NewHistogram(histogram("round_trip_seconds",
		"Duration of round trips that settle and fetch tasks.", opts.Buckets))
	w.settled = prometheus.NewHistogram(histogram("round_trip_settled", "Outcomes settled per round trip.", counts))
	w.fetched = prometheus.NewHistogram(histogram("round_trip_fetched", "Tasks fetched per round trip.", counts))
	w.roundTripErrors = prometheus.NewCounter(prometheus.CounterOpts{Name: "asynq_round_trip_errors_total",
		Help: "Round trips that failed with a connection error.", ConstLabels: opts.ConstLabels})
	w.rejected = prometheus.NewCounter(prometheus.CounterOpts{Name: "asynq_outcomes_rejected_total",
		Help: "Outcomes rejected, mostly because the lease was lost.", ConstLabels: opts.ConstLabels})
	w.all = append(w.all, w.processing, w.waiting, w.running, w.roundTrip, w.settled, w.fetched, w.roundTripErrors, w.rejected)
	return w
}

// Describe sends the descriptions of the metrics.
func (w *Worker) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range w.all {
		c.Describe(ch)
	}
}

// Collect sends the metrics.
func (w *Worker) Collect(ch chan<- prometheus.Metric) {
	for _, c := range w.all {
		c.Collect(ch)
	}
}

// Observer returns the value for Config.Observer. It provides all metrics except
// asynq_task_processing_seconds and asynq_handlers_running.
func (w *Worker) Observer() *asynq.Observer {
	return &asynq.Observer{
		AttemptStarted: func(a asynq.AttemptStart) {
			if a.Wait >= 0 {
				w.waiting.WithLabelValues(label(a.Queue), w.types.of(a.Type)).Observe(a.Wait.Seconds())
			}
		},
		AttemptEnded: func(a asynq.AttemptEnd) {
			queue, typename := label(a.Queue), w.types.of(a.Type)
			w.attempts.WithLabelValues(queue, typename, string(a.Outcome)).Inc()
			if errors.Is(a.Err, asynq.ErrHandlerStuck) {
				w.stuck.WithLabelValues(queue, typename).Inc()
			}
		},
		LeaseLost: func(t asynq.ObservedTask) { w.lost.WithLabelValues(label(t.Queue), w.types.of(t.Type)).Inc() },
		TaskRecovered: func(t asynq.ObservedTask) {
			w.recovered.WithLabelValues(label(t.Queue), w.types.of(t.Type)).Inc()
		},
		RoundTripEnded: func(t asynq.RoundTripStats) {
			w.roundTrip.Observe(t.Duration.Seconds())
			w.settled.Observe(float64(t.Settled))
			w.fetched.Observe(float64(t.Fetched))
			w.rejected.Add(float64(t.Rejected))
			if t.Err != nil {
				w.roundTripErrors.Inc()
			}
		},
	}
}

// Middleware measures handlers. It is an asynq.MiddlewareFunc. As the first argument of
// ServeMux.Use, it includes the time of the other middlewares.
func (w *Worker) Middleware(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		queue, _ := asynq.GetQueueName(ctx)
		queue = label(queue)
		typename := w.types.of(task.Type())
		running := w.running.WithLabelValues(queue, typename)
		running.Inc()
		began, outcome := time.Now(), "panicked"
		defer func() { // panic again: the server handles it
			running.Dec()
			w.processing.WithLabelValues(queue, typename, outcome).Observe(time.Since(began).Seconds())
		}()
		err := next.ProcessTask(ctx, task)
		outcome = "succeeded"
		if err != nil {
			outcome = "failed"
		}
		return err
	})
}

// typeNames limits the number of types with their own series.
type typeNames struct {
	limit int64
	n     atomic.Int64
	mu    sync.Mutex
	known sync.Map // type → label
}

func (t *typeNames) of(typename string) string {
	if l, ok := t.known.Load(typename); ok {
		return l.(string)
	}
	if typename == "" {
		return unreadable
	}
	if t.n.Load() >= t.limit {
		return other
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l, ok := t.known.Load(typename); ok {
		return l.(string)
	}
	if t.n.Load() >= t.limit {
		return other
	}
	t.n.Add(1)
	l := label(typename)
	t.known.Store(typename, l)
	return l
}
