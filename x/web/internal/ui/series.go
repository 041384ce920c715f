package ui

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/trend"
)

// series returns the history of metrics for the charts: all points, or those since a time that the
// page has the points before.
func (u *UI) series(w http.ResponseWriter, r *http.Request) {
	if !u.Gate.Allow(w, r, u.viewAction(r)) {
		return
	}
	q := r.URL.Query()
	names := strings.Split(q.Get("metrics"), ",")
	for _, name := range names {
		_, seen := poll.ParseMetric(name)
		if _, recorded := trend.ParseMetric(name); !seen && !recorded {
			access.Problem(w, r, http.StatusBadRequest, "Unknown metric", "metrics: unknown metric "+name)
			return
		}
	}
	span := sparkSpan
	if text := q.Get("span"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			access.Problem(w, r, http.StatusBadRequest, "Invalid time range", "span: "+err.Error())
			return
		}
	}
	history, _ := u.history(r.Context(), trend.Subject{Queue: q.Get("queue"), Type: q.Get("type"), OfType: q.Get("of") == "type"}, names, span)
	if text := q.Get("since"); text != "" {
		since, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			access.Problem(w, r, http.StatusBadRequest, "Invalid time", "since: not a Unix time: "+text)
			return
		}
		if history.Step >= int64(trend.Hour.Step/time.Second) {
			since -= history.Step // servers write the end of a minute late
		}
		history = history.Since(since)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(history) // fails only if the client has disconnected
}
