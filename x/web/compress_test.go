package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Pages and API responses are compressed, unless another site has caused the request.
func TestCompression(t *testing.T) {
	t.Parallel()
	h := newHandler(t, "/ops")
	for path, status := range map[string]int{
		"/ops/": 200, "/ops/nothing": 404, "/ops/api/v2/openapi.json": 200, "/ops/series?metrics=pending": 200, "/ops/queues": 200,
	} {
		for site, packed := range map[string]bool{"same-origin": true, "none": true, "": true, "cross-site": false} {
			r := httptest.NewRequest(http.MethodGet, "http://localhost:8080"+path, nil)
			r.RemoteAddr = "127.0.0.1:5000"
			r.Header.Set("Accept-Encoding", "gzip")
			r.Header.Set("Accept", "*/*")
			r.Header.Set("Sec-Fetch-Site", site)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != status || (w.Header().Get("Content-Encoding") == "gzip") != packed || w.Header().Get("Vary") == "" {
				t.Errorf("%s for %q: %d %v", path, site, w.Code, w.Header())
			}
		}
	}
}

// A client that polls an API receives a response again only if it has changed.
func TestUnchangedAPI(t *testing.T) {
	t.Parallel()
	h := newHandler(t, "")
	for _, path := range []string{"/api/scheduler_entries", "/api/v2/openapi.json", "/api/v2/servers"} {
		tag := ""
		for _, want := range []int{200, 304} {
			r := httptest.NewRequest(http.MethodGet, "http://localhost:8080"+path, nil)
			r.RemoteAddr = "127.0.0.1:5000"
			r.Header.Set("If-None-Match", tag)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if tag = w.Header().Get("ETag"); w.Code != want || tag == "" || (w.Body.Len() == 0) != (want == 304) {
				t.Errorf("%s: %d with %d bytes, ETag %q", path, w.Code, w.Body.Len(), tag)
			}
		}
	}
}
