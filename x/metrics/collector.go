package metrics

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
)

// CollectorOptions are the settings of a Collector. The zero value of a field stands for its default.
type CollectorOptions struct {
	// Timeout is how long a scrape waits for Redis. What is not known by then is left out, and asynq_queue_scrape_success or
	// asynq_scrape_success says so. It should be less than Prometheus's scrape_timeout. Default: 5 s.
	Timeout time.Duration

	// MemorySamples is from how many tasks of each state the memory of a queue is estimated, at every scrape and with a call to Redis
	// for each queue. Default 0: asynq_queue_memory_usage_approx_bytes is left out.
	MemorySamples int
}

// Collector tells at each scrape how all queues, servers and schedulers are, as an Inspector sees them. It is a prometheus.Collector
// and safe for concurrent use. One for each Redis and namespace is enough: several would tell the same.
type Collector struct {
	inspector *asynq.Inspector
	timeout   time.Duration
	memory    bool

	mu     sync.Mutex
	failed map[string]time.Time // queue → when its last scrape failed that did
	parts  map[string]time.Time // the same of the parts of a scrape
}

// NewCollector returns a collector that looks through the inspector, which stays the caller's to close.
func NewCollector(inspector *asynq.Inspector, opts CollectorOptions) *Collector {
	if opts.Timeout <= 0 {
		opts.Timeout = 5 * time.Second
	}
	return &Collector{
		inspector: inspector.WithMemorySamples(opts.MemorySamples),
		timeout:   opts.Timeout,
		memory:    opts.MemorySamples > 0,
		failed:    make(map[string]time.Time),
		parts:     make(map[string]time.Time),
	}
}

// Describe tells which metrics there are.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range queueFigures {
		ch <- f.desc
	}
	for _, d := range otherDescs {
		ch <- d
	}
}

// Collect asks Redis, and tells what it knows after the timeout at the latest.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { c.collectQueues(ctx, ch) })
	wg.Go(func() { c.collectServers(ctx, ch) })
	wg.Go(func() { c.collectSchedulers(ctx, ch) })
	wg.Wait()
}

// part tells how a part of the scrape went.
func (c *Collector) part(ch chan<- prometheus.Metric, name string, began time.Time, err error) {
	ch <- gauge(partSuccess, flag(err == nil), name)
	ch <- gauge(partDuration, time.Since(began).Seconds(), name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.parts[name] = time.Now()
	}
	if at, ok := c.parts[name]; ok {
		ch <- gauge(partLastError, unix(at), name)
	}
}

func (c *Collector) collectQueues(ctx context.Context, ch chan<- prometheus.Metric) {
	began := time.Now()
	results, err := c.inspector.QueueInfos(ctx)
	c.part(ch, "queues", began, err)
	if err != nil {
		return
	}
	failures := c.failures(results)
	for _, r := range results {
		queue := label(r.Queue)
		ch <- gauge(queueSuccess, flag(r.Err == nil), queue)
		ch <- gauge(queueDuration, r.Took.Seconds(), queue)
		if at, ok := failures[r.Queue]; ok {
			ch <- gauge(queueLastError, unix(at), queue)
		}
		if r.Err == nil {
			c.collectQueue(ch, queue, r.Info)
		}
	}
}

// failures notes which queues failed now, and returns when each last did. Queues that are no more are forgotten.
func (c *Collector) failures(results []asynq.QueueInfoResult) map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, known := time.Now(), make(map[string]time.Time)
	for _, r := range results {
		if at, ok := c.failed[r.Queue]; ok {
			known[r.Queue] = at
		}
		if r.Err != nil {
			known[r.Queue] = now
		}
	}
	c.failed = known
	return maps.Clone(known)
}

func (c *Collector) collectQueue(ch chan<- prometheus.Metric, queue string, info *asynq.QueueInfo) {
	for _, f := range queueFigures {
		if f.memory && !c.memory {
			continue
		}
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(info), queue)
	}
	states := map[string]int{
		"active": info.Active, "pending": info.Pending, "scheduled": info.Scheduled, "retry": info.Retry,
		"archived": info.Archived, "completed": info.Completed,
	}
	for state, n := range states {
		ch <- gauge(tasksEnqueued, float64(n), queue, state)
		ch <- gauge(queueTasks, float64(n), queue, state)
	}
	ch <- gauge(queueTasks, float64(info.Aggregating), queue, "aggregating")
}

// label is a name as the value of a label, which must be UTF-8. What is not is quoted, so that names that differ go on to differ.
func label(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}
