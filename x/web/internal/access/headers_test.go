package access

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHeaders(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{RootPath: "/queues"})
	for path, cached := range map[string]bool{"/queues/": false, "/queues/static/app.js": true, "/static/app.js": true, "/queues/static/../tasks": false, "/queues/x/static/": false} {
		w := serve(g, newRequest(http.MethodGet, path))
		want(t, w, http.StatusOK)
		h := w.Header()
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'; " +
				"img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "X-Frame-Options": "DENY",
			"Strict-Transport-Security": "", "Access-Control-Allow-Origin": "", "Vary": "",
		} {
			if h.Get(name) != value {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		if (h.Get("Cache-Control") == "") != cached {
			t.Errorf("%s: Cache-Control %q", path, h.Get("Cache-Control"))
		}
	}
	// Refusals have the headers as well, and are not cached.
	w := serve(g, newRequest(http.MethodGet, "/queues/static/app.js", from("192.0.2.1:9")))
	want(t, w, http.StatusForbidden)
	if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Security-Policy") == "" || w.Header().Get("X-Content-Type-Options") == "" {
		t.Error(w.Header())
	}
}

func TestCrossOriginWrites(t *testing.T) {
	t.Parallel()
	own, _ := newGuard(t, Config{Anonymous: Admin})
	open, l := newGuard(t, Config{Anonymous: Admin, Origins: []string{"https://tools.example.com"}})
	for _, tc := range []struct {
		name      string
		site      string
		origin    string
		own, open int
	}{
		{"no browser", "", "", 200, 200},
		{"same origin", "same-origin", "http://localhost:8080", 200, 200},
		{"typed", "none", "", 200, 200},
		{"old browser", "", "http://localhost:8080", 200, 200},
		{"other site", "cross-site", "https://evil.example", 403, 403},
		{"same site", "same-site", "http://localhost:9999", 403, 403},
		{"old browser, other site", "", "https://evil.example", 403, 403},
		{"old browser, other port", "", "http://localhost:9999", 403, 403},
		{"hidden origin", "cross-site", "null", 403, 403},
		{"old browser, hidden origin", "", "null", 403, 403},
		{"configured", "cross-site", "https://tools.example.com", 403, 200},
		{"configured, old browser", "", "https://tools.example.com", 403, 200},
		{"looks configured", "cross-site", "https://tools.example.com.evil.example", 403, 403},
		{"configured, not by TLS", "cross-site", "http://tools.example.com", 403, 403},
		{"configured, other port", "cross-site", "https://tools.example.com:8443", 403, 403},
	} {
		edit := func(r *http.Request) {
			if tc.site != "" {
				r.Header.Set("Sec-Fetch-Site", tc.site)
			}
			if tc.origin != "" {
				r.Header.Set("Origin", tc.origin)
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "MOVE"} {
			for g, status := range map[*Guard]int{own: tc.own, open: tc.open} {
				if w := serve(g, newRequest(method, "/", edit), Action{Verb: TaskRun}); w.Code != status {
					t.Errorf("%s, %s: %d, want %d", tc.name, method, w.Code, status)
				}
			}
		}
		// Responses reach any browser, but not the scripts of other origins.
		w := serve(open, newRequest(http.MethodGet, "/", edit))
		want(t, w, http.StatusOK)
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" && tc.open != 200 {
			t.Errorf("%s: may read", tc.name)
		}
		if w := serve(own, newRequest(http.MethodGet, "/", edit)); w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: may read", tc.name)
		}
	}
	if lines := l.lines(t, "refused"); len(lines) == 0 || lines[0]["level"] != "WARN" {
		t.Error(lines)
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Origins: []string{"https://tools.example.com"}, Users: []User{{Name: "ann", Password: "p", Role: Admin}}})
	tools, evil := header("Origin", "https://tools.example.com"), header("Origin", "https://evil.example")
	asks := header("Access-Control-Request-Method", http.MethodPatch)

	reached := false
	h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(http.MethodOptions, "/api/v2/tasks", tools, asks))
	want(t, w, http.StatusNoContent, "")
	for name, value := range map[string]string{"Access-Control-Allow-Origin": "https://tools.example.com", "Access-Control-Allow-Credentials": "true",
		"Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE", "Vary": "Origin", "Access-Control-Max-Age": "600"} {
		if w.Header().Get(name) != value {
			t.Errorf("%s is %q", name, w.Header().Get(name))
		}
	}
	for _, edits := range [][]func(*http.Request){{evil, asks}, {tools}, {asks}} {
		w = httptest.NewRecorder()
		h.ServeHTTP(w, newRequest(http.MethodOptions, "/api/v2/tasks", edits...))
		want(t, w, http.StatusUnauthorized)
		if w.Header().Get("Access-Control-Allow-Methods") != "" || w.Header().Get("Vary") != "Origin" {
			t.Error(w.Header())
		}
	}
	if reached {
		t.Error("a question for leave has reached the handler")
	}
	w = serve(g, newRequest(http.MethodPost, "/", tools, basic("ann", "p"), header("Sec-Fetch-Site", "cross-site")), Action{Verb: TaskRun})
	want(t, w, http.StatusOK, "ann (admin)")
	if w.Header().Get("Access-Control-Allow-Origin") != "https://tools.example.com" || w.Header().Get("Access-Control-Expose-Headers") == "" {
		t.Error(w.Header())
	}
	// Scripts of an allowed origin can read refusals.
	w = serve(g, newRequest(http.MethodGet, "/", tools))
	want(t, w, http.StatusUnauthorized)
	if w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Error(w.Header())
	}
	w = serve(g, newRequest(http.MethodGet, "/", evil, basic("ann", "p")))
	if w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("Access-Control-Allow-Credentials") != "" {
		t.Error(w.Header())
	}
}
