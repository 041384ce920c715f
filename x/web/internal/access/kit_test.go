package access

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/asynq-go/asynq/internal/proctest"
)

// logs collects log lines.
type logs struct{ proctest.Log }

// lines returns the log lines with this message.
func (l *logs) lines(t testing.TB, msg string) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if m["msg"] == msg {
			out = append(out, m)
		}
	}
	return out
}

func newGuard(t testing.TB, cfg Config) (*Guard, *logs) {
	t.Helper()
	l := &logs{}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g, l
}

// newRequest returns a request of a browser on this machine, modified by the edits.
func newRequest(method, target string, edits ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, target, http.NoBody)
	r.Host, r.RemoteAddr = "localhost:8080", "127.0.0.1:50000"
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func header(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func from(remote string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = remote } }

func host(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }

func basic(name, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(name, password) }
}

// serve sends a request through Wrap to a handler that checks the actions, and returns 200 with the
// user.
func serve(g *Guard, r *http.Request, actions ...Action) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, a := range actions {
			if !g.Allow(w, r, a) {
				return
			}
		}
		_, _ = w.Write([]byte(UserFrom(r.Context()).String()))
	})).ServeHTTP(w, r)
	return w
}

// want checks the status and, if given, the body.
func want(t testing.TB, w *httptest.ResponseRecorder, status int, body ...string) {
	t.Helper()
	if w.Code != status || len(body) > 0 && w.Body.String() != body[0] {
		t.Errorf("status %d, body %q, want %d %q", w.Code, w.Body, status, body)
	}
}

func hash(t testing.TB, password string, cost int) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}
