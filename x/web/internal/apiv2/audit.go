package apiv2

import (
	"github.com/asynq-go/asynq/x/web/internal/access"
)

// AuditEvent is an entry of the audit log.
type AuditEvent access.Event

// AuditList is entries of the audit log, newest first.
type AuditList struct {
	Items []AuditEvent `json:"items"`
}

func auditParams() []param {
	return []param{
		{name: "user", kind: "string", doc: "Only events of this user."},
		{name: "action", kind: "string", doc: "Only this action, such as `queue.pause` or `login`, or all actions of a kind, such as `task`."},
		{name: "queue", kind: "string", doc: "Only events of this queue."},
		{name: "outcome", kind: "string", enum: []string{"done", "failed", "refused"}, doc: "Only events with this outcome."},
		{name: "since", kind: "string", doc: "Only events at or after this time, in RFC 3339."},
		{name: "until", kind: "string", doc: "Only events before this time, in RFC 3339."},
		{name: "limit", kind: "integer", min: 1, max: access.MaxEvents, def: 100, doc: "The maximum number of events to return."},
	}
}

func (c *call) listAudit() (any, error) {
	if err := c.allow(access.Action{Verb: access.AuditView, Queue: c.str("queue")}); err != nil {
		return nil, err
	}
	f := access.EventFilter{User: c.str("user"), Queue: c.str("queue"), Action: c.str("action"), Outcome: c.str("outcome")}
	var err error
	if f.Since, err = c.time("since"); err != nil {
		return nil, err
	}
	if f.Until, err = c.time("until"); err != nil {
		return nil, err
	}
	out := AuditList{Items: []AuditEvent{}}
	for _, e := range c.api.Gate.Events(f) {
		if len(out.Items) == c.num("limit") {
			break
		}
		out.Items = append(out.Items, AuditEvent(e))
	}
	return out, nil
}
