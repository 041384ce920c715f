package ui

import (
	"html/template"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/poll"
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
func (u *UI) lines(queue string) poll.Series {
	return u.Poller.History(queue, []poll.Metric{poll.Processed, poll.Failed, poll.Pending, poll.Latency, poll.Active, poll.Retry}, sparkSpan)
}

// chartSpec describes a chart.
type chartSpec struct {
	id, title, unit string
	names           string // metrics, separated by commas
	first           poll.Metric
}

// charts returns the charts of a queue, or of all queues ("").
func (u *UI) charts(queue string, span spanChoice) ([]chart, error) {
	wait := "Age of the oldest pending task"
	if queue == "" {
		wait += ", excluding paused queues"
	}
	return u.chartsOf(queue, span, []chartSpec{
		{"throughput", "Attempts per second", "/s", "processed,failed", poll.Processed},
		{"waiting", "Waiting tasks", "", "pending,retry", poll.Pending},
		{"working", "Active tasks", "", "active", poll.Active},
		{"latency", wait, "s", "latency", poll.Latency},
	})
}

func (u *UI) chartsOf(queue string, span spanChoice, all []chartSpec) ([]chart, error) {
	metrics := make([]poll.Metric, len(all))
	for i, c := range all {
		metrics[i] = c.first
	}
	lines := u.Poller.History(queue, metrics, span.Length)
	charts := make([]chart, len(all))
	for i, c := range all {
		url, err := u.link("/series", "queue", queue, "metrics", c.names, "span", span.Text)
		if err != nil {
			return nil, err
		}
		charts[i] = chart{ID: "chart-" + c.id, Title: c.title, URL: url, Names: c.names, Unit: c.unit, Spark: spark(c.first.String(), lines.Values[c.first])}
	}
	return charts, nil
}
