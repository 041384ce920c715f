package ui

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

type queueBody struct {
	Row      queueRow
	Causes   []causeBox
	Figures  []figure
	Charts   []chart
	Span     spanChoice
	Days     []*asynq.DailyStats
	MostADay int

	Partitioned bool // it has partitions with tasks
}

// queue is the page of one queue.
func (u *UI) queue(r *http.Request) (*view, error) {
	name := r.URL.Query().Get("queue")
	row, ok := u.row(name)
	if !ok {
		return nil, notFound("There is no queue %q. A queue is created by its first task.", name)
	}
	body := queueBody{Row: row}
	body.Causes = u.causesThat(func(c *health.Cause) bool { return slices.Contains(c.Queues, name) })
	if row.Info != nil {
		if err := u.fillQueue(r, &body); err != nil {
			return nil, err
		}
	}
	return &view{Template: "queue", Title: name, Nav: "/queues", Body: body}, nil
}

// row returns a queue of the latest snapshot.
func (u *UI) row(name string) (queueRow, bool) {
	for _, q := range u.Poller.Latest().Queues {
		if q.Name == name {
			return rowOf(q), true
		}
	}
	return queueRow{}, false
}

// fillQueue fills in everything that requires a readable queue.
func (u *UI) fillQueue(r *http.Request, body *queueBody) error {
	inspector, cancel := u.inspector(r)
	defer cancel()
	days, err := inspector.History(body.Row.Name, 30)
	if err != nil && body.Row.LastAt.IsZero() {
		return err
	}
	for len(days) > 7 && days[len(days)-1].Processed == 0 { // days before the first task
		days = days[:len(days)-1]
	}
	body.Days = days
	for _, d := range days {
		body.MostADay = max(body.MostADay, d.Processed)
	}
	lines := u.lines(r.Context(), body.Row.Name)
	info, rate := body.Row.Info, body.Row.Rate
	body.Figures = []figure{
		{Name: "Processed", Value: show.PerSecond(rate.Processed), Unit: "/s", Note: show.Number(int64(info.Processed)) + " today", Spark: spark("processed", lines.Values["processed"])},
		{Name: "Failed", Value: show.PerSecond(rate.Failed), Unit: "/s", Note: show.Number(int64(info.Failed)) + " today, " + show.Percent(float64(info.Failed), float64(info.Processed)), Spark: spark("failed", lines.Values["failed"])},
		{Name: "Latency", Value: show.Duration(info.Latency), Note: "age of the oldest pending task", Spark: spark("latency", lines.Values["latency"])},
		{Name: "Memory", Value: show.Bytes(info.MemoryUsage), Note: "estimated from a sample"},
	}
	ctx, stop := context.WithTimeout(r.Context(), requestTimeout)
	defer stop()
	for _, err := range inspector.Partitions(ctx, body.Row.Name) {
		body.Partitioned = err == nil // the first one is enough
		break
	}
	body.Span = u.spanOf(r, recordedSpans)
	body.Charts, err = u.charts(r.Context(), body.Row.Name, &body.Span)
	return err
}

// changeQueue pauses, resumes or deletes a queue.
func (u *UI) changeQueue(w http.ResponseWriter, r *http.Request) (*view, error) {
	name := r.PostForm.Get("queue")
	do, ok := map[string]struct {
		verb access.Verb
		call func(*asynq.Inspector) error
		said string
	}{
		"pause":  {access.QueuePause, func(i *asynq.Inspector) error { return i.PauseQueue(name) }, "Queue paused. Its active tasks continue."},
		"resume": {access.QueueResume, func(i *asynq.Inspector) error { return i.UnpauseQueue(name) }, "Queue resumed."},
		"delete": {access.QueueDelete, func(i *asynq.Inspector) error { return i.DeleteQueue(name, true) }, "Queue and tasks deleted."},
	}[r.PostForm.Get("do")]
	if !ok {
		return nil, invalid("Unknown action %q: a queue can be paused, resumed or deleted.", r.PostForm.Get("do"))
	}
	action := access.Action{Verb: do.verb, Queue: name}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	if do.verb == access.QueueDelete && typed(r.PostForm.Get("confirm")) != typed(name) {
		return u.askDeleteQueue(r, name)
	}
	inspector, cancel := u.inspector(r)
	defer cancel()
	err := do.call(inspector)
	u.Gate.Done(r, action, err)
	u.Poller.Wake()
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound):
		return nil, err
	case err != nil:
		u.say(w, r, flash{Text: sentence(err.Error()), Bad: true})
	default:
		u.say(w, r, flash{Text: do.said})
	}
	if do.verb == access.QueueDelete && err == nil {
		return u.to(w, r, "/queues")
	}
	return u.to(w, r, "/queue", "queue", name)
}

func (u *UI) askDeleteQueue(r *http.Request, name string) (*view, error) {
	inspector, cancel := u.inspector(r)
	defer cancel()
	info, err := inspector.WithMemorySamples(0).GetQueueInfo(name)
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound):
		return nil, notFound("There is no queue %q.", name)
	case err != nil:
		return nil, err
	}
	q := question{
		Title: "Delete queue " + name + "?", Button: "Delete queue", Action: "/queue", Type: typed(name), Harm: true,
		Fields: []field{{"queue", name}, {"do", "delete"}},
		Text: []string{
			"This deletes " + show.Plural(int64(info.Size), "task") + ", all results and the statistics of the queue. This cannot be undone. The queue is recreated when a client enqueues to it.",
		},
	}
	if info.Active > 0 {
		q.Bar = activeBar(info.Active)
	}
	return u.ask(r, q)
}

// are returns "is" or "are".
func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// activeBar explains why a queue with active tasks cannot be deleted.
func activeBar(n int) string {
	return show.Plural(int64(n), "task") + " " + are(n) + " active. Pause the queue, and delete it when no task is active."
}
