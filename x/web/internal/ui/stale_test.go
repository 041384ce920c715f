package ui

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// While Redis is unreachable, pages mark their figures as old, and name their age.
func TestOldFigures(t *testing.T) {
	s := newSite(t)
	s.now = today
	s.poller.snapshot = queuesWith(3)
	if a := s.get("/"); strings.Contains(a.body, "data-stale") || strings.Contains(a.text("main"), "figures below") {
		t.Error("new figures are marked as old")
	}
	s.poller.snapshot.Err, s.poller.snapshot.DataAt = errors.New("refused"), today.Add(-90*time.Second)
	a := s.get("/")
	_, old := attribute(a.all("main")[0], "data-stale")
	if got := a.text("main"); !old || !strings.Contains(got, "The figures below are from 1m 30s ago") || !strings.Contains(a.row("q00"), " 3 ") {
		t.Errorf("old figures: %v, %s", old, got)
	}
	s.poller.snapshot = &poll.Snapshot{At: today, Err: errors.New("refused")} // since the start
	if got := s.get("/").text("main"); strings.Contains(got, "figures below") {
		t.Errorf("figures that there are not: %s", got)
	}
}

// A queue that cannot be read keeps its last known figures, marked as old.
func TestOldQueue(t *testing.T) {
	s := newSite(t)
	s.now = today
	s.enqueue(asynq.NewTask("a", nil), asynq.Queue("q00"))
	last := &asynq.QueueInfo{Queue: "q00", Pending: 7, Size: 7, Timestamp: today.Add(-90 * time.Second)}
	s.poller.snapshot = queuesWith(1, 2)
	s.poller.snapshot.Queues[0] = poll.Queue{Name: "q00", Err: errors.New("WRONGTYPE"), Last: last}
	for _, path := range []string{"/queues", "/"} {
		a := s.get(path)
		if got := a.row("q00"); !strings.Contains(got, "error from 1m 30s ago") || !strings.Contains(got, " 7 ") || strings.Count(a.body, " stale") != 1 {
			t.Errorf("%s: %q", path, got)
		}
	}
	a := s.get("/queue", "queue", "q00")
	if got := a.text("main"); !strings.Contains(got, "WRONGTYPE. The figures below are from 1m 30s ago") || !strings.Contains(a.body, `class="stack" data-stale`) {
		t.Errorf("the queue says %s", got)
	}
	s.poller.snapshot.Queues[0].Last = nil
	if a := s.get("/queue", "queue", "q00"); strings.Contains(a.body, "data-stale") || !strings.Contains(a.text("main"), "WRONGTYPE") {
		t.Errorf("without a last state: %s", a.text("main"))
	}
}

// Pages whose first survey still waits for Redis report the error of the poller.
func TestErrorBeforeTheFirstSurvey(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // never replies
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: listener.Addr().String(), Params: "max_retries=-1"})
	waiting := survey.New(survey.Config{Inspector: inspector, Logger: quiet()})
	t.Cleanup(func() {
		waiting.Close()
		_ = inspector.Close()
	})
	s := newSite(t, func(c *Config) { c.Survey = waiting })
	s.poller.snapshot.Err = errors.New("connection refused")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that no page waits for the survey
	for _, path := range []string{"/errors", "/error", "/types", "/type", "/groups"} {
		w := httptest.NewRecorder()
		s.ui.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		_, body, _ := strings.Cut(w.Body.String(), "<main")
		if !strings.Contains(body, "Connection refused.") || strings.Contains(body, "Sampling") || strings.Contains(body, "No group") {
			t.Errorf("%s says %s", path, body)
		}
	}
}
