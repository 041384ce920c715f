package ui

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/access"
)

const auditPage = 100 // rows

type auditBody struct {
	Rows     []access.Event
	Pages    pager
	Filtered bool

	User, Queue, Action, Outcome, Within string // the filter
	Users, Queues, Actions               []string
	Outcomes, Times                      []choice
}

var (
	outcomeChoices = []choice{{"", "All results"}, {"done", "Done"}, {"failed", "Failed"}, {"refused", "Refused"}}
	withinChoices  = []choice{{"", "Any time"}, {"1h", "Last hour"}, {"24h", "Last 24 hours"}, {"168h", "Last 7 days"}}
)

// audit is the page with the audit log.
func (u *UI) audit(r *http.Request) (*view, error) {
	q := r.URL.Query()
	body := auditBody{
		User: q.Get("user"), Queue: q.Get("queue"), Action: q.Get("action"), Outcome: one(q.Get("outcome"), "", outcomeChoices),
		Within: one(q.Get("within"), "", withinChoices), Outcomes: outcomeChoices, Times: withinChoices,
	}
	filter := access.EventFilter{User: body.User, Queue: body.Queue, Action: body.Action, Outcome: body.Outcome}
	if d, err := time.ParseDuration(body.Within); err == nil {
		filter.Since = u.now().Add(-d)
	}
	body.Filtered = filter != access.EventFilter{}
	// The choices are those of all events, so that another one can be chosen.
	for _, e := range u.Gate.Events(access.EventFilter{}) {
		kind, _, _ := strings.Cut(e.Action, ".")
		body.Users, body.Queues, body.Actions = append(body.Users, e.User), append(body.Queues, e.Queue), append(body.Actions, e.Action, kind)
	}
	for _, list := range []*[]string{&body.Users, &body.Queues, &body.Actions} {
		slices.Sort(*list)
		*list = slices.DeleteFunc(slices.Compact(*list), func(s string) bool { return s == "" })
	}
	var err error
	body.Rows, body.Pages, err = pageOf(u, r, u.Gate.Events(filter), auditPage)
	return &view{Template: "audit", Title: "Audit log", Nav: "/audit", Body: body}, err
}
