package ui

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// taskChange is one change of one task.
type taskChange struct {
	verbs []access.Verb // the first one is logged in the audit log
	call  func(ctx context.Context, i *asynq.Inspector, queue, id string) error
	said  string
	ask   []string // the confirmation; empty: none is required
	name  string
}

var taskChanges = map[string]taskChange{
	"run": {verbs: []access.Verb{access.TaskRun}, said: "Task moved to pending. It runs as soon as a worker is free.",
		call: func(_ context.Context, i *asynq.Inspector, queue, id string) error { return i.RunTask(queue, id) }},
	"archive": {verbs: []access.Verb{access.TaskArchive}, said: "Task archived.",
		call: func(_ context.Context, i *asynq.Inspector, queue, id string) error { return i.ArchiveTask(queue, id) }},
	"delete": {verbs: []access.Verb{access.TaskDelete}, said: "Task deleted.", name: "Delete",
		ask:  []string{"This cannot be undone."},
		call: func(_ context.Context, i *asynq.Inspector, queue, id string) error { return i.DeleteTask(queue, id) }},
	"cancel": {verbs: []access.Verb{access.TaskCancel}, said: "Cancellation requested. The outcome depends on what the handler returns.",
		call: func(_ context.Context, i *asynq.Inspector, _, id string) error { return i.CancelProcessing(id) }},
	"cancel-archive": {verbs: []access.Verb{access.TaskCancel, access.TaskArchive}, said: "Cancellation requested. If the handler returns an error, the task is archived.",
		call: func(ctx context.Context, i *asynq.Inspector, _, id string) error { return i.CancelAndArchive(ctx, id) }},
	"cancel-delete": {verbs: []access.Verb{access.TaskCancel, access.TaskDelete}, said: "Cancellation requested. If the handler returns an error, the task is deleted.",
		name: "Cancel and delete", ask: []string{"The context of its handler is canceled. If the handler returns an error, the task is deleted. This cannot be undone."},
		call: func(ctx context.Context, i *asynq.Inspector, _, id string) error { return i.CancelAndDelete(ctx, id) }},
}

// changeTask changes one task.
func (u *UI) changeTask(w http.ResponseWriter, r *http.Request) (*view, error) {
	queue, id, do := r.PostForm.Get("queue"), r.PostForm.Get("id"), r.PostForm.Get("do")
	change, ok := taskChanges[do]
	if do == "reschedule" {
		at, said, err := rescheduleTime(r.PostForm.Get("at"), r.PostForm.Get("in"), u.now())
		if err != nil {
			u.say(w, r, flash{Text: err.Error(), Bad: true})
			return u.to(w, r, "/task", "queue", queue, "id", id)
		}
		ok, change = true, taskChange{verbs: []access.Verb{access.TaskReschedule}, said: said,
			call: func(ctx context.Context, i *asynq.Inspector, queue, id string) error {
				return i.RescheduleTask(ctx, queue, id, at)
			}}
	}
	if !ok {
		return nil, invalid("Unknown action %q: a task can be run, archived, deleted, canceled or rescheduled.", do)
	}
	for _, verb := range change.verbs {
		if !u.Gate.Allow(w, r, access.Action{Verb: verb, Queue: queue, TaskID: id, Count: 1}) {
			return nil, nil
		}
	}
	if strings.HasSuffix(do, "archive") && u.Bulk != nil && r.PostForm.Get(discardField.Name) != discardField.Value {
		discards, err := u.discards(r.Context(), map[string]int{queue: 1})
		if err != nil {
			return nil, err
		}
		if discards > 0 {
			q := question{Title: "Archive task " + show.Clip(id, 80) + "?", Action: "/task", Button: "Archive", Fields: formFields(r.PostForm, "confirm")}
			q.warn(discards, u.archiveLimits(r.Context(), queue))
			return u.ask(r, q)
		}
	}
	if len(change.ask) > 0 && r.PostForm.Get("confirm") != "yes" {
		title := change.name + " task " + show.Clip(id, 80) + "?"
		return u.ask(r, question{Title: title, Text: change.ask, Action: "/task", Button: change.name, Harm: true, Fields: formFields(r.PostForm, "confirm")})
	}
	t, err := u.findTask(r, queue, id)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(do, "cancel") && t.State != asynq.TaskStateActive {
		u.say(w, r, flash{Text: "The task is " + t.State.String() + ". Only active tasks can be canceled.", Bad: true})
		return u.to(w, r, "/task", "queue", queue, "id", id)
	}
	inspector, cancel := u.inspector(r)
	defer cancel()
	err = change.call(r.Context(), inspector, queue, id)
	u.Gate.Done(r, access.Action{Verb: change.verbs[0], Queue: queue, TaskID: id, State: t.State.String(), Count: 1}, err)
	u.Poller.Wake()
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return nil, notFound("The task %q no longer exists in queue %q.", id, queue)
	case err != nil:
		u.say(w, r, flash{Text: sentence(err.Error()), Bad: true})
	default:
		u.say(w, r, flash{Text: change.said})
	}
	if do == "delete" && err == nil {
		return u.to(w, r, "/tasks", "queue", queue, "state", t.State.String())
	}
	return u.to(w, r, "/task", "queue", queue, "id", id)
}

// rescheduleTime parses the time of a rescheduled task: a time in UTC, or a delay.
func rescheduleTime(at, in string, now time.Time) (time.Time, string, error) {
	if in = strings.TrimSpace(in); in != "" {
		d, ok := filter.ParseDuration(in)
		if !ok {
			return time.Time{}, "", errors.New("“" + show.Clip(in, 40) + "” is not a duration. Examples: 90s, 10m, 2h, 3d.")
		}
		return now.Add(d), "The task runs in " + show.Duration(d) + ".", nil
	}
	t, ok := parseTime(at)
	if !ok {
		return time.Time{}, "", errors.New("“" + show.Clip(at, 40) + "” is not a time. Write it in UTC, like 2030-12-31 23:59, or set “Run in”.")
	}
	return t, "The task runs at " + show.Time(t.UTC()) + " UTC.", nil
}

// timeLayouts are the layouts of browser fields and those that users type.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"}

// parseTime parses a time. Without a time zone, it is in UTC.
func parseTime(s string) (time.Time, bool) {
	s = strings.TrimSuffix(strings.TrimSpace(s), " UTC")
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
