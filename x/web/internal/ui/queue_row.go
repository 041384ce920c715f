package ui

import (
	"fmt"
	"html/template"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// queueRow is a queue as tables show it.
type queueRow struct {
	Name   string
	Error  string // it could not be looked at
	Paused bool
	Info   *asynq.QueueInfo
	Counts []count
	Rate   poll.Rate
}

func rowOf(q poll.Queue) queueRow {
	row := queueRow{Name: q.Name, Info: q.Info, Rate: q.Rate}
	switch {
	case q.Err != nil:
		row.Error = sentence(q.Err.Error())
	case q.Info == nil:
		row.Error = "Nothing is known of it yet."
	default:
		row.Paused = q.Info.Paused
		row.Counts = counts(q.Info)
	}
	return row
}

// dayBar is how much of a day's attempts failed, on a scale up to the most of a day.
func dayBar(processed, failed, most int) template.HTML {
	const width = 240.0
	scale := width / float64(max(most, 1))
	return template.HTML(fmt.Sprintf(
		`<svg class="bar" viewBox="0 0 240 8" preserveAspectRatio="none" aria-hidden="true"><rect class="nothing" width="240" height="8"/><rect class="processed" width="%.2f" height="8"/><rect class="failed" width="%.2f" height="8"/></svg>`,
		float64(processed)*scale, float64(failed)*scale))
}
