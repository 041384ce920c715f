package ui

import (
	"net/http"

	"github.com/asynq-go/asynq/x/web/internal/access"
)

// looks is what a page shows, for the gate: all pages name a queue, a group and a task in the same way.
func (u *UI) looks(r *http.Request) access.Action {
	q := r.URL.Query()
	a := access.Action{Verb: access.View, Queue: q.Get("queue"), Group: q.Get("group")}
	switch r.URL.Path {
	case "/task", "/edit", "/download":
		a.TaskID = q.Get("id")
	case "/enqueue":
		a.TaskID = q.Get("from") // of which it shows a copy
	case "/schedule":
		a.Entry = q.Get("id")
	case "/operation":
		if op, ok := u.findOperation(q.Get("id")); ok {
			a.Queue, a.Group = op.Spec.Queue, op.Spec.Group
		}
	}
	return a
}
