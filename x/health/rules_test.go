package health

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

var (
	start   = time.Date(2024, 5, 6, 12, 0, 0, 0, time.UTC)
	errDown = errors.New("connection refused")
)

// watch checks consecutive inputs, every two seconds.
type watch struct {
	t      *testing.T
	m      *Monitor
	at     time.Time
	last   []finding
	report *Report
}

func newWatch(t *testing.T) *watch {
	t.Helper()
	m, err := NewMonitor(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return &watch{t: t, m: m, at: start}
}

// look checks an input. It returns the findings of the rules, most severe first.
func (w *watch) look(in Input) []finding {
	in.At = w.at
	w.report = w.m.Check(&in)
	d := &diagnosis{in: &in, m: w.m.memory, s: w.m.settings, served: serving(&in)}
	d.find()
	w.last = d.findings
	slices.SortStableFunc(w.last, func(a, b finding) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), cmp.Compare(a.queue, b.queue))
	})
	w.at = w.at.Add(2 * time.Second)
	return w.last
}

// watch checks the inputs of f for a duration.
func (w *watch) watch(d time.Duration, f func(second int) Input) []finding {
	for end := w.at.Add(d); !w.at.After(end); {
		w.look(f(int(w.at.Sub(start) / time.Second)))
	}
	return w.last
}

// kinds returns findings as "severity kind queue".
func kinds(findings []finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, strings.TrimSpace(f.severity.String()+" "+f.kind+" "+f.queue))
	}
	return all
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%v", got), fmt.Sprintf("%v", want); g != w {
		t.Errorf("%s is\n\t%s\nwant\n\t%s", what, g, w)
	}
}

// worker returns a server that processes queues, with busy active tasks of the first one.
func worker(busy int, queues ...string) *asynq.ServerInfo {
	s := &asynq.ServerInfo{ID: "id", Host: "host", PID: 42, Status: activeStatus, Concurrency: 10, Queues: make(map[string]int)}
	for _, q := range queues {
		s.Queues[q] = 1
	}
	for n := range busy {
		s.ActiveWorkers = append(s.ActiveWorkers, &asynq.WorkerInfo{
			TaskID: fmt.Sprint(n), TaskType: "mail", Queue: queues[0], Started: start, Deadline: start.Add(time.Hour),
		})
	}
	return s
}

// one returns a snapshot of the queue low with a server.
func one(info asynq.QueueInfo) Input {
	return Input{Queues: []Queue{{Name: "low", Info: &info}}, Servers: []*asynq.ServerInfo{worker(0, "low")}}
}

