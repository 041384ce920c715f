package metrics_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq/x/metrics"
)

func TestOutbox(t *testing.T) {
	t.Parallel()
	stats := metrics.OutboxStats{Waiting: 5, Claimed: 2, Failed: 1, Lag: 1500 * time.Millisecond, Relayed: 70, Repeated: 3}
	var failure error
	c := metrics.NewOutbox(func(ctx context.Context) (metrics.OutboxStats, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the context has no deadline")
		}
		return stats, failure
	}, metrics.OutboxOptions{ConstLabels: prometheus.Labels{"outbox": "orders"}})
	want := map[string]float64{
		"asynq_outbox_scrape_success{outbox=orders}": 1,
		"asynq_outbox_waiting{outbox=orders}":        5,
		"asynq_outbox_claimed{outbox=orders}":        2,
		"asynq_outbox_failed{outbox=orders}":         1,
		"asynq_outbox_lag_seconds{outbox=orders}":    1.5,
		"asynq_outbox_relayed_total{outbox=orders}":  70,
		"asynq_outbox_repeated_total{outbox=orders}": 3,
	}
	if got := gather(t, c); !maps.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
	failure = errors.New("no database")
	if got := gather(t, c); !maps.Equal(got, map[string]float64{"asynq_outbox_scrape_success{outbox=orders}": 0}) {
		t.Errorf("metrics without a database: %v", got)
	}
}
