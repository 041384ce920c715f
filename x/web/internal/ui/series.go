package ui

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// series returns the history of metrics for the charts: all points, or those since a time that the
// page has the points before.
func (u *UI) series(w http.ResponseWriter, r *http.Request) {
	if !u.Gate.Allow(w, r, u.viewAction(r)) {
		return
	}
	q := r.URL.Query()
	var metrics []poll.Metric
	for _, name := range strings.Split(q.Get("metrics"), ",") {
		m, ok := poll.ParseMetric(name)
		if !ok {
			access.Problem(w, r, http.StatusBadRequest, "Unknown metric", "metrics: unknown metric "+name)
			return
		}
		metrics = append(metrics, m)
	}
	span := sparkSpan
	if text := q.Get("span"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			access.Problem(w, r, http.StatusBadRequest, "Invalid time range", "span: "+err.Error())
			return
		}
	}
	history := u.Poller.History(q.Get("queue"), metrics, span)
	if text := q.Get("since"); text != "" {
		since, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			access.Problem(w, r, http.StatusBadRequest, "Invalid time", "since: not a Unix time: "+text)
			return
		}
		history = history.Since(since)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(history) // fails only if the client has disconnected
}
