package web_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// After Close, no stale data is served.
func TestClosed(t *testing.T) {
	t.Parallel()
	h := newHandler(t, "/ops")
	_, _, page := get(t, h, "/ops/")
	style := regexp.MustCompile(`/ops/static/[^"]+\.css`).FindString(page)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/ops/": "text/html", "/ops/queues": "text/html", "/ops/events": "text/html", "/ops/api/queues": "application/problem+json",
		"/ops/api/v2/queues": "application/problem+json", "/ops/api/v2/health": "application/problem+json",
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost:8080"+path, nil)
		r.RemoteAddr = "127.0.0.1:5000"
		r.Header.Set("Accept", "text/html, */*;q=0.1")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable || !strings.HasPrefix(w.Header().Get("Content-Type"), want) || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	if status, _, _ := get(t, h, style); status != http.StatusOK {
		t.Errorf("%s: %d", style, status)
	}
}
