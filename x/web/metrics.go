package web

import (
	"net/http"

	"github.com/asynq-go/asynq/x/web/internal/access"
)

// withMetrics adds /metrics to next, for users who may View. Metrics contain queue names, so they
// are not public.
func withMetrics(metrics http.Handler, guard *access.Guard, next http.Handler) http.Handler {
	if metrics == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/metrics":
			next.ServeHTTP(w, r)
		case guard.Allow(w, r, access.Action{Verb: access.View}):
			metrics.ServeHTTP(w, r)
		}
	})
}
