package ui

import (
	"net/http"

	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

type operationRow struct {
	bulk.Operation
	About   string
	Percent int // -1: unknown
	Results []operationResult
	Running bool
	Can     bool // the user may cancel it
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
		row.About = name + " all tasks of group " + show.Clip(s.Group, 80) + " of " + show.Clip(s.Queue, 80)
	default:
		row.About = name + " all " + s.State + " tasks of " + show.Clip(s.Queue, 80)
	}
	if s.Filter != "" {
		row.About += " matching " + show.Clip(s.Filter, 200)
	}
	if s.Like != "" {
		row.About += " with an " + show.Clip(s.Like, 200)
	}
	switch {
	case op.Status == bulk.Done:
		row.Percent = 100
	case op.Total > 0:
		row.Percent = min(op.Scanned*100/op.Total, 100)
	}
	return row
}

// operations is the page with the running and recent bulk operations.
func (u *UI) operations(r *http.Request) (*view, error) {
	var rows []operationRow
	if u.Bulk != nil {
		for _, op := range u.Bulk.List() {
			rows = append(rows, u.operationRow(r, op))
		}
	}
	return &view{Template: "operations", Title: "Operations", Nav: "/operations", Body: rows}, nil
}

// operation is the page of one operation. While the operation runs, the page is reloaded more often
// than at each snapshot.
func (u *UI) operation(r *http.Request) (*view, error) {
	id := r.URL.Query().Get("id")
	op, ok := u.findOperation(id)
	if !ok {
		return nil, notFound("There is no operation %q. Finished operations are removed after an hour.", id)
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

// changeOperation cancels an operation. Users may cancel the operations that they may start.
func (u *UI) changeOperation(w http.ResponseWriter, r *http.Request) (*view, error) {
	id := r.PostForm.Get("id")
	op, ok := u.findOperation(id)
	if !ok {
		return nil, notFound("The operation %q no longer exists.", id)
	}
	if !u.Gate.Allow(w, r, actionOf(op.Spec, 0)) {
		return nil, nil
	}
	if op.Status.Ended() {
		u.say(w, r, flash{Text: "The operation has already ended."})
	} else {
		u.Bulk.Cancel(id)
		u.say(w, r, flash{Text: "The operation is stopping. Changes that it has made are kept."})
	}
	return u.to(w, r, "/operation", "id", id)
}
