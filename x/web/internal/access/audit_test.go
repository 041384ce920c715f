package access

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// change sends a request and ends it before the change is done, like a bulk operation.
func change(t *testing.T, g *Guard, r *http.Request, a Action, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	var seen *http.Request
	w := httptest.NewRecorder()
	g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Allow(w, r, a) {
			seen = r
		}
	})).ServeHTTP(w, r.WithContext(ctx))
	cancel()
	if seen == nil {
		t.Fatal(w.Code, w.Body)
	}
	g.Done(seen, a, err)
}

func TestAudit(t *testing.T) {
	t.Parallel()
	g, l := newGuard(t, Config{Users: []User{{Name: "ann", Password: "p", Role: Admin}}, Proxy: &Proxy{From: []string{"127.0.0.1"}}})
	r := func() *http.Request {
		return newRequest(http.MethodPost, "/", basic("ann", "p"), header("X-Request-Id", "r1"), header("X-Forwarded-For", "192.0.2.7"))
	}
	change(t, g, r(), Action{Verb: TaskDelete, Queue: "q", TaskID: "a\nmsg=change"}, nil)
	change(t, g, r(), Action{Verb: TaskArchive, Queue: "q", Group: "g", State: "retry", Filter: `type = "x"`, Count: 17}, errors.New("half of it"))
	change(t, g, r(), Action{Verb: TaskRun, Queue: "q", State: "retry"}, nil)
	change(t, g, r(), Action{Verb: ScheduleRun, Entry: "e"}, nil)
	got := l.lines(t, "change")
	for _, line := range got {
		delete(line, "time")
	}
	common := map[string]any{"level": "INFO", "msg": "change", "user": "ann", "role": "admin", "via": "password", "remote": "192.0.2.7", "request": "r1"}
	for i, wanted := range []map[string]any{
		{"verb": "task.delete", "queue": "q", "task": "a\nmsg=change", "outcome": "done"},
		{"verb": "task.archive", "queue": "q", "group": "g", "state": "retry", "filter": `type = "x"`, "count": 17.0, "outcome": "failed", "error": "half of it"},
		{"verb": "task.run", "queue": "q", "state": "retry", "count": 0.0, "outcome": "done"},
		{"verb": "schedule.run", "entry": "e", "outcome": "done"},
	} {
		for k, v := range common {
			wanted[k] = v
		}
		if !reflect.DeepEqual(got[i], wanted) {
			t.Errorf("line %d: %v\nwant %v", i, got[i], wanted)
		}
	}
}

func TestAuditOfRefusals(t *testing.T) {
	t.Parallel()
	g, l := newGuard(t, Config{Anonymous: Viewer})
	w := serve(g, newRequest(http.MethodPost, "/x", from("192.0.2.1:9")), Action{Verb: QueueDelete, Queue: "q"})
	want(t, w, http.StatusForbidden)
	lines := l.lines(t, "refused")
	if len(lines) != 1 {
		t.Fatal(lines)
	}
	for k, v := range map[string]any{"level": "WARN", "user": "", "via": "anonymous", "role": "viewer", "remote": "192.0.2.1", "verb": "queue.delete", "queue": "q",
		"status": 403.0, "method": "POST", "path": "/x", "reason": "This requires the role admin. Your role is viewer.", "request": w.Header().Get("X-Request-Id")} {
		if lines[0][k] != v {
			t.Errorf("%s is %v, want %v", k, lines[0][k], v)
		}
	}
	for _, tc := range []struct {
		cfg   Config
		level string
	}{{Config{}, "INFO"}, {Config{Users: []User{{Name: "ann", Password: "p", Role: Admin}}}, "DEBUG"}} {
		g, l := newGuard(t, tc.cfg)
		serve(g, newRequest(http.MethodGet, "/", from("192.0.2.1:9")))
		if lines := l.lines(t, "refused"); len(lines) != 1 || lines[0]["level"] != tc.level {
			t.Error(lines)
		}
	}
}

// No name starts a new log line, and none makes a line of megabytes.
func TestAuditOfHostileNames(t *testing.T) {
	t.Parallel()
	l := &logs{}
	g, _ := newGuard(t, Config{Logger: slog.New(slog.NewTextHandler(l, nil))})
	hostile := "x\nlevel=INFO msg=change user=root\r\x1b[2J\xff" + strings.Repeat("y", 1<<20)
	change(t, g, newRequest(http.MethodPost, "/", as(Admin)), Action{Verb: TaskRun, Queue: hostile, Group: hostile, TaskID: hostile, Entry: hostile, State: hostile, Filter: hostile},
		errors.New(hostile))
	out := l.String()
	if strings.Count(out, "\n") != 1 || strings.ContainsAny(out, "\r\x1b") || !utf8.ValidString(out) || len(out) > 10*maxLogged {
		t.Errorf("%d lines, %d bytes: %.300s", strings.Count(out, "\n"), len(out), out)
	}
	serve(g, newRequest(http.MethodGet, "/", func(r *http.Request) { r.URL.Path, r.RemoteAddr = "/"+hostile, hostile }))
	if out := l.String(); strings.Count(out, "\n") != 2 || len(out) > 20*maxLogged {
		t.Errorf("%.3000s", out)
	}
}
