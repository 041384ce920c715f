package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/redact"
	"github.com/asynq-go/asynq/x/web/internal/spec"
)

const (
	// scheduleLag is the maximum age of entries: schedulers report them every ten seconds unless
	// configured otherwise.
	scheduleLag = time.Minute

	// mostMissed bounds the number of missed runs that are counted.
	mostMissed = 1000
)

type schedulersBody struct {
	Find    string
	Unknown string
	Causes  []causeBox
	Rows    []entryRow
	All     int
	Overdue int
	Next    time.Time // the earliest next run
}

// entryRow is a scheduler entry in a table.
type entryRow struct {
	ID, Spec, Words            string
	Type, Queue, Payload, Zone string
	Options                    []string
	Next, Prev                 time.Time
	Paused                     bool // its runs are skipped
	Overdue                    bool // its next run is in the past
	Missed                     int  // runs missed since the last one
	MissedMore                 bool // Missed is a lower bound
	Interval                   bool // it runs at an interval, independent of the time of day
	Guessed                    bool // the zone is inferred from the run times

	ticks *spec.Schedule
}

// schedulers is the page with the periodic tasks.
func (u *UI) schedulers(r *http.Request) (*view, error) {
	s := u.Poller.Latest()
	body := schedulersBody{Find: strings.TrimSpace(r.URL.Query().Get("find")), All: len(s.Entries)}
	body.Causes = u.causesThat(func(c *health.Cause) bool { return c.Link.Page == health.PageSchedulers })
	if s.Err != nil || s.Problems.Entries != nil {
		body.Unknown = "Could not list schedulers. Showing the last known state, from " + s.At.UTC().Format("15:04:05") + " UTC or before."
	}
	for _, e := range s.Entries {
		row := u.entryRow(e)
		if !matches(body.Find, row.Type, row.Queue, row.Spec, row.Words, row.ID) {
			continue
		}
		body.Rows = append(body.Rows, row)
		if row.Overdue {
			body.Overdue++
		}
		if row.Next.After(u.now()) && (body.Next.IsZero() || row.Next.Before(body.Next)) {
			body.Next = row.Next
		}
	}
	slices.SortStableFunc(body.Rows, func(a, b entryRow) int {
		if a.Next.IsZero() != b.Next.IsZero() {
			return cmp.Compare(b.Next.Unix(), a.Next.Unix()) // never comes last; the zero time is long ago
		}
		return cmp.Or(a.Next.Compare(b.Next), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
	})
	return &view{Template: "schedulers", Title: "Schedulers", Nav: "/schedulers", Body: body}, nil
}

func (u *UI) entryRow(e *asynq.SchedulerEntry) entryRow {
	row := entryRow{ID: e.ID, Spec: e.Spec, Words: spec.Words(e.Spec), Next: e.Next, Prev: e.Prev, Queue: redact.QueueOf(e), Paused: e.Paused}
	for _, o := range e.Opts {
		if o.Type() != asynq.QueueOpt {
			row.Options = append(row.Options, o.String())
		}
	}
	if e.Task != nil {
		row.Type, row.Payload = e.Task.Type(), u.excerpt(row.Queue, e.Task.Type(), e.Task.Payload())
	}
	var at *time.Location
	row.ticks, at = spec.Located(e.Spec, e.Prev, e.Next)
	switch {
	case row.ticks == nil:
	case row.ticks.Every > 0:
		row.Interval = true
	case row.ticks.Zone != "":
		row.Zone = row.ticks.Zone
	case at != nil:
		row.Zone, row.Guessed = at.String(), true
	}
	limit := u.now().Add(-scheduleLag)
	row.Overdue = !e.Next.IsZero() && e.Next.Before(limit)
	switch {
	case row.Paused:
	case row.ticks != nil && !e.Prev.IsZero() && e.Prev.Before(limit):
		row.Missed = row.ticks.Between(e.Prev, limit, mostMissed)
	case row.ticks != nil && row.Overdue:
		row.Missed = 1 + row.ticks.Between(e.Next, limit, mostMissed-1)
	case row.Overdue:
		row.Missed = 1
	}
	row.MissedMore = row.Missed >= mostMissed
	return row
}

// pauseSchedule pauses an entry after confirmation, or resumes it.
func (u *UI) pauseSchedule(w http.ResponseWriter, r *http.Request, action access.Action) (*view, error) {
	change, said := u.Inspector.ResumeSchedulerEntry, "Schedule resumed."
	action.Verb = access.ScheduleResume
	if r.PostForm.Get("do") == "pause" {
		action.Verb, change, said = access.SchedulePause, u.Inspector.PauseSchedulerEntry, "Schedule paused. Its runs are skipped until it is resumed."
	}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	if action.Verb == access.SchedulePause && r.PostForm.Get("confirm") != "yes" {
		return u.ask(r, question{
			Title: "Pause this schedule?", Button: "Pause schedule", Action: "/schedule",
			Text:   []string{"Its runs are skipped until it is resumed. They are not enqueued later."},
			Fields: []field{{"do", "pause"}, {"id", action.Entry}, {"back", r.PostForm.Get("back")}},
		})
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	u.report(w, r, action, change(ctx, action.Entry), said)
	return nil, nil
}

// report records a change, and redirects to a page that says its result.
func (u *UI) report(w http.ResponseWriter, r *http.Request, action access.Action, err error, said string) {
	u.Gate.Done(r, action, err)
	u.Poller.Wake()
	if err != nil {
		u.say(w, r, flash{Text: sentence(err.Error()), Bad: true})
	} else {
		u.say(w, r, flash{Text: said})
	}
	http.Redirect(w, r, u.back(r), http.StatusSeeOther)
}

// changeSchedule enqueues the task of an entry now, or pauses or resumes the entry.
func (u *UI) changeSchedule(w http.ResponseWriter, r *http.Request) (*view, error) {
	id, do := r.PostForm.Get("id"), r.PostForm.Get("do")
	if do != "run" && do != "pause" && do != "resume" || id == "" {
		return nil, invalid("Unknown action: a schedule can only be run, paused and resumed.")
	}
	action := access.Action{Verb: access.ScheduleRun, Entry: id}
	for _, e := range u.Poller.Latest().Entries {
		if e.ID == id {
			action.Queue = u.entryRow(e).Queue
		}
	}
	if do != "run" {
		return u.pauseSchedule(w, r, action)
	}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	inspector, cancel := u.inspector(r)
	defer cancel()
	info, err := inspector.RunSchedulerEntry(r.Context(), id)
	if info != nil {
		action.TaskID, action.Queue = info.ID, info.Queue
	}
	u.Gate.Done(r, action, err)
	u.Poller.Wake()
	switch {
	case info != nil && err != nil:
		u.say(w, r, flash{Text: sentence(err.Error()), Bad: true, Link: taskPath(info), LinkText: "View task"})
	case err != nil:
		u.say(w, r, flash{Text: sentence(err.Error()), Bad: true})
	default:
		u.say(w, r, flash{Text: "Task enqueued.", Link: taskPath(info), LinkText: "View task"})
	}
	http.Redirect(w, r, u.back(r), http.StatusSeeOther)
	return nil, nil
}