// verdict returns the only verdict of a kind.
func verdict(t *testing.T, all []finding, kind string) finding {
	t.Helper()
	var found []finding
	for _, v := range all {
		if v.kind == kind {
			found = append(found, v)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d verdicts %q, want 1, of %+v", len(found), kind, all)
	}
	return found[0]
}

func TestHealthOfOneInput(t *testing.T) {
	t.Parallel()
	unserved := func(i asynq.QueueInfo) Input {
		s := one(i)
		s.Servers = nil
		return s
	}
	redis := func(r Node) Input { return Input{Nodes: []Node{r}} }
	stopped := worker(1, "low")
	stopped.Status = "stopped"
	for _, c := range []struct {
		name     string
		snapshot Input
		verdicts string
		text     string // part of the text of the first verdict
	}{
		{"nothing", Input{}, "[]", ""},
		{"all well", one(asynq.QueueInfo{Pending: 5, Latency: 59 * time.Second, Scheduled: 9, Archived: 8999, ScheduledOverdue: 29 * time.Second}), "[]", ""},
		{"empty queue without a server", unserved(asynq.QueueInfo{Archived: 5, Completed: 3}), "[]", ""},
		{"no server", unserved(asynq.QueueInfo{Pending: 12345}), "[trouble no-worker low]", `Queue "low" has 12,345 tasks, but no server or worker processes it`},
		{"no server, one task", unserved(asynq.QueueInfo{Pending: 1}), "[trouble no-worker low]", `has 1 task, but`},
		{"no server, active", unserved(asynq.QueueInfo{Active: 1}), "[trouble no-worker low]", ""},
		{"no server, held", unserved(asynq.QueueInfo{Held: 7}), "[trouble no-worker low]", `has 7 tasks, but`},
		{"no server, later", unserved(asynq.QueueInfo{Scheduled: 1, Retry: 1}), "[warning no-worker low]", "2 tasks"},
		{"servers unknown", Input{Queues: unserved(asynq.QueueInfo{Pending: 1}).Queues, Problems: Problems{Servers: errDown}}, "[trouble look-failed]", "Could not list servers: connection refused"},
		{"stopped server", Input{Queues: one(asynq.QueueInfo{Pending: 1}).Queues, Servers: []*asynq.ServerInfo{stopped}}, "[trouble no-worker low]", "are stopping"},
		{"other queue's server", Input{Queues: one(asynq.QueueInfo{Pending: 1}).Queues, Servers: []*asynq.ServerInfo{worker(0, "high")}}, "[trouble no-worker low]", ""},
		{"waits a minute", one(asynq.QueueInfo{Pending: 1, Latency: time.Minute}), "[notice waiting low]", "the oldest task has been waiting for 60 s"},
		{"waits long", one(asynq.QueueInfo{Pending: 1, Latency: 14*time.Minute + 59*time.Second}), "[warning waiting low]", "the oldest task has been waiting for 14 min"},
		{"waits too long", one(asynq.QueueInfo{Pending: 1, Latency: 3*time.Hour + 20*time.Minute}), "[trouble waiting low]", "the oldest task has been waiting for 3 h 20 min"},
		{"paused", one(asynq.QueueInfo{Paused: true, Pending: 3, Latency: time.Hour}), "[warning paused low]", `Queue "low" is paused, and 3 tasks are waiting`},
		{"paused, held", one(asynq.QueueInfo{Paused: true, Pending: 1, Held: 2}), "[warning paused low]", `Queue "low" is paused, and 3 tasks are waiting`},
		{"paused and empty", one(asynq.QueueInfo{Paused: true, Scheduled: 3}), "[]", ""},
		{"scheduled overdue", one(asynq.QueueInfo{Scheduled: 1, ScheduledOverdue: 30 * time.Second}), "[warning scheduled-overdue low]", "a scheduled task has been due for 30 s"},
		{"retry overdue", one(asynq.QueueInfo{Retry: 1, RetryOverdue: time.Hour}), "[trouble retry-overdue low]", "a task to retry has been due for 60 min"},
		{"orphaned", one(asynq.QueueInfo{Active: 1, LeaseOverdue: 15 * time.Second}), "[warning orphaned low]", "the lease of an active task expired 15 s ago"},
		{"orphaned long", one(asynq.QueueInfo{Active: 1, LeaseOverdue: 2 * time.Minute}), "[trouble orphaned low]", ""},
		{"a type without a handler", Input{Queues: []Queue{{Name: "low", Info: &asynq.QueueInfo{Pending: 9}, Unhandled: []asynq.UnhandledType{{Type: "mail", Tasks: 7}, {Type: "fax", Tasks: 2}}}}, Servers: []*asynq.ServerInfo{worker(0, "low")}},
			"[warning unhandled-type low]", `no running server handles type "mail"; at least 7 tasks are waiting, and those of 1 other type`},
		{"large archive", one(asynq.QueueInfo{Archived: 10_000, Archive: asynq.ArchiveConfig{MaxTasks: 20_000}}), "[]", ""},
		{"small archive", one(asynq.QueueInfo{Archived: 95, Archive: asynq.ArchiveConfig{MaxTasks: 100}}), "[notice archive-nearly-full low]", "at 100, each"},
		{"archive", one(asynq.QueueInfo{Archived: 9000}), "[notice archive-nearly-full low]", "has 9,000 tasks"},
		{"archive full", one(asynq.QueueInfo{Archived: 10_000}), "[warning archive-full low]", "full (10,000 tasks)"},
		{"queue error", Input{Queues: []Queue{{Name: "low", Err: errors.New("WRONGTYPE")}}}, "[trouble queue-error low]", `Could not read queue "low": WRONGTYPE`},
		{"no Redis", Input{Err: errDown, Queues: unserved(asynq.QueueInfo{Pending: 1}).Queues}, "[trouble redis-unreachable]", "Redis is unreachable: connection refused"},
		{"no INFO", Input{Problems: Problems{Redis: errors.New("NOPERM")}}, "[notice no-info]", "NOPERM"},
		{"no entries", Input{Problems: Problems{Entries: errDown, Queues: errDown}}, "[trouble look-failed trouble look-failed]", "Could not list queues"},
		{"memory", redis(Node{Memory: 79, MaxMemory: 100}), "[]", ""},
		{"memory warning", redis(Node{Memory: 850 << 20, MaxMemory: 1 << 30}), "[warning redis-memory]", "Redis uses 850.0 MiB of 1.0 GiB (83 %)"},
		{"memory trouble", redis(Node{Memory: 95, MaxMemory: 100}), "[trouble redis-memory]", "95 B of 100 B (95 %)"},
		{"evicts", redis(Node{MaxMemory: 100, MaxMemoryPolicy: "allkeys-lru"}), "[trouble redis-policy]", "it evicts tasks"},
		{"evicts what expires", redis(Node{MaxMemory: 100, MaxMemoryPolicy: "volatile-ttl"}), "[warning redis-policy]", "volatile-ttl"},
		{"would evict", redis(Node{MaxMemoryPolicy: "allkeys-lru"}), "[notice redis-policy]", ""},
		{"evicts nothing", redis(Node{MaxMemory: 100, MaxMemoryPolicy: "noeviction"}), "[]", ""},
		{"fragmented", redis(Node{Memory: 200 << 20, Fragmentation: 0.8}), "[notice redis-fragmentation]", "80 % more memory of the system than the 200.0 MiB"},
		{"small and fragmented", redis(Node{Memory: 1 << 20, Fragmentation: 8}), "[]", ""},
		{"cannot save", redis(Node{SaveFailed: true}), "[warning redis-save]", ""},
		{"a node is down", Input{Nodes: []Node{{Addr: "a:1", Err: errDown}, {Addr: "b:1", Memory: 99, MaxMemory: 100}}},
			"[trouble redis-node trouble redis-memory]", "Redis node a:1 is unreachable: connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWatch(t)
			all := w.look(c.snapshot)
			wantEqual(t, "verdicts", fmt.Sprint(kinds(w.last)), c.verdicts)
			if len(all) > 0 && !strings.Contains(all[0].text, c.text) {
				t.Errorf("%q lacks %q", all[0].text, c.text)
			}
			for _, v := range all {
				if v.text == "" || v.hint == "" || v.link.Page == "" {
					t.Errorf("something is missing of %+v", v)
				}
			}
		})
	}
}

