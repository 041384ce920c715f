package metrics

import (
	"context"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/health"
)

// CollectorOptions configures a Collector. Zero values stand for defaults.
type CollectorOptions struct {
	// Timeout limits how long a scrape waits for Redis. Metrics that are not available by then are
	// left out, and asynq_queue_scrape_success or asynq_scrape_success reports it. It should be
	// less than Prometheus's scrape_timeout. The default is 5 s.
	Timeout time.Duration

	// MemorySamples is the number of tasks of each state from which
	// asynq_queue_memory_usage_approx_bytes is estimated at each scrape, at most 100. The default
	// is 3. If negative, the metric is left out.
	MemorySamples int

	// TaskTypes is the number of task types, of all queues together, whose attempts have series of
	// their own: asynq_stats_attempts_total and others, from the statistics that servers store in
	// Redis (see asynq.Inspector.TypeStats). They are for fleets whose workers are not scraped. All
	// other types of a queue share the type "other". The default is 0: the metrics are left out.
	TaskTypes int

	// ErrorKinds is the number of kinds of errors, of all queues together, with a series of
	// asynq_stats_errors_total of their own. All others of a queue share the kind "other". The
	// default is 0: the metric is left out.
	ErrorKinds int

	// Partitions is the number of partitions, of all queues together, with series of
	// asynq_partition_tasks and asynq_partition_wait_seconds of their own: those with the most held
	// and active tasks. All others of a queue share the partition "other". A scrape reads up to
	// 20,000 partitions of each queue, 200 in a call. The default is 0: the metrics are left out.
	Partitions int

	// Flows is the number of flows, those that were started last, that a scrape counts for
	// asynq_flows and the other metrics of flows, up to flow.MaxCount. It reads three fields of
	// each, 1,000 flows in a round trip. The default is 0: the metrics are left out.
	Flows int

	// Health enables asynq_health_causes, with these thresholds. If nil, the metric is left out.
	Health *health.Settings

	// Log receives a record when a scrape finds that Redis has become unavailable, and one when it
	// is available again. If nil, nothing is logged.
	Log *slog.Logger
}

// defaultMemorySamples costs a scrape about 0.1 ms per queue.
const defaultMemorySamples = 3

// Collector collects the metrics of all queues, servers and schedulers with an Inspector. It is a
// prometheus.Collector and safe for concurrent use. One Collector per Redis and namespace is
// enough: several would return the same.
type Collector struct {
	inspector *asynq.Inspector
	timeout   time.Duration
	memory    bool
	log       *slog.Logger
	stats     *statsReader  // nil without statistics
	health    *healthReader // nil without causes

	partitions *partitionReader // nil without partitions
	flows      *flowReader      // nil without flows

	mu     sync.Mutex
	failed map[string]time.Time // queue → time of its last failed scrape
	parts  map[string]time.Time // the same by part of a scrape
	latest time.Time            // start of the latest scrape with a known outcome
	lost   time.Time            // start of the outage; zero if Redis is available
}

// NewCollector returns a collector that uses the inspector. The caller must close the inspector.
func NewCollector(inspector *asynq.Inspector, opts CollectorOptions) *Collector {
	if opts.Timeout <= 0 {
		opts.Timeout = 5 * time.Second
	}
	if opts.MemorySamples == 0 {
		opts.MemorySamples = defaultMemorySamples
	}
	c := &Collector{
		inspector: inspector.WithMemorySamples(opts.MemorySamples),
		timeout:   opts.Timeout,
		memory:    opts.MemorySamples > 0,
		log:       opts.Log,
		failed:    make(map[string]time.Time),
		parts:     make(map[string]time.Time),
	}
	if opts.TaskTypes > 0 || opts.ErrorKinds > 0 {
		c.stats = newStatsReader(opts.TaskTypes, opts.ErrorKinds)
	}
	if opts.Partitions > 0 {
		c.partitions = &partitionReader{opts.Partitions}
	}
	if opts.Flows > 0 {
		c.flows = &flowReader{min(opts.Flows, flow.MaxCount)}
	}
	if opts.Health != nil {
		c.health = newHealthReader(*opts.Health)
	}
	return c
}

// NewQueueMetricsCollector returns NewCollector(inspector, CollectorOptions{}). Programs written
// for github.com/hibiken/asynq use this name. The metrics of that collector are among those of a
// Collector, with the same names, labels and types.
func NewQueueMetricsCollector(inspector *asynq.Inspector) prometheus.Collector {
	return NewCollector(inspector, CollectorOptions{})
}

// Describe sends the descriptions of the metrics.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range queueFigures {
		ch <- f.desc
	}
	for _, d := range otherDescs {
		ch <- d
	}
}

// Collect reads the state from Redis, and sends what it has after the timeout at the latest.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { c.collectQueues(ctx, ch) })
	wg.Go(func() { c.collectServers(ctx, ch) })
	wg.Go(func() { c.collectSchedulers(ctx, ch) })
	if c.stats != nil {
		wg.Go(func() {
			began := time.Now()
			c.part(ch, "statistics", began, c.stats.collect(ctx, c.inspector, ch))
		})
	}
	if c.partitions != nil {
		wg.Go(func() {
			began := time.Now()
			c.part(ch, "partitions", began, c.partitions.collect(ctx, c.inspector, ch))
		})
	}
	if c.flows != nil {
		wg.Go(func() {
			began := time.Now()
			c.part(ch, "flows", began, c.flows.collect(ctx, c.inspector, ch))
		})
	}
	if c.health != nil {
		wg.Go(func() {
			began := time.Now()
			c.part(ch, "health", began, c.health.collect(ctx, c.inspector, ch))
		})
	}
	wg.Wait()
}

// part collects the metrics of one part of a scrape.
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
	c.logChange(began, err)
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

// logChange logs that Redis has become unavailable, or available again. Scrapes may overlap:
// outcomes of scrapes that started before the latest one with a known outcome are ignored.
func (c *Collector) logChange(began time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil || began.Before(c.latest) {
		return
	}
	c.latest = began
	switch {
	case err != nil && c.lost.IsZero():
		c.lost = began
		c.log.Error("Redis is unavailable", "error", err)
	case err == nil && !c.lost.IsZero():
		c.log.Info("Redis is available again", "unavailable_for", time.Since(c.lost).Round(time.Millisecond))
		c.lost = time.Time{}
	}
}

// failures records which queues failed now, and returns the time of each queue's last failure. It
// drops queues that no longer exist.
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
		ch <- gauge(queueTasks, float64(n), queue, state)
		if state == "scheduled" {
			n += info.Held // as the reference counts
		}
		ch <- gauge(tasksEnqueued, float64(n), queue, state)
	}
	ch <- gauge(queueTasks, float64(info.Held), queue, "held")
	ch <- gauge(queueTasks, float64(info.Aggregating), queue, "aggregating")
}

// label returns a name as a label value. Names that are not UTF-8 are quoted, so that they stay
// distinct.
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
