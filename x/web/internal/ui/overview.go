package ui

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// overviewBody is the first page: the health and the load of the system.
type overviewBody struct {
	QueueCount, ServerCount, Busy, Slots int
	Figures                              []figure
	Charts                               []chart
	Span                                 spanChoice
	Table                                queueTable
	Health                               []causeBox // the most severe ones
	Muted                                []causeBox
	More                                 int // number of causes that are not shown
}

const (
	mostRows   = 10 // queues on the overview: the busiest ones
	mostCauses = 20
)

func (u *UI) overview(r *http.Request) (*view, error) {
	s := u.Poller.Latest()
	body := overviewBody{QueueCount: len(s.Queues), ServerCount: len(s.Servers), Span: u.spanOf(r, recordedSpans)}
	for _, server := range s.Servers {
		body.Slots += server.Concurrency
		body.Busy += len(server.ActiveWorkers)
	}
	body.Health = u.causeBoxes(s.Health.Causes[:min(len(s.Health.Causes), mostCauses)])
	body.Muted = u.causeBoxes(s.Health.Muted)
	body.More = len(s.Health.Causes) - len(body.Health)
	var rows []queueRow
	var rate poll.Rate
	var waits waits
	for _, q := range s.Queues {
		rows = append(rows, rowOf(q))
		rate.Processed += q.Rate.Processed
		rate.Failed += q.Rate.Failed
		if q.Info != nil {
			waits.add(q.Name, q.Info)
		}
	}
	slices.SortStableFunc(rows, func(a, b queueRow) int { return cmp.Compare(busyness(b), busyness(a)) })
	body.Table = plainTable(rows[:min(len(rows), mostRows)])

	lines := u.lines(r.Context(), "")
	share := "no attempts"
	if rate.Processed > 0 {
		share = show.Percent(rate.Failed, rate.Processed) + " of attempts"
	}
	body.Figures = []figure{
		{Name: "Processed", Value: show.PerSecond(rate.Processed), Unit: "/s", Note: "attempts finished", Spark: spark("processed", lines.Values["processed"])},
		{Name: "Failed", Value: show.PerSecond(rate.Failed), Unit: "/s", Note: share, Spark: spark("failed", lines.Values["failed"])},
		waits.pending(), waits.latency(),
	}
	body.Figures[2].Spark, body.Figures[3].Spark = spark("pending", lines.Values["pending"]), spark("latency", lines.Values["latency"])
	var err error
	body.Charts, err = u.charts(r.Context(), "", &body.Span)
	return &view{Template: "overview", Title: "Overview", Nav: "/", Body: body}, err
}

// busyness is the default order of queues: those that could not be read first, then the busiest.
func busyness(r queueRow) float64 {
	if r.Error != "" {
		return 1e18
	}
	return float64(r.Info.Size-r.Info.Completed) + r.Rate.Processed
}

// waits sums up the pending tasks and the age of the oldest. Paused queues do not count for the
// age: their tasks wait intentionally and would hide the latency of all others. Queues without
// servers do count, so that the latency does not drop when a server crashes.
type waits struct {
	tasks, paused int // paused: the tasks in paused queues
	queues        int // number of paused queues with pending tasks
	oldest        time.Duration
	queue         string // the queue of the oldest task
}

func (w *waits) add(queue string, info *asynq.QueueInfo) {
	w.tasks += info.Pending
	switch {
	case info.Pending == 0:
	case info.Paused:
		w.paused += info.Pending
		w.queues++
	case w.queue == "" || info.Latency > w.oldest:
		w.oldest, w.queue = info.Latency, queue
	}
}

func (w *waits) pending() figure {
	f := figure{Name: "Pending", Value: show.Number(int64(w.tasks)), Note: "ready to run"}
	if w.paused > 0 {
		f.Note = show.Number(int64(w.paused)) + " of them in paused queues"
	}
	return f
}

func (w *waits) latency() figure {
	f := figure{Name: "Latency", Value: show.Duration(w.oldest), Note: "age of the oldest pending task"}
	if w.queue != "" {
		f.Note, f.Queue = "oldest pending task in", w.queue
	}
	if w.queues > 0 {
		f.But = "excluding " + show.Plural(int64(w.queues), "paused queue")
	}
	return f
}