func TestHealthIsSorted(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.look(Input{
		Queues: []Queue{
			{Name: "a", Info: &asynq.QueueInfo{Archived: 9500}},
			{Name: "b", Info: &asynq.QueueInfo{Scheduled: 1}},
			{Name: "c&d=", Info: &asynq.QueueInfo{Pending: 1}},
		},
		Nodes: []Node{{SaveFailed: true}},
	})
	wantEqual(t, "verdicts", kinds(w.last), []string{"trouble no-worker c&d=", "warning redis-save", "warning no-worker b", "notice archive-nearly-full a"})
	wantEqual(t, "link", w.last[0].link, Link{Page: PageQueue, Queue: "c&d="})
}

func TestPausedSince(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	paused := func(int) Input { return one(asynq.QueueInfo{Paused: true, Pending: 2}) }
	all := w.watch(10*time.Minute, paused)
	wantEqual(t, "text", verdict(t, all, "paused").text, `Queue "low" is paused for at least 10 min, and 2 tasks are waiting`)
	w.look(one(asynq.QueueInfo{}))
	all = w.look(paused(0))
	wantEqual(t, "text when it is paused again", verdict(t, all, "paused").text, `Queue "low" is paused, and 2 tasks are waiting`)
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	grow := func(perSecond float64, processed int) func(int) Input {
		return func(second int) Input {
			return one(asynq.QueueInfo{Pending: 1_000_000 + int(perSecond*float64(second)), ProcessedTotal: processed * second})
		}
	}
	w := newWatch(t)
	if all := w.watch(3*time.Minute, grow(1000, 10)); len(all) != 0 {
		t.Errorf("after 3 min: %+v", all)
	}
	all := w.watch(3*time.Minute, grow(1000, 10))
	v := verdict(t, all, "backlog-grows")
	if v.severity != Warning || !strings.Contains(v.text, "tasks are pending, 3") || !strings.Contains(v.text, "60,600 arriving/min, 600 processed/min") {
		t.Errorf("%+v", v)
	}
	if all := newWatch(t).watch(6*time.Minute, grow(10, 10)); len(all) != 0 {
		t.Errorf("it grew by 0.3 %%: %+v", all)
	}
	wave := func(second int) Input {
		return one(asynq.QueueInfo{Pending: 100_000 + int(90_000*math.Sin(float64(second)/40)), ProcessedTotal: 1})
	}
	for d := 5 * time.Minute; d < 8*time.Minute; d += 10 * time.Second {
		if all := newWatch(t).watch(d, wave); slices.ContainsFunc(all, func(v finding) bool { return v.kind == "backlog-grows" }) {
			t.Fatalf("after %v of a wave: %+v", d, all)
		}
	}
	all = newWatch(t).watch(6*time.Minute, grow(-50, 50))
	v = verdict(t, all, "backlog-drains")
	if v.severity != Notice || !strings.HasSuffix(v.text, "takes 5 h 27 min") {
		t.Errorf("%+v", v)
	}
	if all := newWatch(t).watch(6*time.Minute, grow(-1000, 1000)); len(all) != 0 {
		t.Errorf("it is done in 11 min: %+v", all)
	}
}

