package ui

import (
	"net/http"

	"github.com/asynq-go/asynq/x/web/internal/access"
)

// viewAction returns the action of viewing a page, for the gate. All pages name queues, groups and
// tasks in the same parameters.
func (u *UI) viewAction(r *http.Request) access.Action {
	q := r.URL.Query()
	a := access.Action{Verb: access.View, Queue: q.Get("queue"), Group: q.Get("group")}
	switch r.URL.Path {
	case "/audit":
		a.Verb = access.AuditView
	case "/task", "/edit", "/download":
		a.TaskID = q.Get("id")
	case "/enqueue":
		a.TaskID = q.Get("from") // the task to copy
	case "/schedule":
		a.Entry = q.Get("id")
	case "/operation":
		if op, ok := u.findOperation(q.Get("id")); ok {
			a.Queue, a.Group = op.Spec.Queue, op.Spec.Group
		}
	}
	return a
}
