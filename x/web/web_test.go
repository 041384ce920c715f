package web_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web"
)

// newRedis starts an embedded Redis, which stops after all requests have been answered: while it
// closes, it does not answer INFO.
func newRedis(t *testing.T) asynq.RedisClientOpt {
	t.Helper()
	server := miniredis.RunT(t)
	t.Cleanup(func() { // after the cleanups of all clients
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		late := time.After(time.Minute)
		for server.CurrentConnectionCount() > 0 {
			select {
			case <-tick.C:
			case <-late:
				t.Errorf("%d connections are left open", server.CurrentConnectionCount())
				return
			}
		}
	})
	return asynq.RedisClientOpt{Addr: server.Addr()}
}

// newHandler returns a Handler on an embedded Redis, with one task in a queue with a difficult
// name.
func newHandler(t *testing.T, root string) *web.Handler {
	t.Helper()
	redis := newRedis(t)
	client := asynq.NewClient(redis)
	defer client.Close()
	if _, err := client.Enqueue(asynq.NewTask("a", []byte(`{"n":12345678901234567890}`)), asynq.Queue("x/../<b>"), asynq.TaskID("a/b\n\"c")); err != nil {
		t.Fatal(err)
	}
	h := web.New(web.Options{RedisConnOpt: redis, RootPath: root, Anonymous: web.Admin, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(func() {
		for range 2 {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return h
}

// get sends a request like a browser on the same machine.
func get(t *testing.T, h http.Handler, target string) (status int, kind, body string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:5000", "localhost:8080"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Content-Type"), w.Body.String()
}

func TestPartsUnderARootPath(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"", "/ops/tasks"} {
		h := newHandler(t, root)
		if h.RootPath() != root {
			t.Errorf("root path %q", h.RootPath())
		}
		for _, c := range []struct {
			path, kind, part string
			status           int
		}{
			{"/", "text/html", `href="` + root + `/queues"`, 200},
			{"/queue?queue=x%2F..%2F%3Cb%3E", "text/html", "x/../&lt;b&gt;", 200},
			{"/nothing", "text/html", "Page not found", 404},
			{"/api/queues", "application/json", "", 200},
			{"/api/queues/x%2F..%2F%3Cb%3E/tasks/a%2Fb%0A%22c", "application/json", "12345678901234567890", 200},
			{"/api/nothing", "application/problem+json", "", 404},
			{"/api/v2/queues/x%2F..%2F%3Cb%3E/tasks/a%2Fb%0A%22c", "application/json", "12345678901234567890", 200},
			{"/api/v2/nothing", "application/problem+json", "", 404},
		} {
			status, kind, body := get(t, h, root+c.path)
			if status != c.status || !strings.HasPrefix(kind, c.kind) || !strings.Contains(body, c.part) {
				t.Errorf("%s%s: %d %s %s", root, c.path, status, kind, body)
			}
			if strings.Contains(c.kind, "json") && !json.Valid([]byte(body)) {
				t.Errorf("%s%s is no JSON: %s", root, c.path, body)
			}
		}
	}
}

// Redirects stay below the root path and keep the query.
func TestRedirectsStayUnderTheRootPath(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"", "/ops/tasks"} {
		h := newHandler(t, root)
		for path, want := range map[string]string{
			"//tasks?queue=a": "/tasks?queue=a", "/x/../queue?queue=a": "/queue?queue=a", "//evil.example/": "/evil.example/",
			"/static//x.css": "/static/x.css", "/a/./%2e%2e/b": "/b",
		} {
			r := httptest.NewRequest(http.MethodGet, "http://localhost:8080"+root+path, nil)
			r.RemoteAddr = "127.0.0.1:5000"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := w.Header().Get("Location"); w.Code != http.StatusTemporaryRedirect || got != root+want {
				t.Errorf("%s%s: %d to %q, want %q", root, path, w.Code, got, root+want)
			}
		}
	}
	h := newHandler(t, "/ops")
	r := httptest.NewRequest(http.MethodGet, "http://localhost:8080/ops?a=b", nil)
	r.RemoteAddr = "127.0.0.1:5000"
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Header().Get("Location") != "/ops/?a=b" {
		t.Errorf("/ops?a=b is sent to %q", w.Header().Get("Location"))
	}
}

func TestMethodsThatPagesDoNotKnow(t *testing.T) {
	t.Parallel()
	h := newHandler(t, "/ops")
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"POST", "/", 405, "GET, HEAD, OPTIONS"},
		{"POST", "/queues", 405, "GET, HEAD, OPTIONS"},
		{"DELETE", "/queue", 405, "GET, HEAD, POST, OPTIONS"},
		{"PUT", "/theme", 405, "POST, OPTIONS"},
		{"POST", "/events", 405, "GET, OPTIONS"},
		{"GET", "/theme", 405, "POST, OPTIONS"},
		{"OPTIONS", "/task", 204, "GET, HEAD, POST, OPTIONS"},
		{"DELETE", "/nothing", 404, ""},
		{"OPTIONS", "/nothing", 404, ""},
	} {
		r := httptest.NewRequest(c.method, "http://localhost:8080/ops"+c.path, nil)
		r.RemoteAddr = "127.0.0.1:5000"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q; want %d, %q", c.method, c.path, w.Code, w.Header().Get("Allow"), c.status, c.allow)
		}
	}
}

func TestOutsideOfTheRootPathIsNothing(t *testing.T) {
	t.Parallel()
	h := newHandler(t, "/ops")
	if status, _, _ := get(t, h, "/ops"); status != http.StatusMovedPermanently {
		t.Errorf("/ops: %d", status)
	}
	for _, path := range []string{"/", "/queues", "/opsqueues", "/api/queues"} {
		if status, _, _ := get(t, h, path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestUnusableOptions(t *testing.T) {
	t.Parallel()
	redis := asynq.RedisClientOpt{Addr: "localhost:1"}
	for want, opts := range map[string]web.Options{
		"RedisConnOpt": {},
		"RootPath":     {RedisConnOpt: redis, RootPath: "ops/"},
		"PollInterval": {RedisConnOpt: redis, PollInterval: -1},
		"password":     {RedisConnOpt: redis, Users: []web.User{{Name: "ada", Role: web.Admin}}},
	} {
		err := opts.Check()
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%s: %v", want, err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: New takes it", want)
				}
			}()
			_ = web.New(opts).Close()
		}()
	}
}

// An invalid option is reported once.
func TestInvalidOptionsAreReportedOnce(t *testing.T) {
	t.Parallel()
	err := web.Options{RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:1"}, RootPath: "ops/"}.Check()
	if err == nil || strings.Count(err.Error(), "RootPath") != 1 {
		t.Errorf("%v", err)
	}
}