func TestFailing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		processed, failed float64 // per second
		want              string
	}{{10, 2, ""}, {10, 2.1, "warning failing low"}, {10, 9, "trouble failing low"}, {0.02, 0.02, ""}} {
		w := newWatch(t)
		w.watch(6*time.Minute, func(second int) Input {
			s := float64(second)
			return one(asynq.QueueInfo{ProcessedTotal: 1000 + int(c.processed*s), FailedTotal: 900 + int(c.failed*s)})
		})
		wantEqual(t, fmt.Sprintf("verdict on %v failures of %v", c.failed, c.processed), strings.Join(kinds(w.last), ","), c.want)
		if c.failed == 9 && !strings.Contains(w.last[0].text, "failed within 5 min (90 %)") {
			t.Errorf("%+v", w.last[0])
		}
	}
	// A recreated queue starts without history.
	w := newWatch(t)
	w.watch(2*time.Minute, func(second int) Input {
		return one(asynq.QueueInfo{ProcessedTotal: 1000 + 10*second, FailedTotal: 10 * second})
	})
	verdict(t, w.last, "failing")
	if all := w.look(one(asynq.QueueInfo{ProcessedTotal: 500, FailedTotal: 2})); len(all) != 0 {
		t.Errorf("after it was made anew: %+v", all)
	}
	w.watch(2*time.Minute, func(int) Input { return one(asynq.QueueInfo{ProcessedTotal: 540, FailedTotal: 41}) })
	verdict(t, w.last, "failing")
}

