package ui

import (
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// mostDots is the maximum number of runs on the timeline.
const mostDots = 100

type scheduleBody struct {
	ID       string
	Entry    *entryRow // nil: no running scheduler has it
	Upcoming []time.Time
	Events   []*asynq.SchedulerEnqueueEvent
	Dots     timeline
	Page     int
	More     bool
}

// schedule is the page of one scheduler entry.
func (u *UI) schedule(r *http.Request) (*view, error) {
	body := scheduleBody{ID: r.URL.Query().Get("id"), Page: 1}
	if n, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil && n > 1 && n <= 1000 {
		body.Page = n
	}
	title := "Schedule"
	for _, e := range u.Poller.Latest().Entries {
		if e.ID != body.ID {
			continue
		}
		row := u.entryRow(e)
		body.Entry, title = &row, row.Type
		from := row.Next
		if row.ticks != nil && !from.IsZero() {
			body.Upcoming = append([]time.Time{from}, row.ticks.After(from, 4)...)
		}
	}
	inspector, cancel := u.inspector(r)
	defer cancel()
	size := settingsOf(r).Size
	events, err := inspector.ListSchedulerEnqueueEvents(body.ID, asynq.Page(body.Page), asynq.PageSize(size))
	if err != nil {
		return nil, err
	}
	if body.Entry == nil && len(events) == 0 && body.Page == 1 {
		return nil, notFound("There is no schedule with the ID %q and no history of one. A scheduler that restarts gives its entries new IDs.", body.ID)
	}
	body.Events, body.More = events, len(events) == size
	dots := events
	if body.Page > 1 || size < mostDots {
		if dots, err = inspector.ListSchedulerEnqueueEvents(body.ID, asynq.PageSize(mostDots)); err != nil {
			return nil, err
		}
	}
	body.Dots = newTimeline(dots, body.Upcoming, u.now())
	return &view{Template: "schedule", Title: title, Nav: "/schedulers", Body: body}, nil
}

// timeline shows past and future runs.
type timeline struct {
	SVG      template.HTML
	From, To time.Time
	Count    int
}

// newTimeline draws the events, which are sorted newest first, and the next runs. Past runs take at
// least two thirds of the line.
func newTimeline(events []*asynq.SchedulerEnqueueEvent, upcoming []time.Time, now time.Time) timeline {
	if len(events) == 0 && len(upcoming) == 0 {
		return timeline{}
	}
	line := timeline{From: now, To: now}
	events = events[:min(len(events), mostDots)]
	line.Count = len(events)
	if line.Count > 0 {
		if first := events[line.Count-1].EnqueuedAt; first.Before(now) {
			line.From = first
		}
	}
	past := now.Sub(line.From)
	for _, t := range upcoming {
		if t.After(now) && (past == 0 || t.Sub(now) <= past/2) {
			line.To = t
		}
	}
	const width, margin, high = 1000.0, 8.0, 28.0
	span := max(line.To.Sub(line.From).Seconds(), 1)
	x := func(t time.Time) float64 { return margin + (width-2*margin)*t.Sub(line.From).Seconds()/span }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="timeline" viewBox="0 0 1000 28" preserveAspectRatio="none" role="img" aria-label="timeline of %d runs"><path class="axis" d="M8 14H992"/>`, line.Count)
	for _, e := range events {
		fmt.Fprintf(&b, `<path class="ran" d="M%.1f 14h0"/>`, min(x(e.EnqueuedAt), width-margin))
	}
	for _, t := range upcoming {
		if !t.After(line.To) && t.After(now) {
			fmt.Fprintf(&b, `<path class="comes" d="M%.1f 14h0"/><path class="inner" d="M%[1]f 14h0"/>`, x(t))
		}
	}
	fmt.Fprintf(&b, `<path class="now" d="M%.1f 3V%.0f"/></svg>`, x(now), high-3)
	line.SVG = template.HTML(b.String()) // contains only numbers
	return line
}
