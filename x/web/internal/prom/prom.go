// Package prom reads processing rates of task types from Prometheus. Only workers have these, and
// export them as metrics (docs/METRICS.md).
package prom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/shared"
)

const (
	fresh     = 10 * time.Second
	patience  = 5 * time.Second // for all queries together
	firstWait = 700 * time.Millisecond
	maxAnswer = 4 << 20
)

// Rates are the rates of a task type over the last five minutes.
type Rates struct {
	Attempts float64 // finished attempts per second
	Failed   float64 // failed attempts per second: retried or archived
	Average  float64 // average duration of handlers in seconds; NaN if unknown
}

// Types are the rates of all task types in Prometheus.
type Types map[string]Rates

// Client queries one Prometheus. It must be closed. The methods of a nil Client return nothing.
type Client struct {
	server *Server
	types  *shared.Value[Types]
}

// New returns a client for the URL of a Prometheus; nil if the URL is empty.
func New(address string, logger *slog.Logger) *Client {
	return newClient(address, logger, firstWait, patience)
}

// newClient is New with the time that Types waits for the first response, and the timeout of
// queries.
func newClient(address string, logger *slog.Logger, wait, timeout time.Duration) *Client {
	server := NewServer(address)
	if server == nil {
		return nil
	}
	c := &Client{server: server}
	c.types = shared.New(shared.Config[Types]{
		Name: "task type rates from Prometheus", Ask: c.ask, Fresh: fresh, Wait: wait, Timeout: timeout, Logger: logger,
	})
	return c
}

// Close stops all queries.
func (c *Client) Close() {
	if c != nil {
		c.types.Close()
		c.server.Close()
	}
}

// Types returns the rates by task type; nil if unknown.
func (c *Client) Types(ctx context.Context) (Types, error) {
	if c == nil {
		return nil, nil
	}
	types, err := c.types.Get(ctx)
	if types == nil {
		return nil, err
	}
	return *types, err
}

const (
	attempts = `sum by (type) (rate(asynq_attempts_total[5m]))`
	failed   = `sum by (type) (rate(asynq_attempts_total{outcome=~"retried|archived"}[5m]))`

	// Histograms may be classic or native. A missing kind has no series.
	classic = `sum by (type) (rate(asynq_task_processing_seconds_sum[5m])) / sum by (type) (rate(asynq_task_processing_seconds_count[5m]))`
	native  = `histogram_sum(sum by (type) (rate(asynq_task_processing_seconds[5m]))) / histogram_count(sum by (type) (rate(asynq_task_processing_seconds[5m])))`
)

func (c *Client) ask(ctx context.Context, _ func(*Types)) (*Types, error) {
	ended, err := c.byType(ctx, attempts)
	if err != nil {
		return nil, err
	}
	bad, err := c.byType(ctx, failed)
	if err != nil {
		return nil, err
	}
	average, err := c.byType(ctx, classic)
	if err == nil && len(average) == 0 {
		average, _ = c.byType(ctx, native) // not supported by an old Prometheus
	}
	types := make(Types, len(ended))
	for name, rate := range ended {
		r := Rates{Attempts: rate, Failed: bad[name], Average: math.NaN()}
		if a, ok := average[name]; ok {
			r.Average = a
		}
		types[name] = r
	}
	return &types, nil
}

// byType returns the values of a query by the label "type".
func (c *Client) byType(ctx context.Context, query string) (map[string]float64, error) {
	body, status, err := c.server.Ask(ctx, "/api/v1/query", url.Values{"query": {query}}, maxAnswer)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%s: not a Prometheus response: %w", status, err)
	}
	if answer.Status != "success" {
		return nil, errors.New(status + ": " + answer.Error)
	}
	values := make(map[string]float64, len(answer.Data.Result))
	for _, series := range answer.Data.Result {
		text, _ := series.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			values[series.Metric["type"]] = v
		}
	}
	return values, nil
}
