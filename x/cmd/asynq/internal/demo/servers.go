package demo

import (
	"encoding/json"
	"log/slog"
	"math"
	"time"

	"github.com/asynq-go/asynq"
)

// The queues, with what each demonstrates.
const (
	critical   = "critical"
	standard   = "default"
	low        = "low"
	images     = "images"     // few slots: it falls behind in each burst
	invoices   = "invoices"   // retained results
	reports    = "reports"    // long tasks with progress
	search     = "search"     // groups
	newsletter = "newsletter" // paused
	legacy     = "legacy"     // no server takes its tasks
)

var queues = []string{critical, standard, low, images, invoices, reports, search, newsletter, legacy}

// startServers starts four servers with different queues.
func (d *Demo) startServers(redis asynq.RedisConnOpt) error {
	// The tools show the errors of tasks.
	log := asynq.NewSlogLogger(slog.New(slog.DiscardHandler))
	if d.opts.Log != nil {
		log = asynq.NewSlogLogger(d.opts.Log)
	}
	handler := newHandler(d.opts.Seed)
	shopQueues := map[string]int{critical: 6, standard: 3, low: 1, newsletter: 1}
	for _, config := range []asynq.Config{
		{Concurrency: 10, Queues: shopQueues},
		{Concurrency: 6, Queues: shopQueues},
		{Concurrency: 4, Queues: map[string]int{images: 1}, QueueConcurrency: map[string]int{images: 3}},
		{Concurrency: 4, Queues: map[string]int{search: 3, invoices: 2, reports: 1}, StrictPriority: true, QueueConcurrency: map[string]int{reports: 2}, GroupAggregator: asynq.GroupAggregatorFunc(combine),
			GroupGracePeriod: 4 * time.Second, GroupMaxDelay: 12 * time.Second, GroupMaxSize: 25},
	} {
		config.RetryDelayFunc = retryDelay
		config.ShutdownTimeout = time.Second
		config.Logger, config.LogLevel = log, asynq.FatalLevel
		s := asynq.NewServer(redis, config)
		if err := s.Start(handler); err != nil {
			return err
		}
		d.servers = append(d.servers, s)
	}
	return nil
}

// retryDelay is short enough to watch retries: 4 s, 8 s, 16 s, …
func retryDelay(n int, _ error, _ *asynq.Task) time.Duration {
	return time.Duration(math.Pow(2, float64(min(n, 6)))) * 4 * time.Second
}

// combine aggregates products into one indexing task.
func combine(group string, tasks []*asynq.Task) *asynq.Task {
	products := make([]json.RawMessage, len(tasks))
	for i, t := range tasks {
		products[i] = t.Payload()
	}
	payload, _ := json.Marshal(map[string]any{"index": group, "products": products}) // the products are valid JSON
	return asynq.NewTask("search:bulk", payload, asynq.MaxRetry(3), asynq.Timeout(10*time.Second), asynq.Retention(3*time.Minute))
}
