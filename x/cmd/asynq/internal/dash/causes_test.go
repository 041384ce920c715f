package dash

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/health"
)

// The first page names the cause, and its keys act on it.
func TestCauses(t *testing.T) {
	t.Parallel()
	r := asynq.RedisClientOpt{Addr: proctest.StartRedis(t).Addr()}
	client, insp := tools(t, r)
	enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("mail"))
	o := quick(client, insp)
	o.User = "ann"
	d := drive(t, o)
	d.see("trouble", `No server is running: 1 queue has 1 task`, "Start a server.", "▌mail", "g problems")

	d.keys("g")
	d.see("▌trouble", "enter go to", "z mute", "v evidence")
	d.keys("z")
	d.see("Mute for an hour: cause no-server?")
	d.keys("y")
	d.see("muted for an hour: cause no-server", "▌muted")
	mutes, err := insp.Mutes(t.Context())
	if err != nil || len(mutes) != 1 || mutes[0].ID != "no-server" || mutes[0].By != "ann" || time.Until(mutes[0].Until) < 59*time.Minute {
		t.Fatalf("the mutes are %+v, %v", mutes, err)
	}
	d.keys("v")
	d.see("Problems › no-server", "muted for 59m", " by ann")
	d.keys("z y")
	d.see("unmuted cause no-server", "trouble")
	d.lacks("by ann")
	d.keys("esc enter")
	d.see("Servers and active tasks")

	start(t, r, func(context.Context, *asynq.Task) error { return nil }, "mail")
	if err := insp.PauseQueue("mail"); err != nil {
		t.Fatal(err)
	}
	enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("mail"))
	d.keys("1 ctrl+r")
	d.until("the cause is that the queue is paused", func() bool {
		d.keys("ctrl+r")
		return d.m.cause("paused:mail") != nil
	})
	d.m.page().key = causeKey + "paused:mail"
	d.send(nil)
	d.see("p resume")
	d.keys("p")
	d.see("Resume queue mail?")
	d.keys("y")
	d.see("resumed queue mail")
	d.until("the cause is gone", func() bool { return d.m.cause("paused:mail") == nil })
	q, err := insp.GetQueueInfo("mail")
	if err != nil || q.Paused {
		t.Errorf("the queue is %+v, %v", q, err)
	}
}

// Keys of a cause open what it concerns, and change nothing in a read-only dashboard.
func TestKeysOfCauses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, keys string
		readOnly   bool
		see        []string
	}{
		{"the queue of a cause", "g enter", false, []string{" legacy ", "pending 3,000"}},
		{"a filtered list", "g down enter", false, []string{" default  /type:report:build", "active 2"}},
		{"a task of the evidence", "g down v enter", false, []string{"default › t1"}},
		{"other evidence", "g down v down enter", false, []string{"default  /type:report:build"}},
		{"errors", "g down !", false, []string{"Errors  /queues:*critical*"}},
		{"a cause without errors", "g !", false, []string{"▌trouble"}},
		{"a page that is not there", "g down down enter", false, []string{"Problems › archive-nearly-full:critical", "EVIDENCE"}},
		{"pause", "g down p", false, []string{"Pause queue default?"}},
		{"run archived tasks", "g down R", false, []string{"Run all archived tasks of queue critical?"}},
		{"no archived tasks", "g R", false, []string{"▌trouble"}},
		{"unmute", "g down down down z", false, []string{"Unmute cause paused:reports?"}},
		{"mute from the evidence", "g v z", false, []string{"Mute for an hour: cause no-worker:legacy?"}},
		{"back to the queues", "g down down down down", false, []string{"▌critical"}},
		{"read-only", "g down z", true, []string{"read-only: mute is disabled"}},
		{"read-only hints", "g down", true, []string{"enter go to  v evidence  ! errors  / filter"}},
	} {
		m := stage(100, 40)
		m.readOnly = c.readOnly
		m.Update(healthMsg{stageHealth()})
		m.on(page{view: viewQueues}, body{})
		for key := range strings.FieldsSeq(c.keys) {
			m.Update(keyNamed(key))
		}
		d := driver{m: m}
		for _, text := range c.see {
			if s := d.screen(); !strings.Contains(s, text) {
				t.Errorf("%s: %q is not on the screen:\n%s", c.name, text, s)
			}
		}
	}
}

// The cursor stays on its queue or its cause when causes appear and disappear.
func TestCursorBelowCauses(t *testing.T) {
	t.Parallel()
	m := stage(100, 40).on(page{view: viewQueues}, body{})
	selected := func() string {
		r, _ := m.selected()
		return r.ref.queue + r.ref.id
	}
	for _, step := range []struct{ keys, want, then string }{
		{"", "critical", "critical"}, {"down", "default", "default"},
		{"g", "no-worker:legacy", "archive-nearly-full:critical"}, // the next cause
		{"down", "paused:reports", "paused:reports"},
	} {
		m.Update(healthMsg{stageHealth()})
		for key := range strings.FieldsSeq(step.keys) {
			m.Update(keyNamed(key))
		}
		if got := selected(); got != step.want {
			t.Fatalf("after %q the cursor is on %q, not on %q", step.keys, got, step.want)
		}
		report := stageHealth()
		report.Causes = report.Causes[2:]
		m.Update(healthMsg{report})
		if got := selected(); got != step.then {
			t.Fatalf("after %q and without two causes the cursor is on %q, not on %q", step.keys, got, step.then)
		}
	}
	m.Update(healthMsg{new(health.Report)})
	if got := selected(); got != "critical" {
		t.Errorf("without causes the cursor is on %q", got)
	}
}

func TestFilterTerm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, value, want string }{
		{"type", "", ""}, {"type", "email:send", "type:email:send"}, {"type", `a "b\`, `type:"a \"b\\"`}, {"queues", "a b", `queues:*"a b"*`},
	} {
		if got := filterTerm(c.field, c.value); got != c.want {
			t.Errorf("%q %q: %s, want %s", c.field, c.value, got, c.want)
		}
	}
}
