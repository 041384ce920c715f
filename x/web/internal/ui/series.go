package ui

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// series returns the history of metrics for the charts.
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
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(u.Poller.History(q.Get("queue"), metrics, span)) // fails only if the client has disconnected
}
