package dash

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// The keys on a server change it after a question, and the page shows the result.
func TestOperateServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		start(t, r, func(context.Context, *asynq.Task) error { return nil }, "mail", "low")
		o := quick(client, insp)
		o.Target = `redis:6379, database 0, namespace "shop"`
		d := drive(t, o)
		d.keys("4")
		d.see("1 server", "0/4", "c concurrency", "p pause queue", "t quiet", "x stop")
		for _, step := range []struct {
			keys, text string
			see        []string
		}{
			{"c", "many", []string{`the concurrency must be a number of at least 1, not "many"`}},
			{"c", "7", []string{"Set the concurrency to 7 on server", `In redis:6379, database 0, namespace "shop"`}},
			{"y", "", []string{"runs up to 7 tasks at once", "0/7"}},
			{"p", "nowhere", []string{`the server has no queue "nowhere": it has low, mail`}},
			{"p", "ma", []string{"Pause queue mail on server"}},
			{"y", "", []string{"has paused queue mail", "mail paused"}},
			{"p", "mail", []string{"Resume queue mail on server"}},
			{"y", "", []string{"has resumed queue mail", "low 1 · mail 1"}},
			{"t", "", []string{"Quiet server", "cannot be undone"}},
			{"y", "", []string{"fetches no more tasks", "○ stopped"}},
			{"t", "", []string{"the server is already quiet"}},
			{"x", "", []string{"Shut down server", "cannot be undone"}},
			{"y", "", []string{"is shutting down"}},
		} {
			d.keys(step.keys)
			if step.text != "" {
				d.typed(step.text)
				d.keys("enter")
			}
			d.see(step.see...)
			if step.keys == "y" {
				d.until("no action in flight", func() bool { return d.m.busy == 0 })
			}
		}
	})
}

// The keys on a periodic task pause and resume it.
func TestOperateEntry(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		s := asynq.NewScheduler(r, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
		if _, err := s.Register("@every 1h", asynq.NewTask("report:build", nil)); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		paused := func() bool {
			entries, err := insp.SchedulerEntries()
			if err != nil {
				t.Fatal(err)
			}
			return len(entries) == 1 && entries[0].Paused
		}
		d := drive(t, quick(client, insp))
		d.keys("5")
		d.see("@every 1h", "p pause")
		d.keys("p")
		d.see("Pause entry")
		d.keys("y")
		d.see("paused entry", "  paused ")
		if !paused() {
			t.Error("the entry is not paused")
		}
		d.keys("enter")
		d.see("paused: ticks are skipped", "p resume")
		d.keys("p")
		d.see("Resume entry")
		d.keys("y")
		d.see("resumed entry", "(in 59m")
		if paused() {
			t.Error("the entry is still paused")
		}
	})
}

// Guards hold for servers and entries: read-only dashboards refuse, protected ones ask for the name
// of the context, and servers that accept no commands are named before a question.
func TestGuardsOfServersAndEntries(t *testing.T) {
	t.Parallel()
	show := func(v view) *model {
		m := stage(140, 24)
		m.snap.servers[0].RemoteControl, m.snap.servers[0].PausedQueues = true, []string{"low"}
		return m.on(page{view: v}, body{entries: stageEntries()})
	}
	for _, c := range []struct {
		view view
		keys string
		verb string
	}{{viewServers, "c 5 enter", "cancel"}, {viewServers, "p l o enter", "pause"}, {viewServers, "t", "quiet"}, {viewServers, "x", "stop"}, {viewSchedulers, "p", "pause"}} {
		press := func(m *model) *model {
			for key := range strings.FieldsSeq(c.keys) {
				m.Update(keyNamed(key))
			}
			return m
		}
		m := show(c.view)
		m.readOnly = true
		m.Update(keyNamed(c.keys[:1]))
		if m.dialog != nil || m.prompt != nil || !strings.Contains(m.footer(140), "read-only: "+c.verb+" is disabled") {
			t.Errorf("%v %s: a read-only dashboard shows %s", c.view, c.keys, m.footer(140))
		}
		m = show(c.view)
		m.context = "prod"
		if press(m); m.dialog == nil || m.dialog.name != "prod" {
			t.Errorf("%v %s: a protected context asks %+v", c.view, c.keys, m.dialog)
		}
	}
	m := show(viewServers)
	m.snap.servers[0].RemoteControl = false
	for _, key := range []string{"c", "p", "t", "x"} {
		if m.Update(keyNamed(key)); m.dialog != nil || m.prompt != nil || !strings.Contains(m.footer(140), "accepts no commands") {
			t.Errorf("%s: a server that accepts no commands: %s", key, m.footer(140))
		}
	}
}

// The rows of servers are sorted together with those of their tasks.
func TestSortServers(t *testing.T) {
	t.Parallel()
	worker := func(id string) *asynq.WorkerInfo {
		return &asynq.WorkerInfo{TaskID: id, TaskType: id, Queue: "default", Started: noon}
	}
	m := stage(140, 24)
	m.snap.servers = []*asynq.ServerInfo{
		{ID: "b", Host: "b", PID: 1, Concurrency: 20, Status: "active", Started: noon.Add(-time.Hour), ActiveWorkers: []*asynq.WorkerInfo{worker("t1"), worker("t2")}},
		{ID: "a", Host: "a", PID: 1, Concurrency: 100, Status: "active", Started: noon.Add(-time.Minute)},
		{ID: "c", Host: "c", PID: 1, Concurrency: 9, Status: "active", Started: noon, ActiveWorkers: slices.Repeat([]*asynq.WorkerInfo{worker("t3")}, 11)},
	}
	m.on(page{view: viewServers}, body{})
	order := func() string {
		var keys []string
		for _, r := range m.shown.rows {
			key, _, child := strings.Cut(r.key, "\x00")
			if r.child != child {
				t.Fatalf("row %q: child is %v", r.key, r.child)
			}
			if len(keys) == 0 || keys[len(keys)-1] != key {
				keys = append(keys, key)
			}
		}
		return strings.Join(keys, "")
	}
	for _, step := range []struct{ keys, want string }{
		{"", "bac"}, {"s", "abc"}, {"S", "cba"}, {"s s", "cba"}, {"S", "abc"}, {"s", "bac"}, {"S", "cab"},
	} {
		for key := range strings.FieldsSeq(step.keys) {
			m.Update(keyNamed(key))
		}
		if got := order(); got != step.want {
			t.Errorf("after %q sorted by %q the order is %s, not %s", step.keys, m.page().sortBy, got, step.want)
		}
	}
}
