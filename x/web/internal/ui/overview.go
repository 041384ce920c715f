package ui

import (
	"cmp"
	"net/http"
	"slices"

	"time"

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
	var waiting int
	var oldest time.Duration
	for _, q := range s.Queues {
		rows = append(rows, rowOf(q))
		rate.Processed += q.Rate.Processed
		rate.Failed += q.Rate.Failed
		if q.Info != nil {
			waiting += q.Info.Pending
			oldest = max(oldest, q.Info.Latency)
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
		{Name: "Pending", Value: show.Number(int64(waiting)), Note: "tasks that could run now", Spark: spark("pending", lines.Values[poll.Pending])},
		{Name: "Latency", Value: show.Duration(oldest), Note: "wait of the oldest of them", Spark: spark("latency", lines.Values[poll.Latency])},
	}
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
