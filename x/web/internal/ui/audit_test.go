package ui

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/access"
)

func TestAudit(t *testing.T) {
	s := newSite(t)
	s.now = today
	if got := s.get("/audit").text("main"); !strings.Contains(got, "No events yet.") {
		t.Errorf("without events: %s", got)
	}
	n := 7
	s.gate.events = []access.Event{
		{At: today.Add(-time.Minute), User: "<b>ann", Role: "admin", Via: "form", Remote: "192.0.2.1", Action: "task.delete", Queue: "a&b", State: "retry", Filter: "type=x", Count: &n, Outcome: "failed", Reason: "half of it"},
		{At: today.Add(-2 * time.Hour), User: "bob", Role: "viewer", Action: "queue.pause", Queue: "mail", Outcome: "refused", Reason: "This requires the role operator."},
		{At: today.Add(-3 * time.Hour), Role: "admin", Action: "schedule.run", Entry: "e-1", Outcome: "done"},
		{At: today.Add(-4 * time.Hour), Role: "admin", Action: "server.concurrency", Server: "s-1", Count: &n, Outcome: "done"},
		{At: today.Add(-4 * time.Hour), Role: "admin", Action: "health.mute", Cause: "paused:mail", Outcome: "done"},
	}
	page := s.get("/audit")
	text := page.text("tbody")
	for _, part := range []string{"1m ago", "<b>ann admin", "a&b retry type=x (7 tasks)", "failed : half of it", "192.0.2.1 form", "refused : This requires", "local admin", "e-1", "server s-1 (concurrency 7)", "paused:mail"} {
		if !strings.Contains(text, part) {
			t.Errorf("the table lacks %q: %s", part, text)
		}
	}
	if got := page.text("select"); !strings.Contains(got, "task.delete") {
		t.Errorf("the choices are %s", got)
	}
	for query, rows := range map[string]int{"queue=mail": 1, "within=1h": 1, "within=24h": 5, "within=99": 5, "queue=none": 0} {
		page := s.get("/audit?" + query)
		if got := strings.Count(page.body, `data-is="action"`); got != rows || rows == 0 && !strings.Contains(page.text("main"), "No event matches.") {
			t.Errorf("%s: %d rows, want %d", query, got, rows)
		}
	}
	if page.text("nav") == "" || !strings.Contains(page.text("nav"), "Audit log") {
		t.Error("the menu has no entry")
	}
	for i := range 150 {
		s.gate.events = append(s.gate.events, access.Event{At: today, User: fmt.Sprint(i), Action: "login", Outcome: "done"})
	}
	if got := strings.Count(s.get("/audit?page=2").body, `data-is="action"`); got != 55 {
		t.Errorf("page 2 has %d rows", got)
	}
	s.gate.refuse = access.AuditView
	if a := s.ask("/audit"); a.status != http.StatusForbidden {
		t.Errorf("without the permission: %d", a.status)
	}
	if got := s.get("/settings").text("nav"); strings.Contains(got, "Audit log") {
		t.Error("the menu has an entry without the permission")
	}
}
