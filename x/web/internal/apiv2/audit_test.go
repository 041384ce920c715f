package apiv2

import (
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/access"
)

func TestAudit(t *testing.T) {
	s := newSite(t, nil)
	at, n := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC), 7
	s.gate.events = []access.Event{
		{At: at, User: "ann", Role: "admin", Via: "form", Remote: "192.0.2.1", Request: "r", Action: "task.delete", Queue: "mail", State: "retry", Count: &n, Outcome: "failed", Reason: "half of it"},
		{At: at, User: "ann", Role: "admin", Action: "login", Outcome: "done"},
	}
	var got AuditList
	s.want(200, "GET", "/audit", "").into(&got)
	if len(got.Items) != 2 || *got.Items[0].Count != 7 || got.Items[0].Reason != "half of it" || got.Items[1].Count != nil || !got.Items[1].At.Equal(at) {
		t.Errorf("%+v", got.Items)
	}
	s.want(200, "GET", "/audit?user=ann&action=task&queue=mail&outcome=done&since=2030-01-31T12:00:00Z&until=2030-01-31T13:00:00%2B01:00&limit=1", "").into(&got)
	want := access.EventFilter{User: "ann", Action: "task", Queue: "mail", Outcome: "done", Since: at, Until: at}
	if f := s.gate.filtered; !f.Until.Equal(at) || f.User != want.User || f.Action != want.Action || f.Queue != want.Queue || f.Outcome != want.Outcome || !f.Since.Equal(at) {
		t.Errorf("filter %+v, want %+v", f, want)
	}
	if len(got.Items) != 1 {
		t.Errorf("%d events for limit=1", len(got.Items))
	}
	for _, query := range []string{"since=yesterday", "until=1", "outcome=bad", "limit=0", "limit=1001", "verb=a"} {
		s.want(400, "GET", "/audit?"+query, "")
	}
	s.gate.refuse = access.AuditView
	s.want(403, "GET", "/audit", "")
}
