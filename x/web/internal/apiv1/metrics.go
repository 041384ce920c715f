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
	// prometheusTimeout bounds all queries of a request together.
	prometheusTimeout = 10 * time.Second

	// maxChart bounds the response of Prometheus for one chart.
	maxChart = 8 << 20

	defaultRange = 3600                 // seconds
	maxRange     = 10 * 365 * 24 * 3600 // seconds
)

// charts are the queries by their names in the response. QUEUES stands for the selector of the
// queues. docs/METRICS.md describes the metrics.
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

// metrics returns the responses of Prometheus for each chart. If one chart fails, it has an error
// in the format of Prometheus, and the others are still returned.
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
		h.Logger.ErrorContext(x.r.Context(), "Prometheus is unavailable", "err", err)
		problem(x.w, http.StatusBadGateway, fmt.Sprintf("Prometheus is unavailable: %v", err))
		return
	}
	for name := range charts {
		if answers[name] == nil {
			answers[name] = unavailable(err)
		}
	}
	h.answer(x, answers)
}

// rangeOf parses the range of a query: duration and endtime in seconds, and queues, separated by
// commas.
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

// stepOf returns the distance of points in seconds, such that a chart has at most about 4,000
// points. Prometheus allows 11,000.
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

// allCharts queries all charts concurrently. The error is that of a failed chart.
func (h *handler) allCharts(ctx context.Context, params url.Values, selector string) (answers map[string]json.RawMessage, failed error) {
	ctx, cancel := context.WithTimeout(ctx, prometheusTimeout)
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

// chart returns the response of Prometheus to one query, which may be an error.
func (h *handler) chart(ctx context.Context, params url.Values, query string) (json.RawMessage, error) {
	params = maps.Clone(params)
	params.Set("query", query)
	body, status, err := h.prometheus.Ask(ctx, "/api/v1/query_range", params, maxChart)
	switch {
	case err != nil:
		return nil, err
	case !json.Valid(body):
		return nil, fmt.Errorf("response is not JSON (status %s)", status)
	}
	return body, nil
}

// unavailable returns an error in the format of Prometheus.
func unavailable(err error) json.RawMessage {
	text, failed := json.Marshal(struct {
		Status string `json:"status"`
		Type   string `json:"errorType"`
		Error  string `json:"error"`
	}{"error", "unavailable", err.Error()})
	if failed != nil { // cannot fail: three strings
		return json.RawMessage(`{"status":"error"}`)
	}
	return text
}
