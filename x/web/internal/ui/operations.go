package ui

import (
	"net/http"

	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

type operationRow struct {
	bulk.Operation
	About   string
	Percent int // -1: not known
	Results []operationResult
	Running bool
	Can     bool // who asks may cancel it
}

type operationResult struct{ ID, Err string }

func (u *UI) operationRow(r *http.Request, op bulk.Operation) operationRow {
	s := op.Spec
	row := operationRow{Operation: op, Percent: -1, Running: !op.Status.Ended(), Can: u.Gate.Can(r, verbs[s.Kind])}
	name := kindButtons[s.Kind].Name
	switch {
	case len(s.IDs) > 0:
		row.About = name + " " + show.Plural(int64(len(s.IDs)), "task") + " of " + show.Clip(s.Queue, 80)
	case s.Group != "":
		row.About = name + " all tasks of the group " + show.Clip(s.Group, 80) + " of " + show.Clip(s.Queue, 80)
	default:
		row.About = name + " all " + s.State + " tasks of " + show.Clip(s.Queue, 80)
	}
	if s.Filter != "" {
		row.About += " that match " + show.Clip(s.Filter, 200)
	}
	if s.Like != "" {
		row.About += " with an " + show.Clip(s.Like, 200)
	}
	switch {
	case op.Status == bulk.Done:
		row.Percent = 100
	case op.Total > 0:
		row.Percent = min(op.Looked*100/op.Total, 100)
	}
	return row
}

// operations is the list of changes of many tasks that are under way, or were lately.
func (u *UI) operations(r *http.Request) (*view, error) {
	var rows []operationRow
	if u.Bulk != nil {
		for _, op := range u.Bulk.List() {
			rows = append(rows, u.operationRow(r, op))
		}
	}
	return &view{Template: "operations", Title: "Operations", Nav: "/operations", Body: rows}, nil
}

// operation is the page of one of them. While it runs it is asked for more often than there are snapshots.
func (u *UI) operation(r *http.Request) (*view, error) {
	id := r.URL.Query().Get("id")
	op, ok := u.findOperation(id)
	if !ok {
		return nil, notFound("There is no operation %q. Those that have ended are forgotten after an hour.", id)
	}
	row := u.operationRow(r, op)
	for _, result := range op.Results {
		line := operationResult{ID: result.ID}
		if result.Err != nil {
			line.Err = sentence(result.Err.Error())
		}
		row.Results = append(row.Results, line)
	}
	return &view{Template: "operation", Title: row.About, Nav: "/operations", Still: true, Body: row}, nil
}

func (u *UI) findOperation(id string) (bulk.Operation, bool) {
	if u.Bulk == nil {
		return bulk.Operation{}, false
	}
	return u.Bulk.Get(id)
}

// changeOperation cancels an operation. Whoever may start it may end it.
func (u *UI) changeOperation(w http.ResponseWriter, r *http.Request) (*view, error) {
	id := r.PostForm.Get("id")
	op, ok := u.findOperation(id)
	if !ok {
		return nil, notFound("There is no operation %q any more.", id)
	}
	if !u.Gate.Allow(w, r, actionOf(op.Spec, 0)) {
		return nil, nil
	}
	if op.Status.Ended() {
		u.say(w, r, flash{Text: "It has ended before."})
	} else {
		u.Bulk.Cancel(id)
		u.say(w, r, flash{Text: "It is asked to end. What it has changed stays changed."})
	}
	return u.to(w, r, "/operation", "id", id)
}
