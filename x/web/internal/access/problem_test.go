package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

func TestProblemForm(t *testing.T) {
	t.Parallel()
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
	g, _ := newGuard(t, Config{RootPath: "/queues"})
	for _, tc := range []struct {
		path, accept, want string
	}{
		{"/queues/", browser, "text/html; charset=utf-8"},
		{"/queues/", "*/*", "text/plain; charset=utf-8"},
		{"/queues/", "", "text/plain; charset=utf-8"},
		{"/queues/", "text/event-stream", "text/plain; charset=utf-8"},
		{"/queues/", "application/json", "application/problem+json"},
		{"/queues/", "application/problem+json, text/plain", "application/problem+json"},
		{"/queues/", "text/html;q=0.5, Application/JSON ; q=0.9", "application/problem+json"},
		{"/queues/", "text/html, application/json;q=0.9", "text/html; charset=utf-8"},
		{"/queues/", "application/json;q=0, text/html", "text/html; charset=utf-8"},
		{"/queues/", "application/json;q=nonsense", "text/plain; charset=utf-8"},
		{"/queues/api/queues", browser, "application/problem+json"},
		{"/queues/api", "", "application/problem+json"},
		{"/queues/api/v2/tasks", "text/html", "application/problem+json"},
		{"/queues/apis", browser, "text/html; charset=utf-8"},
	} {
		w := httptest.NewRecorder()
		g.Wrap(http.StripPrefix("/queues", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			Problem(w, r, http.StatusTeapot, "", "a <b>&\n\"c\"")
		}))).ServeHTTP(w, newRequest(http.MethodGet, tc.path, header("Accept", tc.accept)))
		if w.Code != http.StatusTeapot || w.Header().Get("Content-Type") != tc.want {
			t.Errorf("%s, %q: %d %s", tc.path, tc.accept, w.Code, w.Header().Get("Content-Type"))
		}
		body := w.Body.String()
		switch {
		case strings.HasPrefix(tc.want, "text/html"):
			if strings.Contains(body, "<b>") || !strings.Contains(body, "a &lt;b&gt;&amp;") || strings.Count(body, "style") != 2 || !strings.Contains(body, "<style>"+errorStyle+"</style>") || !strings.Contains(body, w.Header().Get("X-Request-Id")) {
				t.Error(body)
			}
		case strings.HasPrefix(tc.want, "text/plain"):
			if body != "I'm a teapot: a <b>&\n\"c\"\n" {
				t.Errorf("%q", body)
			}
		default:
			var got map[string]any
			if err := json.Unmarshal([]byte(body), &got); err != nil || !reflect.DeepEqual(got, map[string]any{"title": "I'm a teapot", "status": 418.0,
				"detail": "a <b>&\n\"c\"", "request_id": w.Header().Get("X-Request-Id")}) {
				t.Errorf("%s: %v", body, err)
			}
		}
	}
}

func TestProblemHeaders(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Disposition", "ETag", "Last-Modified"} {
		w.Header().Set(name, "1")
	}
	w.Header().Set("Cache-Control", "public")
	w.Header().Set("X-Kept", "1")
	r := newRequest(http.MethodGet, "/api/x") // without Wrap
	Problem(w, r, http.StatusNotFound, "no such task", "")
	want(t, w, http.StatusNotFound, `{"title":"no such task","status":404}`+"\n")
	if !reflect.DeepEqual(w.Header(), http.Header{"Cache-Control": {"no-store"}, "X-Kept": {"1"}, "Content-Type": {"application/problem+json"},
		"X-Content-Type-Options": {"nosniff"}}) {
		t.Error(w.Header())
	}
}

func TestProblemPage(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Page: func(w http.ResponseWriter, _ *http.Request, status int, title, detail string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "%d|%s|%s", status, title, detail)
	}})
	for _, edit := range []func(*http.Request){header("Accept", "text/html"), header("Hx-Request", "true")} {
		want(t, serve(g, newRequest(http.MethodGet, "/", edit), Action{Verb: "x"}), http.StatusForbidden, `403|Forbidden|Unknown permission "x".`)
		// Users without access do not see the layout.
		w := serve(g, newRequest(http.MethodGet, "/", edit, from("192.0.2.1:9")))
		if !strings.HasPrefix(w.Body.String(), "<!doctype html>") {
			t.Error(w.Body)
		}
	}
}

func TestBadBody(t *testing.T) {
	t.Parallel()
	r := newRequest(http.MethodPost, "/api/x")
	w := httptest.NewRecorder()
	BadBody(w, r, fmt.Errorf("reading: %w", &http.MaxBytesError{Limit: 7}))
	want(t, w, http.StatusRequestEntityTooLarge, `{"title":"Request Entity Too Large","status":413,"detail":"The request body exceeds the limit of 7 bytes."}`+"\n")
	w = httptest.NewRecorder()
	BadBody(w, r, errors.New("line 3"))
	want(t, w, http.StatusBadRequest, `{"title":"Bad Request","status":400,"detail":"The request body could not be read: line 3."}`+"\n")
}
