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

// overviewBody is the first page: is all well, and how much is going on.
type overviewBody struct {
	QueueCount, ServerCount, Busy, Slots int
	Figures                              []figure
	Charts                               []chart
	Span                                 spanChoice
	Table                                queueTable
	Health                               []poll.Verdict // the worst
	More                                 int            // verdicts that are not shown
}

const (
	mostRows     = 10 // queues that the overview shows: those with the most going on
	mostVerdicts = 20 // thousands of queues may have the same trouble
)

func (u *UI) overview(r *http.Request) (*view, error) {
	s := u.Poller.Latest()
	body := overviewBody{QueueCount: len(s.Queues), ServerCount: len(s.Servers), Span: u.spanOf(r)}
	for _, server := range s.Servers {
		body.Slots += server.Concurrency
		body.Busy += len(server.ActiveWorkers)
	}
	body.Health = s.Health[:min(len(s.Health), mostVerdicts)]
	body.More = len(s.Health) - len(body.Health)
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

	lines := u.lines("")
	share := "no attempts"
	if rate.Processed > 0 {
		share = show.Percent(rate.Failed, rate.Processed) + " of attempts"
	}
	body.Figures = []figure{
		{Name: "Processed", Value: show.PerSecond(rate.Processed), Unit: "/s", Note: "attempts that ended", Spark: spark("processed", lines.Values[poll.Processed])},
		{Name: "Failed", Value: show.PerSecond(rate.Failed), Unit: "/s", Note: share, Spark: spark("failed", lines.Values[poll.Failed])},
		waits.pending(), waits.latency(),
	}
	body.Figures[2].Spark, body.Figures[3].Spark = spark("pending", lines.Values[poll.Pending]), spark("latency", lines.Values[poll.Latency])
	var err error
	body.Charts, err = u.charts("", body.Span)
	return &view{Template: "overview", Title: "Overview", Nav: "/", Body: body}, err
}

// busyness orders queues by what people want to see first: those that cannot be looked at, and then those with the most to do.
func busyness(r queueRow) float64 {
	if r.Info == nil {
		return 1e18
	}
	return float64(r.Info.Size) + r.Rate.Processed
}

// waits is how many pending tasks there are, and for how long the oldest has been waiting. That of a paused queue waits because somebody
// wants it to, and would hide how all others fare: it is left out. One that no server listens to counts, since its tasks ought to run:
// when a server dies, the wait is not to become shorter.
type waits struct {
	tasks, paused int // paused: those of tasks that are in paused queues
	queues        int // that are paused, and have such tasks
	oldest        time.Duration
	queue         string // in which the oldest is
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
	f := figure{Name: "Pending", Value: show.Number(int64(w.tasks)), Note: "tasks that could run now"}
	if w.paused > 0 {
		f.Note = "tasks, of which " + show.Number(int64(w.paused)) + " in paused queues"
	}
	return f
}

func (w *waits) latency() figure {
	f := figure{Name: "Latency", Value: show.Duration(w.oldest), Note: "wait of the oldest of them"}
	if w.queue != "" {
		f.Note, f.Queue = "wait of the oldest, in", w.queue
	}
	if w.queues > 0 {
		f.But = "without " + show.Plural(int64(w.queues), "paused queue")
	}
	return f
}
