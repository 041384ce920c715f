package ui

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// bulkChange is a requested change of many tasks, possibly of several queues and states.
type bulkChange struct {
	Kind    bulk.Kind
	Specs   []bulk.Spec
	N       int            // number of tasks
	Counts  map[string]int // tasks by queue
	AtLeast bool           // N is a lower bound
	Of      string
	Text    []string // further sentences of the question
	Action  string   // path of the form
	Fields  []field  // fields that select the tasks
	Back    string   // path below the root to redirect to
}

// verbOf maps kinds of changes to permissions.
var verbOf = map[bulk.Kind]access.Verb{
	bulk.Run: access.TaskRun, bulk.Archive: access.TaskArchive, bulk.Delete: access.TaskDelete, bulk.Cancel: access.TaskCancel,
}

// did maps kinds of changes to their past participles.
var did = map[bulk.Kind]string{bulk.Run: "moved to pending", bulk.Archive: "archived", bulk.Delete: "deleted", bulk.Cancel: "canceled"}

const (
	// mostOperations is the maximum number of operations that one form starts. Each covers one
	// queue and state.
	mostOperations = 40
	// outcomeWait is how long the response to a form waits for the operations that it started.
	outcomeWait = 5 * time.Second
)

func bulkAction(s bulk.Spec, count int) access.Action {
	return access.Action{Verb: verbOf[s.Kind], Queue: s.Queue, Group: s.Group, State: s.State, Filter: s.Filter, Count: count}
}

// carryOut asks for confirmation, and then starts the operations of a change.
func (u *UI) carryOut(w http.ResponseWriter, r *http.Request, c bulkChange) (*view, error) {
	switch {
	case len(c.Specs) == 0:
		u.say(w, r, flash{Text: "These tasks no longer exist. Nothing was changed.", Bad: true})
		return u.to(w, r, c.Back)
	case len(c.Specs) > mostOperations:
		return nil, invalid("These tasks are in %d combinations of queue and state; one operation covers at most %d. Choose a queue first.", len(c.Specs), mostOperations)
	}
	for _, spec := range c.Specs {
		if !u.Gate.Allow(w, r, bulkAction(spec, c.N)) {
			return nil, nil
		}
	}
	answer := "yes"
	if c.Kind == bulk.Delete {
		answer = "delete"
	}
	discards := 0
	if c.Kind == bulk.Archive {
		var err error
		if discards, err = u.discards(r.Context(), c.Counts); err != nil {
			return nil, err
		}
	}
	if agreed := accepts(r, c.Specs); r.PostForm.Get("confirm") != answer || discards > 0 && !agreed {
		return u.askChange(r, c, discards)
	}
	later := r.Clone(context.WithoutCancel(r.Context()))
	var ids []string
	for _, spec := range c.Specs {
		op, err := u.Bulk.Start(access.UserFrom(r.Context()).Name, spec, func(op bulk.Operation) {
			var failed error
			if op.Err != "" {
				failed = errors.New(op.Err)
			}
			u.Gate.Done(later, bulkAction(op.Spec, op.Changed), failed)
			u.Survey.Stale()
			u.Poller.Wake()
		})
		if err != nil {
			u.Gate.Done(r, bulkAction(spec, 0), err)
			u.say(w, r, flash{Text: sentence(err.Error()), Bad: true})
			return u.to(w, r, c.Back)
		}
		ids = append(ids, op.ID)
	}
	u.say(w, r, u.outcome(r.Context(), c, ids))
	return u.to(w, r, c.Back)
}

// outcome returns the result of the operations, or that they are still running.
func (u *UI) outcome(ctx context.Context, c bulkChange, ids []string) flash {
	ctx, cancel := context.WithTimeout(ctx, outcomeWait)
	defer cancel()
	changed, deleted, open, wrong := 0, 0, 0, ""
	for _, id := range ids {
		op, _ := u.Bulk.Wait(ctx, id)
		switch {
		case !op.Status.Ended():
			open++
		case op.Err != "":
			wrong = op.Err
		}
		changed, deleted = changed+op.Changed, deleted+op.Discarded
	}
	text := show.Plural(int64(changed), "task") + " " + did[c.Kind] + "." + discarded(deleted)
	switch {
	case wrong != "":
		return flash{Text: text + " The operation did not finish: " + sentence(wrong), Bad: true}
	case open > 0:
		return flash{Text: "The operation continues in the background. See Operations for its progress."}
	}
	return flash{Text: text}
}

func (u *UI) askChange(r *http.Request, c bulkChange, discards int) (*view, error) {
	verb := map[bulk.Kind]string{bulk.Run: "Run", bulk.Archive: "Archive", bulk.Delete: "Delete", bulk.Cancel: "Cancel"}[c.Kind]
	count := show.Plural(int64(c.N), "task")
	if c.AtLeast {
		count = "at least " + count
	}
	q := question{
		Title: verb + " " + count + " " + c.Of + "?", Button: verb + " " + show.Plural(int64(c.N), "task"), Action: c.Action, Text: c.Text,
		Fields: append(c.Fields, field{"do", string(c.Kind)}, field{"back", r.PostForm.Get("back")}),
	}
	switch c.Kind {
	case bulk.Run:
		q.Text = append(q.Text, "They become pending and run as soon as a worker is free.")
	case bulk.Archive:
		q.Text = append(q.Text, "Archived tasks are kept for a limited time and can be run again.")
		q.warn(discards, u.archiveLimits(r.Context(), queuesOf(c.Specs)...))
	case bulk.Delete:
		q.Text, q.Type, q.Harm = append(q.Text, "This cannot be undone."), "delete", true
	}
	return u.ask(r, q)
}
