package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

var slotsBusy = health.Cause{
	ID: "slots-busy:report:build", Kind: "slots-busy", Severity: health.Trouble, Queues: []string{"mail"},
	Title: `All slots of queue "mail" are busy: report:build holds 62 of 120`, Hint: "Add servers.", Since: time.Now().Add(-time.Hour),
	Link: health.Link{Page: health.PageTasks, Queue: "mail", State: "active"},
	Evidence: []health.Evidence{{
		Text: "p95 of report:build rose from 2 s to 40 s", Link: health.Link{Page: health.PageTask, Queue: "mail", Task: "t1"},
		Series: &health.Series{Metric: "pending", Queue: "mail"},
	}},
	Actions: []health.Action{
		{Kind: health.PauseQueue, Queue: "mail"}, {Kind: health.SeeErrors, Queue: "mail"}, {Kind: health.RunArchived, Queue: "mail"},
	},
}

// The overview shows a cause with its evidence and buttons, and muted causes apart.
func TestOverviewShowsCauses(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("report:build", nil), asynq.Queue("mail"), asynq.TaskID("t1"))
	s.look()
	muted := slotsBusy
	muted.ID, muted.Title, muted.Mute = "paused:low", "Queue low is paused", &health.Mute{By: "ann", Note: "until noon"}
	s.poller.snapshot.Health = health.Report{Causes: []health.Cause{slotsBusy}, Muted: []health.Cause{muted}}
	a := s.get("/")
	text := a.text("main")
	for _, want := range []string{"report:build holds 62 of 120", "p95 of report:build rose", "Pause queue mail", "Mute for an hour", "Acknowledge", "1 muted cause", "Acknowledged until it is gone by ann: until noon", "Unmute"} {
		if !strings.Contains(text, want) {
			t.Errorf("the overview lacks %q:\n%s", want, text)
		}
	}
	if !a.leads("/tasks", "queue", "mail", "state", "active") || !a.leads("/task", "queue", "mail", "id", "t1") || !a.leads("/errors", "queue", "mail") ||
		!a.leads("/tasks", "queue", "mail", "state", "archived") {
		t.Error("a link is missing")
	}
	if text := s.get("/queue", "queue", "mail").text("main"); !strings.Contains(text, "report:build holds 62 of 120") {
		t.Error("the page of the queue lacks the cause")
	}
}

func TestMuteCause(t *testing.T) {
	s := newSite(t)
	s.enqueue(asynq.NewTask("report:build", nil), asynq.Queue("mail"), asynq.TaskID("t1"))
	s.look()
	mutes := func() []*asynq.Mute {
		t.Helper()
		all, err := s.inspector.Mutes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	s.post("/health", "id", "no-server", "do", "hour")
	if all := mutes(); len(all) != 1 || all[0].ID != "no-server" || time.Until(all[0].Until) > time.Hour || time.Until(all[0].Until) < 50*time.Minute {
		t.Errorf("mutes %+v", all)
	}
	s.post("/health", "id", "no-server", "do", "acknowledge")
	if all := mutes(); len(all) != 1 || !all[0].Until.IsZero() {
		t.Errorf("acknowledged %+v", all)
	}
	s.post("/health", "id", "no-server", "do", "unmute")
	if all := mutes(); len(all) != 0 {
		t.Errorf("unmuted %+v", all)
	}
}
