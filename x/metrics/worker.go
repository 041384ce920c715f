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

// WorkerOptions are the settings of a Worker. The zero value of a field stands for its default.
type WorkerOptions struct {
	// Types is how many task types have series of their own: the first ones that come. All others share the type "other". Default: 100.
	Types int

	// Buckets are the upper bounds of the classic histograms' buckets, in seconds, for a Prometheus that does not take native
	// histograms; those are always there. An empty list that is not nil leaves the classic ones out. Default: 12 from 5 ms to 30 min.
	Buckets []float64

	// ConstLabels are put on all metrics.
	ConstLabels prometheus.Labels
}

// Worker measures what servers of this process do. It is a prometheus.Collector and safe for concurrent use; several servers may share
// one.
//
// Its Observer counts attempts, and its Middleware measures handlers: each serves without the other.
type Worker struct {
	types typeNames

	processing, waiting              *prometheus.HistogramVec
	running                          *prometheus.GaugeVec
	attempts, stuck, lost, recovered *prometheus.CounterVec
	turn, settled, fetched           prometheus.Histogram
	turnErrors, refused              prometheus.Counter
	all                              []prometheus.Collector
}

// other is the type of tasks beyond WorkerOptions.Types; unreadable of those whose message cannot be read.
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
		"How long handlers took, by outcome: succeeded, failed or panicked.", opts.Buckets), []string{"queue", "type", "outcome"})
	w.waiting = prometheus.NewHistogramVec(histogram("task_waiting_seconds",
		"How long tasks were pending until they were taken.", opts.Buckets), []string{"queue", "type"})
	w.running = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "asynq_handlers_running", Help: "Handlers that run now.",
		ConstLabels: opts.ConstLabels}, []string{"queue", "type"})
	w.attempts = counter("attempts_total", "Attempts that ended, by what became of the task.", "queue", "type", "outcome")
	w.stuck = counter("handlers_stuck_total", "Handlers that were given up, because they went on after their context had ended.", "queue", "type")
	w.lost = counter("leases_lost_total", "Leases that were lost or could not be extended while a handler ran.", "queue", "type")
	w.recovered = counter("tasks_recovered_total", "Tasks that this process took back from servers that crashed.", "queue", "type")
	w.turn = prometheus.NewHistogram(histogram("pump_turn_seconds",
		"How long the exchanges with Redis took that settle tasks and fetch others.", opts.Buckets))
	w.settled = prometheus.NewHistogram(histogram("pump_turn_settled", "Outcomes that went along in one exchange.", counts))
	w.fetched = prometheus.NewHistogram(histogram("pump_turn_fetched", "Tasks that came in one exchange.", counts))
	w.turnErrors = prometheus.NewCounter(prometheus.CounterOpts{Name: "asynq_pump_turn_errors_total",
		Help: "Exchanges that broke with the connection.", ConstLabels: opts.ConstLabels})
	w.refused = prometheus.NewCounter(prometheus.CounterOpts{Name: "asynq_outcomes_refused_total",
		Help: "Outcomes that Redis did not take, mostly because the lease was lost.", ConstLabels: opts.ConstLabels})
	w.all = append(w.all, w.processing, w.waiting, w.running, w.turn, w.settled, w.fetched, w.turnErrors, w.refused)
	return w
}

// Describe tells which metrics there are.
func (w *Worker) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range w.all {
		c.Describe(ch)
	}
}

// Collect tells their values.
func (w *Worker) Collect(ch chan<- prometheus.Metric) {
	for _, c := range w.all {
		c.Collect(ch)
	}
}

// Observer is for Config.Observer: it tells all but asynq_task_processing_seconds and asynq_handlers_running.
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
		TurnEnded: func(t asynq.TurnStats) {
			w.turn.Observe(t.Duration.Seconds())
			w.settled.Observe(float64(t.Settled))
			w.fetched.Observe(float64(t.Fetched))
			w.refused.Add(float64(t.Refused))
			if t.Err != nil {
				w.turnErrors.Inc()
			}
		},
	}
}

// Middleware measures handlers; it is an asynq.MiddlewareFunc. As the first one that ServeMux.Use is given it also measures what other
// middlewares do.
func (w *Worker) Middleware(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		queue, _ := asynq.GetQueueName(ctx)
		queue = label(queue)
		typename := w.types.of(task.Type())
		running := w.running.WithLabelValues(queue, typename)
		running.Inc()
		began, outcome := time.Now(), "panicked"
		defer func() { // a panic goes on: the server knows what to do with it
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

// typeNames bounds the types that have series of their own.
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
