package apiv1

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// prometheusPatience is how long all queries of a request may take together.
	prometheusPatience = 10 * time.Second

	// maxChart bounds the answer of Prometheus for one chart.
	maxChart = 8 << 20

	defaultRange = 3600                 // seconds
	maxRange     = 10 * 365 * 24 * 3600 // seconds
)

// charts are the queries, by their names in the answer; QUEUES stands for the selector of the queues. The metrics are those of
// docs/METRICS.md.
var charts = map[string]string{
	"queue_size":                      `asynq_queue_size{QUEUES}`,
	"queue_latency_seconds":           `asynq_queue_latency_seconds{QUEUES}`,
	"queue_memory_usage_approx_bytes": `asynq_queue_memory_usage_approx_bytes{QUEUES}`,
	"tasks_processed_per_second":      `rate(asynq_tasks_processed_total{QUEUES}[5m])`,
	"tasks_failed_per_second":         `rate(asynq_tasks_failed_total{QUEUES}[5m])`,
	"error_rate":                      `rate(asynq_tasks_failed_total{QUEUES}[5m]) / rate(asynq_tasks_processed_total{QUEUES}[5m])`,
	"pending_tasks_by_queue":          `asynq_tasks_enqueued_total{state="pending",QUEUES}`,
	"retry_tasks_by_queue":            `asynq_tasks_enqueued_total{state="retry",QUEUES}`,
	"archived_tasks_by_queue":         `asynq_tasks_enqueued_total{state="archived",QUEUES}`,
}

// metrics answers with what Prometheus says for each chart. A chart that it does not answer for has an error in its form, and the others
// are there.
func (h *handler) metrics(x *exchange) {
	if !h.mayView(x) {
		return
	}
	if h.prometheus == nil {
		problem(x.w, http.StatusNotFound, "no Prometheus is configured: set PrometheusAddress (asynq web --prometheus-addr)")
		return
	}
	params, selector, err := rangeOf(x.r.URL.Query(), time.Now())
	if err != nil {
		h.fail(x, err)
		return
	}
	answers, err := h.allCharts(x.r.Context(), params, selector)
	if len(answers) == 0 {
		h.Logger.ErrorContext(x.r.Context(), "Prometheus does not answer", "err", err)
		problem(x.w, http.StatusBadGateway, fmt.Sprintf("Prometheus does not answer: %v", err))
		return
	}
	for name := range charts {
		if answers[name] == nil {
			answers[name] = unavailable(err)
		}
	}
	h.answer(x, answers)
}

// rangeOf reads the range of a query: duration and endtime in seconds, and queues, separated by commas.
func rangeOf(q url.Values, now time.Time) (params url.Values, selector string, err error) {
	duration, err := number(q, "duration", defaultRange, maxRange)
	if err != nil {
		return nil, "", err
	}
	end, err := number(q, "endtime", int(now.Unix()), 1<<40)
	if err != nil {
		return nil, "", err
	}
	if names := strings.FieldsFunc(q.Get("queues"), func(r rune) bool { return r == ',' }); len(names) > 0 {
		for n, name := range names {
			if !utf8.ValidString(name) {
				name = strconv.Quote(name) // as the exporter writes it
			}
			names[n] = regexp.QuoteMeta(name)
		}
		selector = "queue=~" + strconv.Quote(strings.Join(names, "|"))
	}
	return url.Values{
		"start": {strconv.Itoa(end - duration)}, "end": {strconv.Itoa(end)}, "step": {strconv.Itoa(stepOf(duration))},
	}, selector, nil
}

// stepOf tells how many seconds the points of a chart are apart: so that it has some 4,000 points at most, of 11,000 that Prometheus allows.
func stepOf(duration int) int {
	const hour = 3600
	switch {
	case duration <= 6*hour:
		return 10
	case duration <= 24*hour:
		return 60
	case duration <= 8*24*hour:
		return 3 * 60
	case duration <= 20*24*hour:
		return 10 * 60
	default:
		return duration / 3000
	}
}

// allCharts asks for all charts at once. The error is one of those that were not answered.
func (h *handler) allCharts(ctx context.Context, params url.Values, selector string) (answers map[string]json.RawMessage, failed error) {
	ctx, cancel := context.WithTimeout(ctx, prometheusPatience)
	defer cancel()
	answers = make(map[string]json.RawMessage, len(charts))
	var mu sync.Mutex
	var asked sync.WaitGroup
	for name, query := range charts {
		asked.Go(func() {
			answer, err := h.chart(ctx, params, strings.ReplaceAll(query, "QUEUES", selector))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			answers[name] = answer
		})
	}
	asked.Wait()
	return answers, failed
}

// chart returns what Prometheus says to one query, be it an error.
func (h *handler) chart(ctx context.Context, params url.Values, query string) (json.RawMessage, error) {
	params = maps.Clone(params)
	params.Set("query", query)
	body, status, err := h.prometheus.Ask(ctx, "/api/v1/query_range", params, maxChart)
	switch {
	case err != nil:
		return nil, err
	case !json.Valid(body):
		return nil, fmt.Errorf("its answer is no JSON (status %s)", status)
	}
	return body, nil
}

// unavailable is an error in the form of Prometheus.
func unavailable(err error) json.RawMessage {
	text, failed := json.Marshal(struct {
		Status string `json:"status"`
		Type   string `json:"errorType"`
		Error  string `json:"error"`
	}{"error", "unavailable", err.Error()})
	if failed != nil { // three strings
		return json.RawMessage(`{"status":"error"}`)
	}
	return text
}
