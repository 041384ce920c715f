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
	verbs []access.Verb // the first is what the audit log tells
	call  func(ctx context.Context, i *asynq.Inspector, queue, id string) error
	said  string
	ask   []string // it cannot be undone; empty: it is not asked for
	name  string
}

var taskChanges = map[string]taskChange{
	"run": {verbs: []access.Verb{access.TaskRun}, said: "The task is pending: it runs as soon as a worker is free.",
		call: func(_ context.Context, i *asynq.Inspector, queue, id string) error { return i.RunTask(queue, id) }},
	"archive": {verbs: []access.Verb{access.TaskArchive}, said: "The task is in the archive.",
		call: func(_ context.Context, i *asynq.Inspector, queue, id string) error { return i.ArchiveTask(queue, id) }},
	"delete": {verbs: []access.Verb{access.TaskDelete}, said: "The task is deleted.", name: "Delete",
		ask:  []string{"It cannot be brought back."},
		call: func(_ context.Context, i *asynq.Inspector, queue, id string) error { return i.DeleteTask(queue, id) }},
	"cancel": {verbs: []access.Verb{access.TaskCancel}, said: "Its handler is asked to end. What it returns decides what becomes of the task.",
		call: func(_ context.Context, i *asynq.Inspector, _, id string) error { return i.CancelProcessing(id) }},
	"cancel-archive": {verbs: []access.Verb{access.TaskCancel, access.TaskArchive}, said: "Its handler is asked to end; if it then fails, the task is archived.",
		call: func(ctx context.Context, i *asynq.Inspector, _, id string) error { return i.CancelAndArchive(ctx, id) }},
	"cancel-delete": {verbs: []access.Verb{access.TaskCancel, access.TaskDelete}, said: "Its handler is asked to end; if it then fails, the task is deleted.",
		name: "Cancel and delete", ask: []string{"Its handler is asked to end. If it then fails, the task is deleted, and cannot be brought back."},
		call: func(ctx context.Context, i *asynq.Inspector, _, id string) error { return i.CancelAndDelete(ctx, id) }},
}

// changeTask carries out a change of one task.
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
				return i.Reschedule(ctx, queue, id, at)
			}}
	}
	if !ok {
		return nil, invalid("A task can be run, archived, deleted, canceled or rescheduled, but not %q.", do)
	}
	for _, verb := range change.verbs {
		if !u.Gate.Allow(w, r, access.Action{Verb: verb, Queue: queue, TaskID: id, Count: 1}) {
			return nil, nil
		}
	}
	if len(change.ask) > 0 && r.PostForm.Get("confirm") != "yes" {
		title := change.name + " the task " + show.Clip(id, 80) + "?"
		return u.ask(r, question{Title: title, Text: change.ask, Action: "/task", Button: change.name, Harm: true, Fields: formFields(r.PostForm, "confirm")})
	}
	t, err := u.findTask(r, queue, id)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(do, "cancel") && t.State != asynq.TaskStateActive {
		u.say(w, r, flash{Text: "The task is " + t.State.String() + ": only one that is active can be canceled.", Bad: true})
		return u.to(w, r, "/task", "queue", queue, "id", id)
	}
	inspector, cancel := u.inspector(r)
	defer cancel()
	err = change.call(r.Context(), inspector, queue, id)
	u.Gate.Done(r, access.Action{Verb: change.verbs[0], Queue: queue, TaskID: id, State: t.State.String(), Count: 1}, err)
	u.Poller.Wake()
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return nil, notFound("There is no task %q in the queue %q any more.", id, queue)
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

// rescheduleTime reads when a task is to run: at a time in UTC, or in a while.
func rescheduleTime(at, in string, now time.Time) (time.Time, string, error) {
	if in = strings.TrimSpace(in); in != "" {
		d, ok := filter.ParseDuration(in)
		if !ok {
			return time.Time{}, "", errors.New("“" + show.Clip(in, 40) + "” is no length of time: write 90s, 10m, 2h or 3d.")
		}
		return now.Add(d), "The task runs in " + show.Duration(d) + ".", nil
	}
	t, ok := parseTime(at)
	if !ok {
		return time.Time{}, "", errors.New("“" + show.Clip(at, 40) + "” is no time: write 2030-12-31 23:59, in UTC, or say in how long.")
	}
	return t, "The task runs at " + show.Time(t.UTC()) + " UTC.", nil
}

// timeLayouts are those of browsers' fields for a time, and those that people write.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"}

// parseTime reads a time, in UTC unless it says otherwise.
func parseTime(s string) (time.Time, bool) {
	s = strings.TrimSuffix(strings.TrimSpace(s), " UTC")
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
