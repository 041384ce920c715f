package ui

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// queueRow is a queue in a table.
type queueRow struct {
	Name   string
	Error  string // the queue could not be read
	Paused bool
	Info   *asynq.QueueInfo
	Counts []count
	Rate   poll.Rate
	LastAt time.Time // the time of Info, if the queue cannot be read now; zero otherwise
}

func rowOf(q poll.Queue) queueRow {
	row := queueRow{Name: q.Name, Info: q.Info, Rate: q.Rate}
	switch {
	case q.Err != nil:
		row.Error = sentence("Could not read the queue: " + show.Cause(q.Err))
		if q.Last != nil {
			row.Info, row.LastAt = q.Last, q.Last.Timestamp
		}
	case q.Info == nil:
		row.Error = "No data yet."
	}
	if row.Info != nil {
		row.Paused, row.Counts = row.Info.Paused, counts(row.Info)
	}
	return row
}

// queueTable is a table of queues with its order.
type queueTable struct {
	Rows    []queueRow
	Columns []heading
}

// queueOrders are the columns that queues can be sorted by: names ascending, numbers descending.
var queueOrders = []struct {
	key, title, class string
	value             func(queueRow) float64 // nil: the name; not called for queues that could not be read
}{
	{"queue", "Queue", "", nil},
	{"size", "Tasks by state", "wide", func(r queueRow) float64 { return float64(r.Info.Size) }},
	{"pending", "Pending", "n", func(r queueRow) float64 { return float64(r.Info.Pending) }},
	{"active", "Active", "n", func(r queueRow) float64 { return float64(r.Info.Active) }},
	{"scheduled", "Scheduled", "n", func(r queueRow) float64 { return float64(r.Info.Scheduled) }},
	{"retry", "Retry", "n", func(r queueRow) float64 { return float64(r.Info.Retry) }},
	{"archived", "Archived", "n", func(r queueRow) float64 { return float64(r.Info.Archived) }},
	{"processed", "Processed", "n", func(r queueRow) float64 { return r.Rate.Processed }},
	{"failed", "Failed today", "n", func(r queueRow) float64 { return float64(r.Info.Failed) }},
	{"latency", "Latency", "n", func(r queueRow) float64 { return r.Info.Latency.Seconds() }},
	{"memory", "Memory", "n", func(r queueRow) float64 { return float64(r.Info.MemoryUsage) }},
}

// plainTable returns a table that users cannot sort.
func plainTable(rows []queueRow) queueTable {
	t := queueTable{Rows: rows}
	for _, o := range queueOrders {
		t.Columns = append(t.Columns, heading{Name: o.title, Class: o.class})
	}
	return t
}

// sortedTable sorts rows, which are in the order of names, as the parameters sort and desc specify.
func (u *UI) sortedTable(rows []queueRow, query url.Values) (queueTable, error) {
	t := queueTable{Rows: rows}
	by, desc := query.Get("sort"), query.Get("desc") != ""
	for _, o := range queueOrders {
		down := o.value != nil // the first click on the heading
		c := heading{Name: o.title, Class: o.class}
		if o.key == by || by == "" && o.key == "queue" {
			c.Sorted, down = "ascending", !desc
			if desc {
				c.Sorted = "descending"
			}
			sortQueues(t.Rows, o.value, desc)
		}
		order := ""
		if down {
			order = "1"
		}
		var err error
		if c.URL, err = u.link("/queues", "name", query.Get("name"), "trouble", query.Get("trouble"), "sort", o.key, "desc", order); err != nil {
			return t, err
		}
		t.Columns = append(t.Columns, c)
	}
	return t, nil
}

// sortQueues sorts by a number, or by name if value is nil. Queues that could not be read come
// first.
func sortQueues(rows []queueRow, value func(queueRow) float64, desc bool) {
	slices.SortStableFunc(rows, func(a, b queueRow) int {
		c := cmp.Compare(a.Name, b.Name)
		switch {
		case value == nil:
		case a.Info == nil || b.Info == nil:
			return cmp.Compare(len(b.Error), len(a.Error))
		default:
			if n := cmp.Compare(value(a), value(b)); n != 0 {
				c = n
			} else if desc {
				c = -c // equal numbers are in the order of names
			}
		}
		if desc {
			return -c
		}
		return c
	})
}

// dayBar returns a bar with the processed and failed attempts of a day, scaled to the busiest day.
func dayBar(processed, failed, most int) template.HTML {
	const width = 240.0
	scale := width / float64(max(most, 1))
	return template.HTML(fmt.Sprintf(
		`<svg class="bar" viewBox="0 0 240 8" preserveAspectRatio="none" aria-hidden="true"><rect class="nothing" width="240" height="8"/><rect class="processed" width="%.2f" height="8"/><rect class="failed" width="%.2f" height="8"/></svg>`,
		float64(processed)*scale, float64(failed)*scale))
}
