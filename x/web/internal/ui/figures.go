package ui

import (
	"context"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/trend"
)

// figure is one number with its recent history.
type figure struct {
	Name, Value, Unit, Note, Class string
	Queue                          string // a link at the end of the note
	But                            string // what the figure excludes
	Spark                          template.HTML
}

// chart is a large chart of some metrics: a static line without scripts, and an interactive chart
// with them.
type chart struct {
	ID, Title, URL, Names, Unit string
	Spark                       template.HTML
}

// sparkSpan is the time range of sparklines.
const sparkSpan = 10 * time.Minute

// lines returns the sparklines of a queue, or of all queues ("").
func (u *UI) lines(ctx context.Context, queue string) trend.Series {
	s, _ := u.history(ctx, trend.Subject{Queue: queue}, []string{"processed", "failed", "pending", "latency", "active", "retry"}, sparkSpan)
	return s
}

// chartSpec describes a chart.
type chartSpec struct {
	id, title, unit string
	names           string // metrics, separated by commas; the sparkline shows the first one
	optional        bool   // it is omitted without data
}

// attemptCharts have only what servers record.
var attemptCharts = []chartSpec{
	{"duration", "Duration of attempts", "s", "duration_p50,duration_p95,duration_p99", true},
	{"wait", "Waiting time before attempts", "s", "wait_p50,wait_p95,wait_p99", true},
}

// charts adds the charts of a queue, or of all queues (""), to a time range.
func (u *UI) charts(ctx context.Context, queue string, span *spanChoice) ([]chart, error) {
	wait := "Age of the oldest pending task"
	if queue == "" {
		wait += ", excluding paused queues"
	}
	all := []chartSpec{
		{"throughput", "Attempts per second", "/s", "processed,failed", false},
		{"waiting", "Waiting tasks", "", "pending,retry", false},
		{"working", "Active tasks", "", "active", false},
		{"latency", wait, "s", "latency", false},
	}
	if queue != "" {
		all = append(all, attemptCharts...)
	}
	return u.chartsOf(ctx, trend.Subject{Queue: queue}, span, all)
}

// chartsOf returns charts. It sets the note of the time range.
func (u *UI) chartsOf(ctx context.Context, of trend.Subject, span *spanChoice, all []chartSpec) ([]chart, error) {
	var names []string
	for _, c := range all {
		names = append(names, strings.Split(c.names, ",")...)
	}
	var lines trend.Series
	lines, span.Note = u.history(ctx, of, names, span.Length)
	kind := ""
	if of.OfType {
		kind = "type"
	}
	var charts []chart
	for _, c := range all {
		first, _, _ := strings.Cut(c.names, ",")
		if c.optional && !slices.ContainsFunc(lines.Values[first], func(v float64) bool { return !math.IsNaN(v) }) {
			continue
		}
		url, err := u.link("/series", "queue", of.Queue, "of", kind, "type", of.Type, "metrics", c.names, "span", span.Text)
		if err != nil {
			return nil, err
		}
		charts = append(charts, chart{ID: "chart-" + c.id, Title: c.title, URL: url, Names: c.names, Unit: c.unit, Spark: spark(first, lines.Values[first])})
	}
	return charts, nil
}
