package ui

import (
	"cmp"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/prom"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/survey"
	"github.com/asynq-go/asynq/x/web/internal/trend"
)

type typesBody struct {
	Survey     surveyNote
	Filter     string
	Columns    []heading
	Rows       []typeRow
	Pages      pager
	States     []string
	Prometheus prometheusNote
	Span       spanChoice
	Recorded   bool // servers have recorded attempts in the time range
}

// prometheusNote describes why there are no rates.
type prometheusNote struct {
	Configured bool
	Error      string
}

// typeRow is a task type in a table.
type typeRow struct {
	*survey.Type
	Counts           []count
	Running          int
	Longest, Average time.Duration       // of running tasks
	Rates            *prom.Rates         // nil: unknown
	Stats            *asynq.AttemptStats // in the time range; nil: none recorded
}

// In returns the number of tasks in a state.
func (r typeRow) In(state string) int {
	for _, c := range r.Counts {
		if c.State == state {
			return c.N
		}
	}
	return 0
}

// Search returns a filter for the tasks of the type.
func (r typeRow) Search() string { return "type=" + quoteFilter(r.Name) }

// TookText returns the average duration of handlers as text; empty if unknown.
func (r typeRow) TookText() string {
	d, ok := r.Took()
	if !ok {
		return ""
	}
	return show.Duration(d)
}

// Took returns the average duration of handlers in the last five minutes.
func (r typeRow) Took() (time.Duration, bool) {
	if r.Rates == nil || math.IsNaN(r.Rates.Average) {
		return 0, false
	}
	return time.Duration(r.Rates.Average * float64(time.Second)), true
}

const typesAPage = 100

// types is the page with the task types: of stored tasks, of running tasks, and those known to
// Prometheus.
func (u *UI) types(r *http.Request) (*view, error) {
	result, err := u.surveyed(r.Context())
	body := typesBody{Survey: noteOf(result, err), Filter: r.URL.Query().Get("name"), States: stateNames, Prometheus: prometheusNote{Configured: u.Prometheus != nil}, Span: u.spanOf(r, statsSpans)}
	rates, err := u.Prometheus.Types(r.Context())
	if err != nil {
		body.Prometheus.Error = sentence(err.Error())
	}
	stats := u.typeStats(r.Context(), &body.Span)
	body.Recorded = len(stats) > 0
	for _, row := range typeRows(result, u.Poller.Latest(), rates, stats) {
		if strings.Contains(strings.ToLower(row.Name), strings.ToLower(body.Filter)) {
			body.Rows = append(body.Rows, row)
		}
	}
	rate := func(r typeRow) float64 {
		if r.Rates == nil {
			return -1
		}
		return r.Rates.Attempts
	}
	share := func(r typeRow) float64 { return float64(r.Failed()) / math.Max(1, float64(r.N)) }
	took := func(r typeRow) time.Duration { d, _ := r.Took(); return d }
	sorts := []sorting[typeRow]{
		{"type", "Type", "", func(a, b typeRow) int { return strings.Compare(b.Name, a.Name) }},
		{"", "Tasks by state", "wide", nil},
		{"tasks", "Tasks", "n", func(a, b typeRow) int { return cmp.Compare(a.N, b.N) }},
		{"running", "Running", "n", func(a, b typeRow) int { return cmp.Compare(a.Running, b.Running) }},
		{"longest", "Longest", "n", func(a, b typeRow) int { return cmp.Compare(a.Longest, b.Longest) }},
		{"failed", "Failed", "n", func(a, b typeRow) int { return cmp.Compare(a.Failed(), b.Failed()) }},
		{"share", "Failed share", "n", func(a, b typeRow) int { return cmp.Compare(share(a), share(b)) }},
		{"hour", "Completed in 1 h", "n", func(a, b typeRow) int { return cmp.Compare(a.LastHour, b.LastHour) }},
	}
	first := "tasks"
	if body.Recorded {
		first = "attempts"
		sorts = append(sorts,
			sorting[typeRow]{"attempts", "Attempts", "n", func(a, b typeRow) int { return cmp.Compare(a.Attempts(), b.Attempts()) }},
			sorting[typeRow]{"attempts_failed", "Failed attempts", "n", func(a, b typeRow) int { return cmp.Compare(a.FailedAttempts(), b.FailedAttempts()) }},
			sorting[typeRow]{"p95", "Duration p95", "n", func(a, b typeRow) int { return cmp.Compare(a.P95(), b.P95()) }},
			sorting[typeRow]{"total", "Total duration", "n", func(a, b typeRow) int { return cmp.Compare(a.TotalDuration(), b.TotalDuration()) }})
	}
	if body.Prometheus.Configured { // only Prometheus has these
		sorts = append(sorts,
			sorting[typeRow]{"rate", "Attempts/s", "n", func(a, b typeRow) int { return cmp.Compare(rate(a), rate(b)) }},
			sorting[typeRow]{"took", "Duration", "n", func(a, b typeRow) int { return cmp.Compare(took(a), took(b)) }})
	}
	if body.Columns, err = sortBy(u, r, body.Rows, sorts, first); err != nil {
		return nil, err
	}
	body.Rows, body.Pages, err = pageOf(u, r, body.Rows, typesAPage)
	return &view{Template: "types", Title: "Task types", Nav: "/types", Body: body}, err
}