func TestArchiving(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	all := w.watch(10*time.Minute, func(second int) Input { return one(asynq.QueueInfo{Archived: second}) })
	v := verdict(t, all, "archiving")
	if v.severity != Warning || !strings.Contains(v.text, "tasks were archived within 5 min") {
		t.Errorf("%+v", v)
	}
	if all := w.watch(10*time.Minute, func(int) Input { return one(asynq.QueueInfo{Archived: 600}) }); len(all) != 0 {
		t.Errorf("ten minutes later: %+v", all)
	}
}

func TestSaturated(t *testing.T) {
	t.Parallel()
	snapshot := func(busy int) func(int) Input {
		return func(int) Input {
			s := one(asynq.QueueInfo{Pending: 5, Active: busy})
			s.Servers = []*asynq.ServerInfo{worker(busy, "low")}
			return s
		}
	}
	w := newWatch(t)
	w.watch(2*time.Minute, snapshot(10))
	wantEqual(t, "verdicts after 2 min", kinds(w.last), nil)
	w.watch(2*time.Minute, snapshot(10))
	wantEqual(t, "verdicts after 4 min", kinds(w.last), []string{"notice saturated low"})
	if text := w.last[0].text; text != `Queue "low": all 10 slots of 1 server have been busy for 4 min; 5 tasks are waiting` {
		t.Error(text)
	}
	w.look(snapshot(9)(0))
	w.watch(2*time.Minute, snapshot(10))
	wantEqual(t, "verdicts after a pause", kinds(w.last), nil)
}

