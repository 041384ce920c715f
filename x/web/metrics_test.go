package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/asynq-go/asynq/x/web"
)

// Metrics are served only to users who may view.
func TestMetrics(t *testing.T) {
	t.Parallel()
	metrics := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "metrics of "+r.URL.Path) })
	for _, root := range []string{"", "/ops"} {
		h := web.New(web.Options{
			RedisConnOpt: newRedis(t), RootPath: root, Metrics: metrics,
			Users: []web.User{{Name: "vera", Password: "right", Role: web.Viewer}}, Logger: slog.New(slog.DiscardHandler),
		})
		t.Cleanup(func() { _ = h.Close() })
		for password, want := range map[string]int{"right": http.StatusOK, "wrong": http.StatusUnauthorized, "": http.StatusUnauthorized} {
			r := httptest.NewRequest(http.MethodGet, root+"/metrics", http.NoBody)
			if password != "" {
				r.SetBasicAuth("vera", password)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if (w.Body.String() == "metrics of /metrics") != (want == http.StatusOK) || w.Code != want {
				t.Errorf("%s/metrics with password %q: %d %s", root, password, w.Code, w.Body)
			}
		}
	}
}