// typeRows joins the sources of task types.
func typeRows(result *survey.Result, s *poll.Snapshot, rates prom.Types, stats map[string]*asynq.AttemptStats) []typeRow {
	rows := make(map[string]*typeRow)
	row := func(name string) *typeRow {
		if rows[name] == nil {
			rows[name] = &typeRow{Type: &survey.Type{Name: name}}
		}
		return rows[name]
	}
	for _, t := range result.Types {
		row(t.Name).Type = t
	}
	for _, server := range s.Servers {
		for _, w := range server.ActiveWorkers {
			t, d := row(w.TaskType), max(s.At.Sub(w.Started), 0)
			t.Running++
			t.Longest = max(t.Longest, d)
			t.Average += d
		}
	}
	for name, r := range rates {
		row(name).Rates = &r
	}
	for name, s := range stats {
		row(name).Stats = s
	}
	all := make([]typeRow, 0, len(rows))
	for _, t := range rows {
		if t.Running > 0 {
			t.Average /= time.Duration(t.Running)
		}
		t.Counts = countsOf(t.Shares)
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b typeRow) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// countsOf returns the number of tasks by state.
func countsOf(shares []survey.Share) []count {
	all := make([]count, len(stateNames))
	for i, state := range stateNames {
		all[i].State = state
		for _, s := range shares {
			if s.State.String() == state {
				all[i].N += s.N
			}
		}
	}
	return all
}

// typeBody is the page of one task type.
type typeBody struct {
	Survey  surveyNote
	Row     typeRow
	Figures []figure
	States  []string
	Queues  []typeQueue
	Errors  []errorRow
	Running []typeRun
	Tasks   []survey.Ref
	Span    spanChoice
	Charts  []chart
}

// typeQueue is the number of tasks of a type in a queue, by state.
type typeQueue struct {
	Name   string
	N      int
	Counts []count
}

// typeRun is a running task of a type.
type typeRun struct {
	*asynq.WorkerInfo
	Server string
	For    time.Duration
}

const (
	mostErrors   = 10 // on the page of a type
	mostTypeRuns = 20
)

// taskType is the page of one task type.
func (u *UI) taskType(r *http.Request) (*view, error) {
	name := r.URL.Query().Get("type")
	result, err := u.surveyed(r.Context())
	body := typeBody{Survey: noteOf(result, err), States: stateNames}
	rates, _ := u.Prometheus.Types(r.Context()) // the page with all types shows the error
	s := u.Poller.Latest()
	body.Span = u.spanOf(r, statsSpans)
	rows := typeRows(result, s, rates, u.typeStats(r.Context(), &body.Span))
	n := slices.IndexFunc(rows, func(t typeRow) bool { return t.Name == name })
	switch {
	case n >= 0:
		body.Row = rows[n]
	case body.Survey.Whole:
		return nil, notFound("No sampled or running task has the type %q.", name)
	default:
		body.Row = typeRow{Type: &survey.Type{Name: name}, Counts: countsOf(nil)}
	}
	body.Figures = typeFigures(body.Row)
	note := body.Span.Note
	if body.Charts, err = u.chartsOf(r.Context(), trend.Subject{Type: name, OfType: true}, &body.Span, typeCharts); err != nil {
		return nil, err
	}
	body.Span.Note = cmp.Or(body.Span.Note, note)
	body.Tasks = body.Row.Tasks
	for _, share := range body.Row.Shares {
		if !slices.ContainsFunc(body.Queues, func(q typeQueue) bool { return q.Name == share.Queue }) {
			var of []survey.Share
			for _, s := range body.Row.Shares {
				if s.Queue == share.Queue {
					of = append(of, s)
				}
			}
			body.Queues = append(body.Queues, typeQueue{share.Queue, survey.Sum(of, "", 0), countsOf(of)})
		}
	}
	for _, f := range result.Failures {
		if f.Of(name) != nil && len(body.Errors) < mostErrors {
			body.Errors = append(body.Errors, errorRowOf(f, "", &name))
		}
	}
	for _, server := range s.Servers {
		for _, w := range server.ActiveWorkers {
			if w.TaskType == name {
				body.Running = append(body.Running, typeRun{w, server.Host, max(s.At.Sub(w.Started), 0)})
			}
		}
	}
	slices.SortFunc(body.Running, func(a, b typeRun) int { return cmp.Compare(b.For, a.For) })
	body.Running = body.Running[:min(len(body.Running), mostTypeRuns)]
	return &view{Template: "type", Title: cmp.Or(name, "Unreadable tasks"), Nav: "/types", Body: body}, nil
}

func typeFigures(t typeRow) []figure {
	figures := []figure{
		{Name: "Running", Value: show.Number(int64(t.Running)), Note: "active tasks"},
		{Name: "Failed", Value: show.Number(int64(t.Failed())), Note: show.Percent(float64(t.Failed()), float64(t.N)) + " of " + show.Plural(int64(t.N), "task")},
		{Name: "Completed", Value: show.Number(int64(t.LastHour)), Note: "in the last hour, with a Retention"},
	}
	if t.Running > 0 {
		figures[0].Note = "longest " + show.Duration(t.Longest) + ", average " + show.Duration(t.Average)
	}
	if t.Stats != nil {
		figures = append(figures,
			figure{Name: "Attempts", Value: show.Number(t.Attempts()), Note: show.Percent(float64(t.FailedAttempts()), float64(t.Attempts())) + " failed, in the time range"},
			figure{Name: "Duration p95", Value: show.Duration(t.P95()), Note: "total " + show.Duration(t.TotalDuration())})
	}
	if t.Rates != nil {
		figures = append(figures, figure{
			Name: "Attempts/s", Value: show.PerSecond(t.Rates.Attempts), Unit: "/s", Note: show.Percent(t.Rates.Failed, t.Rates.Attempts) + " failed, last 5 minutes",
		})
	}
	if d, ok := t.Took(); ok {
		figures = append(figures, figure{Name: "Duration", Value: show.Duration(d), Note: "average, last 5 minutes"})
	}
	return figures
}

// hourBars returns a bar for each hour, scaled to the maximum.
func hourBars(hours [survey.Hours]int) template.HTML {
	return bars(hours[:])
}