func TestServerGone(t *testing.T) {
	t.Parallel()
	with := func(servers ...*asynq.ServerInfo) func(int) Input {
		return func(int) Input { return Input{Servers: servers} }
	}
	w := newWatch(t)
	w.watch(20*time.Second, with(worker(3, "low")))
	w.look(Input{Problems: Problems{Servers: errDown}})
	all := w.watch(time.Minute, with())
	v := verdict(t, all, "server-gone")
	if v.severity != Warning || v.text != "Server host:42 stopped reporting at about 12:00:24 UTC, while it was processing 3 tasks" {
		t.Errorf("%+v", v)
	}
	if all := w.watch(DefaultSettings().CrashReported, with()); len(all) != 0 {
		t.Errorf("ten minutes later: %+v", all)
	}
	for name, gone := range map[string]func(w *watch){
		"idle":    func(w *watch) { w.watch(20*time.Second, with(worker(0, "low"))) },
		"quick":   func(w *watch) { w.watch(4*time.Second, with(worker(3, "low"))) },
		"stopped": func(w *watch) { s := worker(3, "low"); s.Status = "stopped"; w.watch(20*time.Second, with(s)) },
		"Redis away": func(w *watch) {
			w.watch(20*time.Second, with(worker(3, "low")))
			w.look(Input{Err: errDown})
		},
	} {
		w := newWatch(t)
		gone(w)
		if all := w.watch(time.Minute, with()); len(all) != 0 {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

func TestHandlerOverrun(t *testing.T) {
	t.Parallel()
	s := worker(2, "low")
	s.ActiveWorkers[1].Deadline = start.Add(-5 * time.Minute)
	all := newWatch(t).look(Input{Servers: []*asynq.ServerInfo{s}})
	wantEqual(t, "text", verdict(t, all, "handler-overrun").text,
		`Server host:42 has 1 handler running past the deadline; the longest, of type "mail" in queue "low", by 5 min`)
	s.ActiveWorkers[1].Deadline = time.Time{}
	if all := newWatch(t).look(Input{Servers: []*asynq.ServerInfo{s}}); len(all) != 0 {
		t.Errorf("without a deadline: %+v", all)
	}
}

func TestSchedulers(t *testing.T) {
	t.Parallel()
	entry := &asynq.SchedulerEntry{ID: "e", Spec: "@every 1m", Task: asynq.NewTask("report", nil), Next: start.Add(time.Minute)}
	never := &asynq.SchedulerEntry{ID: "never", Spec: "@yearly"}
	w := newWatch(t)
	with := func(int) Input { return Input{Entries: []*asynq.SchedulerEntry{never, entry}} }
	if all := w.watch(2*time.Minute, with); len(all) != 0 {
		t.Errorf("a minute late: %+v", all)
	}
	all := w.watch(2*time.Minute, with)
	wantEqual(t, "text", verdict(t, all, "schedule-missed").text, `1 periodic task is overdue; the longest, "report" (@every 1m), for 3 min`)
	all = w.watch(5*time.Minute, func(int) Input { return Input{} })
	wantEqual(t, "text", verdict(t, all, "no-scheduler").text, "No scheduler has been running for 5 min; the last one had 2 periodic tasks")
	if all := w.look(Input{Problems: Problems{Entries: errDown}}); len(all) != 1 || all[0].kind != "look-failed" {
		t.Errorf("they cannot be listed: %+v", all)
	}
	w.at = w.at.Add(DefaultSettings().NoSchedulerReported)
	if all := w.look(Input{}); len(all) != 0 {
		t.Errorf("a day later: %+v", all)
	}
}

func TestEvicted(t *testing.T) {
	t.Parallel()
	with := func(n int64) Input { return Input{Nodes: []Node{{EvictedKeys: n}}} }
	w := newWatch(t)
	if all := w.look(with(500)); len(all) != 0 {
		t.Errorf("before it was watched: %+v", all)
	}
	wantEqual(t, "text", verdict(t, w.look(with(1500)), "redis-evicted").text, "Redis has evicted 1,000 keys since monitoring started")
	if all := w.look(with(0)); len(all) != 0 {
		t.Errorf("Redis started anew: %+v", all)
	}
	verdict(t, w.look(with(5)), "redis-evicted")
}

func TestHealthMemoryIsBounded(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	var many Input
	for n := range maxTracked + 10 {
		many.Queues = append(many.Queues, Queue{Name: fmt.Sprintf("q%05d", n), Info: &asynq.QueueInfo{Pending: 1}})
	}
	w.look(many)
	wantEqual(t, "queues that are remembered", len(w.m.memory.queues), maxTracked)
	wantEqual(t, "verdicts", len(w.last), maxTracked+10) // the others have verdicts as well
	w.watch(20*time.Minute, func(int) Input { return one(asynq.QueueInfo{}) })
	wantEqual(t, "queues that are remembered then", len(w.m.memory.queues), 1)
	if n := len(w.m.memory.queues["low"].points); n > 28 {
		t.Errorf("%d points of a queue are kept", n)
	}
	for n := range 2 * maxCrashes {
		s := worker(1, "low")
		s.ID = fmt.Sprint(n)
		w.look(Input{Servers: []*asynq.ServerInfo{s}})
	}
	if n := len(w.m.memory.crashed); n > maxCrashes {
		t.Errorf("%d servers that vanished are kept", n)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 min", 119*time.Minute + 59*time.Second: "119 min",
		2 * time.Hour: "2 h 0 min", 47*time.Hour + 59*time.Minute: "47 h 59 min", 48 * time.Hour: "2 days", maxDrain: "365 days",
	} {
		wantEqual(t, d.String(), span(d), want)
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -12: "-12", 100: "100"} {
		wantEqual(t, fmt.Sprint(n), number(n), want)
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1<<20 - 1: "1.0 MiB", 5 << 40: "5.0 TiB", math.MaxInt64: "8.0 EiB"} {
		wantEqual(t, fmt.Sprint(n), size(n), want)
	}
}
