package access

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
)

// maxLogged bounds names in log lines, in bytes: a filter may be as long as a request body.
const maxLogged = 1024

// Done logs a change, or an attempted one, in the audit log. The code that makes a change calls it
// once with the outcome, and with the number of tasks in Count. It may be called after the request
// has ended.
func (g *Guard) Done(r *http.Request, a Action, err error) {
	args := append(g.who(r), describe(a)...)
	if strings.HasPrefix(string(a.Verb), "task.") && a.TaskID == "" {
		args = append(args, "count", a.Count)
	}
	if err != nil {
		args = append(args, "outcome", "failed", "error", clip(err.Error(), maxLogged))
	} else {
		args = append(args, "outcome", "done")
	}
	g.log.InfoContext(context.WithoutCancel(r.Context()), "change", args...)
}

func (g *Guard) logRefused(r *http.Request, a Action, refusal *Refusal) {
	args := append(g.who(r), "method", r.Method, "path", clip(r.URL.Path, maxLogged))
	args = append(append(args, describe(a)...), "status", refusal.Status, "reason", clip(refusal.Detail, maxLogged))
	switch {
	case a.Verb != View:
		g.log.WarnContext(r.Context(), "refused", args...)
	case refusal.challenge != "":
		// Browsers send their first request without credentials.
		g.log.DebugContext(r.Context(), "refused", args...)
	default:
		g.log.InfoContext(r.Context(), "refused", args...)
	}
}

// logLogin logs a wrong password. It does not log unknown names: they may be passwords in the wrong
// field.
func (g *Guard) logLogin(r *http.Request, q *request, name string, err error) {
	args := []any{"remote", q.remote, "request", q.id, "reason", err.Error()}
	if g.passwords.accounts[name] != nil {
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

// describe returns the fields of an action that are set. slog's handlers quote names, which may
// contain any byte.
func describe(a Action) (args []any) {
	for _, kv := range [][2]string{{"verb", string(a.Verb)}, {"queue", a.Queue}, {"group", a.Group}, {"task", a.TaskID},
		{"entry", a.Entry}, {"state", a.State}, {"filter", a.Filter}} {
		if kv[1] != "" {
			args = append(args, kv[0], clip(kv[1], maxLogged))
		}
	}
	return args
}
