// Package prom asks a Prometheus how fast task types are worked on: only workers know that, and tell it as metrics (docs/METRICS.md).
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

// Rates is how fast tasks of a type were worked on in the last five minutes.
type Rates struct {
	Attempts float64 // that ended, per second
	Failed   float64 // of these: tried again or archived
	Average  float64 // seconds that handlers took; NaN if that is not known
}

// Types are the rates of all task types that Prometheus knows.
type Types map[string]Rates

// Client asks one Prometheus. It must be closed. The methods of a nil Client say that nothing is known.
type Client struct {
	server *Server
	types  *shared.Value[Types]
}

// New returns a client for the URL of a Prometheus, or nil if that is empty.
func New(address string, logger *slog.Logger) *Client {
	return newClient(address, logger, firstWait, patience)
}

// newClient has Types wait for the first answer, and an answer take, for so long.
func newClient(address string, logger *slog.Logger, wait, timeout time.Duration) *Client {
	server := NewServer(address)
	if server == nil {
		return nil
	}
	c := &Client{server: server}
	c.types = shared.New(shared.Config[Types]{
		Name: "the rates of task types from Prometheus", Ask: c.ask, Fresh: fresh, Wait: wait, Timeout: timeout, Logger: logger,
	})
	return c
}

// Close ends asking.
func (c *Client) Close() {
	if c != nil {
		c.types.Close()
		c.server.Close()
	}
}

// Types are the rates by task type; nil if they are not known.
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

	// The histograms are classic ones or native ones; what is not there is no series.
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
		average, _ = c.byType(ctx, native) // which an old Prometheus does not know
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

// byType is the value of each series of a query by its label "type".
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
		return nil, fmt.Errorf("%s: no answer of a Prometheus: %w", status, err)
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
