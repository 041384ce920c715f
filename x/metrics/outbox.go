package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// OutboxStats are the figures of an outbox. A Stats of package x/outbox can be converted to it.
type OutboxStats struct {
	Waiting int           // rows that are not failed, including claimed ones
	Claimed int           // rows that relays are sending
	Failed  int           // failed rows
	Lag     time.Duration // age of the oldest waiting row

	Relayed  uint64 // rows that the relay has moved to Redis, including repeated ones
	Repeated uint64 // rows of Relayed that may have been sent before
}

// OutboxOptions configures an Outbox. Zero values stand for defaults.
type OutboxOptions struct {
	// Timeout limits how long a scrape waits for the database. The default is 5 s.
	Timeout time.Duration

	// ConstLabels are added to all metrics, for programs with several outboxes.
	ConstLabels prometheus.Labels
}

// Outbox collects the metrics of an outbox. It is a prometheus.Collector and safe for concurrent
// use if its function is. See NewOutbox.
type Outbox struct {
	read    func(context.Context) (OutboxStats, error)
	timeout time.Duration

	success, waiting, claimed, failed, lag, relayed, repeated *prometheus.Desc
}

// NewOutbox returns a collector that calls read for each scrape:
//
//	metrics.NewOutbox(func(ctx context.Context) (metrics.OutboxStats, error) {
//		stats, err := relay.Stats(ctx)
//		return metrics.OutboxStats(stats), err
//	}, metrics.OutboxOptions{})
//
// The counters are those of one relay; the other figures are those of the table, and so the same in
// every process.
func NewOutbox(read func(ctx context.Context) (OutboxStats, error), opts OutboxOptions) *Outbox {
	if opts.Timeout <= 0 {
		opts.Timeout = 5 * time.Second
	}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("asynq_outbox_"+name, help, nil, opts.ConstLabels)
	}
	return &Outbox{
		read: read, timeout: opts.Timeout,
		success:  desc("scrape_success", "1 if the last scrape of the outbox succeeded, else 0: then its other metrics are missing."),
		waiting:  desc("waiting", "Rows that wait for a relay, including claimed ones."),
		claimed:  desc("claimed", "Rows that relays are sending."),
		failed:   desc("failed", "Failed rows, which wait for a decision."),
		lag:      desc("lag_seconds", "Age of the oldest waiting row; 0 if there is none."),
		relayed:  desc("relayed_total", "Rows that this relay has moved to Redis, including repeated ones."),
		repeated: desc("repeated_total", "Relayed rows that may have been sent before, as by a relay that crashed."),
	}
}

// Describe sends the descriptions of the metrics.
func (o *Outbox) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{o.success, o.waiting, o.claimed, o.failed, o.lag, o.relayed, o.repeated} {
		ch <- d
	}
}

// Collect reads the figures. If the database does not reply in time, only
// asynq_outbox_scrape_success is sent.
func (o *Outbox) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), o.timeout)
	defer cancel()
	s, err := o.read(ctx)
	ch <- gauge(o.success, flag(err == nil))
	if err != nil {
		return
	}
	ch <- gauge(o.waiting, float64(s.Waiting))
	ch <- gauge(o.claimed, float64(s.Claimed))
	ch <- gauge(o.failed, float64(s.Failed))
	ch <- gauge(o.lag, s.Lag.Seconds())
	ch <- prometheus.MustNewConstMetric(o.relayed, prometheus.CounterValue, float64(s.Relayed))
	ch <- prometheus.MustNewConstMetric(o.repeated, prometheus.CounterValue, float64(s.Repeated))
}
