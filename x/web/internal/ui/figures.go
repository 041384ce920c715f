package ui

import (
	"html/template"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// figure is one number with its recent history.
type figure struct {
	Name, Value, Unit, Note, Class string
	Queue                          string // that the note ends with
	But                            string // what the figure leaves out
	Spark                          template.HTML
}

// chart is a larger picture of some metrics: a line without scripts, and with them one that can be looked at closely.
type chart struct {
	ID, Title, URL, Names, Unit string
	Spark                       template.HTML
}

// sparkSpan is the time that the small lines show.
const sparkSpan = 10 * time.Minute

// lines are the small lines of a queue, or of all.
func (u *UI) lines(queue string) poll.Series {
	return u.Poller.History(queue, []poll.Metric{poll.Processed, poll.Failed, poll.Pending, poll.Latency, poll.Active, poll.Retry}, sparkSpan)
}

// chartSpec says what a chart shows.
type chartSpec struct {
	id, title, unit string
	names           string // of metrics, with commas
	first           poll.Metric
}

// charts are the large pictures of a queue, or of all.
func (u *UI) charts(queue string, span spanChoice) ([]chart, error) {
	wait := "Wait of the oldest pending task"
	if queue == "" {
		wait += ", without paused queues"
	}
	return u.chartsOf(queue, span, []chartSpec{
		{"throughput", "Attempts per second", "/s", "processed,failed", poll.Processed},
		{"waiting", "Tasks waiting", "", "pending,retry", poll.Pending},
		{"working", "Tasks being processed", "", "active", poll.Active},
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
