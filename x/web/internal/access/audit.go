package access

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// maxLogged bounds names in log lines, in bytes: a filter may be as long as a request body.
const maxLogged = 1024

// Event is an entry of the audit log: a change, a refused change, a login or a log-out.
type Event struct {
	At      time.Time `json:"at"`
	User    string    `json:"user" doc:"Empty: not logged in."`
	Role    string    `json:"role"`
	Via     string    `json:"via" doc:"How the user was identified, such as form, provider, password or proxy."`
	Remote  string    `json:"remote" doc:"The address of the client."`
	Request string    `json:"request" doc:"The ID of the request."`
	Action  string    `json:"action" doc:"A permission such as queue.pause, login, or logout."`
	Queue   string    `json:"queue,omitempty"`
	Group   string    `json:"group,omitempty"`
	Part    *string   `json:"partition,omitempty" doc:"The key of a partition."`
	Flow    string    `json:"flow,omitempty" doc:"The ID of a flow."`
	Node    string    `json:"node,omitempty" doc:"A node of the flow."`
	Task    string    `json:"task,omitempty"`
	Entry   string    `json:"entry,omitempty"`
	Server  string    `json:"server,omitempty" doc:"The ID of a server."`
	Cause   string    `json:"cause,omitempty" doc:"The ID of a cause of problems."`
	State   string    `json:"state,omitempty"`
	Filter  string    `json:"filter,omitempty"`
	Count   *int      `json:"count,omitempty" doc:"The number of tasks, for a change of several tasks; of server.concurrency: the concurrency."`
	Outcome string    `json:"outcome" enum:"done,failed,refused"`
	Reason  string    `json:"reason,omitempty" doc:"Why the change failed or was refused."`
}

// Done logs a change, or an attempted one, in the audit log. The code that makes a change calls it
// once with the outcome, and with the number of tasks in Count. It may be called after the request
// has ended.
func (g *Guard) Done(r *http.Request, a Action, err error) {
	e := g.event(r, a)
	args := append(g.who(r), describe(a)...)
	if strings.HasPrefix(string(a.Verb), "task.") && a.TaskID == "" || a.Verb == ServerConcurrency {
		e.Count = &a.Count
		args = append(args, "count", a.Count)
	}
	if err != nil {
		e.Outcome, e.Reason = "failed", clip(err.Error(), maxLogged)
		args = append(args, "outcome", e.Outcome, "error", e.Reason)
	} else {
		e.Outcome = "done"
		args = append(args, "outcome", e.Outcome)
	}
	g.log.InfoContext(context.WithoutCancel(r.Context()), "change", args...)
	g.trail.add(e)
}

func (g *Guard) logRefused(r *http.Request, a Action, refusal *Refusal) {
	args := append(g.who(r), "method", r.Method, "path", clip(r.URL.Path, maxLogged))
	args = append(append(args, describe(a)...), "status", refusal.Status, "reason", clip(refusal.Detail, maxLogged))
	switch {
	case !a.Verb.reads():
		g.log.WarnContext(r.Context(), "refused", args...)
	case refusal.challenge != "" || refusal.Status == http.StatusUnauthorized:
		// Browsers send their first request without credentials.
		g.log.DebugContext(r.Context(), "refused", args...)
	default:
		g.log.InfoContext(r.Context(), "refused", args...)
	}
	if q := of(r.Context()); !a.Verb.reads() && a.Verb != "" && (q.loggedIn || g.signIns != nil) {
		// Requests of unknown users are left out: they could displace all other events.
		e := g.event(r, a)
		e.Outcome, e.Reason = "refused", clip(refusal.Detail, maxLogged)
		g.trail.add(e)
	}
}

// logged logs a login or a log-out.
func (g *Guard) logged(r *http.Request, action string) {
	g.log.InfoContext(r.Context(), action, append(g.who(r), "outcome", "done")...)
	e := g.event(r, Action{Verb: Verb(action)})
	e.Outcome = "done"
	g.trail.add(e)
}

// logLogin logs a wrong password. It does not log unknown names: they may be passwords in the wrong
// field.
func (g *Guard) logLogin(r *http.Request, q *request, name string, err error) {
	args := []any{"remote", q.remote, "request", q.id, "reason", err.Error()}
	if a, _ := g.passwords.account(name); a != nil {
		args = append(args, "user", name)
	}
	level := slog.LevelWarn
	if !errors.Is(err, errWrongPassword) {
		level = slog.LevelDebug // the wrong passwords were logged, and there may be thousands of these
	}
	g.log.Log(r.Context(), level, "login refused", args...)
}

func (g *Guard) who(r *http.Request) []any {
	q := of(r.Context())
	return []any{"user", q.user.Name, "role", q.user.Role.String(), "via", q.via, "remote", q.remote, "request", q.id}
}

// event returns an event without an outcome.
func (g *Guard) event(r *http.Request, a Action) Event {
	q := of(r.Context())
	short := func(s string) string { return strings.ToValidUTF8(clip(s, maxLogged), "�") }
	var part *string
	if a.Part != nil {
		part = new(short(*a.Part))
	}
	return Event{
		At: time.Now(), User: short(q.user.Name), Role: q.user.Role.String(), Via: q.via, Remote: q.remote, Request: q.id, Action: string(a.Verb),
		Queue: short(a.Queue), Group: short(a.Group), Part: part, Flow: short(a.Flow), Node: short(a.Node), Task: short(a.TaskID), Entry: short(a.Entry), Server: short(a.Server),
		Cause: short(a.Cause), State: short(a.State), Filter: short(a.Filter),
	}
}

// describe returns the fields of an action that are set. slog's handlers quote names, which may
// contain any byte.
func describe(a Action) (args []any) {
	for _, kv := range [][2]string{{"verb", string(a.Verb)}, {"queue", a.Queue}, {"group", a.Group}, {"flow", a.Flow}, {"node", a.Node}, {"task", a.TaskID},
		{"entry", a.Entry}, {"cause", a.Cause}, {"server", a.Server}, {"state", a.State}, {"filter", a.Filter}} {
		if kv[1] != "" {
			args = append(args, kv[0], clip(kv[1], maxLogged))
		}
	}
	if a.Part != nil {
		args = append(args, "partition", clip(*a.Part, maxLogged))
	}
	return args
}
