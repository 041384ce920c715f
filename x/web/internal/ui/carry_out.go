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

// bulkChange is one that somebody wants of many tasks, maybe of several queues and states.
type bulkChange struct {
	Kind    bulk.Kind
	Specs   []bulk.Spec
	N       int  // how many tasks there are
	AtLeast bool // there may be more
	Of      string
	Text    []string // more for the question
	Action  string   // the path that the form was sent to
	Fields  []field  // what says which tasks are meant
	Back    string   // path below the root to go to afterwards
}

// verbOf are what kinds of changes are to access.
var verbOf = map[bulk.Kind]access.Verb{
	bulk.Run: access.TaskRun, bulk.Archive: access.TaskArchive, bulk.Delete: access.TaskDelete, bulk.Cancel: access.TaskCancel,
}

// did says what was done to tasks.
var did = map[bulk.Kind]string{bulk.Run: "run now", bulk.Archive: "archived", bulk.Delete: "deleted", bulk.Cancel: "told to stop"}

const (
	// mostOperations is how many operations one form starts: each is of one queue and state.
	mostOperations = 40
	// outcomePatience is how long the answer to a form waits for the end of what it started.
	outcomePatience = 2 * time.Second
)

func bulkAction(s bulk.Spec, count int) access.Action {
	return access.Action{Verb: verbOf[s.Kind], Queue: s.Queue, Group: s.Group, State: s.State, Filter: s.Filter, Count: count}
}

// carryOut asks whether it is meant, and then starts the operations of a change.
func (u *UI) carryOut(w http.ResponseWriter, r *http.Request, c bulkChange) (*view, error) {
	switch {
	case len(c.Specs) == 0:
		u.say(w, r, flash{Text: "There is no such task any more: nothing was done.", Bad: true})
		return u.to(w, r, c.Back)
	case len(c.Specs) > mostOperations:
		return nil, invalid("These tasks are in %d queues and states, and at most %d can be changed at a time. Choose a queue first.", len(c.Specs), mostOperations)
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
	if r.PostForm.Get("confirm") != answer {
		return u.askChange(r, c)
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

// outcome says what came of operations, or that they go on.
func (u *UI) outcome(ctx context.Context, c bulkChange, ids []string) flash {
	ctx, cancel := context.WithTimeout(ctx, outcomePatience)
	defer cancel()
	changed, open, wrong := 0, 0, ""
	for _, id := range ids {
		op, _ := u.Bulk.Wait(ctx, id)
		switch {
		case !op.Status.Ended():
			open++
		case op.Err != "":
			wrong = op.Err
		}
		changed += op.Changed
	}
	text := show.Plural(int64(changed), "task") + " " + did[c.Kind] + "."
	switch {
	case wrong != "":
		return flash{Text: text + " Not all: " + sentence(wrong), Bad: true}
	case open > 0:
		return flash{Text: "It goes on in the background: the page of operations shows how far it has come."}
	}
	return flash{Text: text}
}

func (u *UI) askChange(r *http.Request, c bulkChange) (*view, error) {
	verb := map[bulk.Kind]string{bulk.Run: "Run", bulk.Archive: "Archive", bulk.Delete: "Delete", bulk.Cancel: "Cancel"}[c.Kind]
	count := show.Plural(int64(c.N), "task")
	if c.AtLeast {
		count = "at least " + count
	}
	q := question{
		Title: verb + " " + count + " " + c.Of + "?", Button: verb + " them", Action: c.Action, Text: c.Text,
		Fields: append(c.Fields, field{"do", string(c.Kind)}, field{"back", r.PostForm.Get("back")}),
	}
	switch c.Kind {
	case bulk.Run:
		q.Text = append(q.Text, "They become pending, and are processed as soon as a slot is free.")
	case bulk.Archive:
		q.Text = append(q.Text, "They stay in the archive, which keeps the newest 10,000 of a queue, and can be run from there.")
	case bulk.Delete:
		q.Text, q.Type, q.Harm = append(q.Text, "They cannot be brought back."), "delete", true
	}
	return u.ask(r, q)
}
