package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// queueOf returns a queue with a state.
func queueOf(name string, info asynq.QueueInfo) Queue { return Queue{Name: name, Info: &info} }

// slotsOf returns a server with all of its slots, which are busy with tasks of types, so many each.
func slotsOf(id string, slots int, queue string, types map[string]int) *asynq.ServerInfo {
	s := worker(0, queue)
	s.ID, s.Concurrency = id, slots
	for typename, n := range types {
		for i := range n {
			s.ActiveWorkers = append(s.ActiveWorkers, &asynq.WorkerInfo{
				TaskID: fmt.Sprint(typename, i), TaskType: typename, Queue: queue, Started: start.Add(-12 * time.Minute),
			})
		}
	}
	return s
}

// typeStats returns attempts of a type that took d each.
func typeStats(queue, typename string, succeeded, retried int64, d time.Duration) *asynq.TypeStats {
	s := &asynq.TypeStats{Queue: queue, Type: typename, AttemptStats: asynq.AttemptStats{Succeeded: succeeded, Retried: retried}}
	for range succeeded + retried {
		s.Duration.Observe(d)
	}
	return s
}

// Each incident has symptoms all over; the first cause explains them.
func TestIncidents(t *testing.T) {
	t.Parallel()
	busy := asynq.QueueInfo{Pending: 900, Active: 60, Latency: 7 * time.Minute}
	failing := &Stats{
		Recent: []*asynq.TypeStats{typeStats("hooks", "webhook:deliver", 22, 78, time.Second), typeStats("hooks", "webhook:sign", 100, 2, time.Second)},
		Errors: []*asynq.ErrorStats{
			{Queue: "hooks", Type: "webhook:deliver", Kind: "503 from initech", Count: 70}, {Queue: "hooks", Type: "webhook:deliver", Kind: "EOF", Count: 8},
		},
	}
	for m := range 30 {
		p := &asynq.TypePoint{Queue: "hooks", Type: "webhook:deliver", Start: start.Add(time.Duration(m-30) * time.Minute), Length: time.Minute}
		p.Succeeded = 10
		if m >= 12 {
			p.Retried = 30
		}
		failing.History = append(failing.History, p)
	}
	for _, c := range []struct {
		name     string
		in       Input
		causes   string // kinds, first cause first
		title    string // of the first one
		evidence string // part of its evidence
	}{
		{
			"no server", Input{
				Queues: []Queue{
					queueOf("a", asynq.QueueInfo{Pending: 900, Latency: 45 * time.Minute, ScheduledOverdue: 20 * time.Minute}),
					queueOf("b", asynq.QueueInfo{Active: 3, LeaseOverdue: time.Minute, Pending: 97}), queueOf("c", asynq.QueueInfo{Retry: 4, RetryOverdue: time.Hour}),
				},
				Processes: []asynq.ProcessInfo{{Host: "web-1", PID: 42, Expired: start.Add(-3 * time.Minute)}},
			},
			"no-server", "No server is running: 3 queues have 1,004 tasks", "Server web-1:42 stopped reporting at about 11:57:00 UTC",
		},
		{
			"some queues have no server", Input{
				Queues: []Queue{
					queueOf("a", asynq.QueueInfo{Pending: 3, Latency: time.Hour}), queueOf("b", asynq.QueueInfo{Pending: 97}), queueOf("low", asynq.QueueInfo{Pending: 1}),
				},
				Servers: []*asynq.ServerInfo{worker(0, "low")},
			},
			"no-worker", "No server processes 2 queues with 100 tasks", `Queue "a": the oldest task has been waiting for 60 min`,
		},
		{
			"one type hogs the slots", Input{
				Queues: []Queue{queueOf("default", busy)},
				Servers: []*asynq.ServerInfo{
					slotsOf("1", 60, "default", map[string]int{"report:build": 31, "email:send": 29}),
					slotsOf("2", 60, "default", map[string]int{"report:build": 31, "email:send": 20, "image:resize": 9}),
				},
				Stats: &Stats{
					Recent:  []*asynq.TypeStats{typeStats("default", "report:build", 50, 0, 40*time.Second)},
					Earlier: []*asynq.TypeStats{typeStats("default", "report:build", 400, 0, 2*time.Second)},
				},
			},
			"slots-busy", `All slots of queue "default" are busy: report:build holds 62 of 120`, "p95 of report:build rose from",
		},
		{
			"one host fails", Input{
				Queues:  []Queue{queueOf("hooks", asynq.QueueInfo{Retry: 70})},
				Servers: []*asynq.ServerInfo{worker(2, "hooks")}, Stats: failing,
			},
			"failing", `78 % of webhook:deliver fail since 11:42 UTC with "503 from initech"`, `in queue "hooks": 78 of 100 attempts failed within 10 min`,
		},
		{
			"Redis is full", Input{
				Nodes:   []Node{{Version: "8.0", AppendOnly: true, Memory: 99 << 20, MaxMemory: 100 << 20, MaxMemoryPolicy: "noeviction"}},
				Queues:  []Queue{queueOf("low", asynq.QueueInfo{Pending: 4, Latency: time.Hour, Archived: 10_000})},
				Servers: []*asynq.ServerInfo{worker(0, "low")},
			},
			"redis-memory,waiting,archive-full", "Redis uses 99.0 MiB of 100.0 MiB (99 %)", "",
		},
		{
			"Redis without persistence", Input{
				Nodes:   []Node{{Version: "8.0", Unsaved: 42_000, SavedAt: start.Add(-3 * time.Hour)}},
				Queues:  []Queue{queueOf("low", asynq.QueueInfo{Pending: 4, Latency: 2 * time.Minute})},
				Servers: []*asynq.ServerInfo{worker(0, "low")},
			},
			"redis-unsaved,waiting", "Redis persists nothing: no snapshot for 3 h 0 min with 42,000 changes since, no append-only file, no replica, and no maxmemory", "",
		},
		{
			"tasks crash their servers", Input{
				Queues:    []Queue{queueOf("img", asynq.QueueInfo{Pending: 9, Active: 3, LeaseOverdue: 20 * time.Second, Retry: 3})},
				Servers:   []*asynq.ServerInfo{worker(0, "img")},
				Processes: []asynq.ProcessInfo{{Host: "w", PID: 1, Expired: start.Add(-time.Minute)}, {Host: "w", PID: 2, Expired: start.Add(-2 * time.Minute)}},
				Samples: []ErrorSample{
					{Queue: "img", Type: "image:resize", Kind: asynq.ErrorKind(asynq.ErrLeaseExpired.Error()), Tasks: 3, Failed: 5, Task: "t1", First: start.Add(-9 * time.Minute)},
					{Queue: "img", Type: "image:crop", Kind: asynq.ErrorKind(asynq.ErrLeaseExpired.Error()), Tasks: 1, Failed: 1, Task: "t2"},
				},
			},
			"poison", "3 tasks crash their servers: they are of image:resize; one has failed 5 times", "Server w:2 stopped reporting",
		},
		{
			"tasks panic", Input{
				Queues:  []Queue{queueOf("img", asynq.QueueInfo{Retry: 12})},
				Servers: []*asynq.ServerInfo{worker(0, "img")},
				Stats:   &Stats{Recent: []*asynq.TypeStats{typeStats("img", "image:resize", 3, 40, time.Second)}},
				Samples: []ErrorSample{
					{Queue: "img", Type: "image:resize", Kind: asynq.ErrorKind((&asynq.PanicError{Value: "nil map"}).Error()), Tasks: 12, Failed: 4, Task: "t1"},
				},
			},
			"poison", `12 tasks panic again and again: they are of image:resize with "panic: nil map"; one has failed 4 times`, "93 % of image:resize fail",
		},
		{
			"a scheduler died", Input{
				Queues:    []Queue{queueOf("low", asynq.QueueInfo{})},
				Servers:   []*asynq.ServerInfo{worker(0, "low")},
				Processes: []asynq.ProcessInfo{{Host: "cron-1", PID: 7, Scheduler: true, Expired: start.Add(-20 * time.Minute)}},
			},
			"no-scheduler", "No scheduler has been running for 20 min; the last one, cron-1:7, ended without a shutdown", "",
		},
		{
			"clocks differ", Input{
				Queues:  []Queue{queueOf("low", asynq.QueueInfo{Pending: 1, ScheduledOverdue: 40 * time.Second, Latency: 2 * time.Minute})},
				Servers: []*asynq.ServerInfo{worker(0, "low")},
				Processes: []asynq.ProcessInfo{
					{Host: "web-1", PID: 42, ClockSkew: 4 * time.Second}, {Host: "web-2", PID: 42, ClockSkew: -3 * time.Minute},
				},
			},
			"clock-skew,scheduled-overdue,waiting", "The clock of server web-2:42 is 3 min behind that of Redis", "",
		},
		{
			"the clock of Redis differs", Input{
				Processes: []asynq.ProcessInfo{{Host: "web-1", PID: 42, ClockSkew: 3 * time.Minute}, {Host: "web-2", PID: 42, ClockSkew: 3*time.Minute + time.Second}},
			},
			"clock-skew", "The clock of Redis is 3 min behind those of all 2 processes", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWatch(t)
			w.look(c.in)
			var kinds []string
			for _, cause := range w.report.Causes {
				kinds = append(kinds, cause.Kind)
				checkCause(t, cause)
			}
			if got := strings.Join(kinds, ","); got != c.causes {
				t.Fatalf("causes %s, want %s", got, c.causes)
			}
			first := w.report.Causes[0]
			wantEqual(t, "title", first.Title, c.title)
			if !slices.ContainsFunc(first.Evidence, func(e Evidence) bool { return strings.Contains(e.Text, c.evidence) }) && c.evidence != "" {
				t.Errorf("evidence %+v lacks %q", first.Evidence, c.evidence)
			}
		})
	}
}

// checkCause requires that a cause has all that surfaces show.
func checkCause(t *testing.T, c Cause) {
	t.Helper()
	if c.Title == "" || c.Hint == "" || c.Link.Page == "" || !strings.HasPrefix(c.ID, c.Kind) || c.Queues == nil || c.Evidence == nil || c.Actions == nil {
		t.Errorf("something is missing of %+v", c)
	}
	if strings.HasSuffix(c.Title, ".") || !slices.IsSorted(c.Queues) || !slices.Contains(ranks, c.Kind) && rank(c.Kind) != len(ranks) {
		t.Errorf("cause %+v", c)
	}
}

// A paused queue that grows is named with its growth.
func TestPausedQueueGrows(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.watch(6*time.Minute, func(second int) Input {
		return Input{
			Queues:  []Queue{queueOf("low", asynq.QueueInfo{Paused: true, Pending: 100 + 2*second, Latency: time.Hour})},
			Servers: []*asynq.ServerInfo{worker(0, "low")},
		}
	})
	if n := len(w.report.Causes); n != 1 {
		t.Fatalf("%d causes: %+v", n, w.report.Causes)
	}
	c := w.report.Causes[0]
	wantEqual(t, "title", c.Title, `Queue "low" is paused for at least 6 min, and 820 tasks are waiting, 624 more than 5 min ago`)
	wantEqual(t, "actions", c.Actions, []Action{{Kind: ResumeQueue, Queue: "low"}})
	wantEqual(t, "ID", c.ID, "paused:low")
}

// Without statistics, as with servers of other libraries, failures are found by a Monitor.
func TestFailingWithoutStats(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.watch(3*time.Minute, func(second int) Input {
		return Input{
			Queues:  []Queue{queueOf("low", asynq.QueueInfo{ProcessedTotal: 10 * second, FailedTotal: 5 * second, Archived: 2 * second})},
			Servers: []*asynq.ServerInfo{worker(0, "low")},
			Samples: []ErrorSample{{Queue: "low", Type: "a", Kind: "EOF", Tasks: 9}, {Queue: "low", Type: "b", Kind: "timeout", Tasks: 1}},
		}
	})
	if n := len(w.report.Causes); n != 1 {
		t.Fatalf("%d causes: %+v", n, w.report.Causes)
	}
	c := w.report.Causes[0]
	if c.ID != "failing:EOF" || !strings.HasSuffix(c.Title, `(50 %) with "EOF"`) || len(c.Evidence) != 2 || !slices.Contains(c.Actions, Action{Kind: RunArchived, Queue: "low"}) {
		t.Errorf("%+v", c)
	}
}

// A hundred queues with the same symptom are one cause, with some of them as evidence.
func TestManyQueuesAreOneCause(t *testing.T) {
	t.Parallel()
	var in Input
	for n := range 100 {
		in.Queues = append(in.Queues, queueOf(fmt.Sprintf("q%02d", n), asynq.QueueInfo{Pending: n + 1, Latency: time.Hour}))
	}
	w := newWatch(t)
	w.look(in)
	if len(w.report.Causes) != 1 {
		t.Fatalf("%d causes", len(w.report.Causes))
	}
	c := w.report.Causes[0]
	wantEqual(t, "title", c.Title, "No server is running: 100 queues have 5,050 tasks")
	if len(c.Queues) != 100 || len(c.Evidence) != mostEvidence+1 || c.Evidence[0].Link.Queue != "q99" || c.Evidence[mostEvidence].Text != "and 188 more" {
		t.Errorf("%d queues, evidence %+v", len(c.Queues), c.Evidence)
	}
	in.Servers = []*asynq.ServerInfo{worker(0, "other")}
	for n := range in.Queues {
		in.Servers[0].Queues[in.Queues[n].Name] = 1
	}
	w.look(in)
	if len(w.report.Causes) != 1 || w.report.Causes[0].Title != "Tasks of 100 queues have been waiting for long" || w.report.Causes[0].ID != "waiting" {
		t.Errorf("%+v", w.report.Causes)
	}
}

func TestMutedCauses(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	paused := Input{
		Queues: []Queue{queueOf("low", asynq.QueueInfo{Paused: true, Pending: 1}), queueOf("high", asynq.QueueInfo{Archived: 10_000})}, Servers: []*asynq.ServerInfo{worker(0, "low")},
		Mutes: []*asynq.Mute{{ID: "paused:low", At: start.Add(-time.Hour), By: "ann"}, {ID: "archive-full:high", Until: start.Add(-time.Second)}},
	}
	w.look(paused)
	if len(w.report.Causes) != 1 || w.report.Causes[0].ID != "archive-full:high" || len(w.report.Muted) != 1 || w.report.Muted[0].Mute.By != "ann" {
		t.Fatalf("%+v", w.report)
	}
	if severity, ok := w.report.Severity(); severity != Warning || !ok {
		t.Errorf("severity %v, %v", severity, ok)
	}

	// An acknowledged cause that is gone is reported as ended, but not at once.
	gone := paused
	gone.Queues = gone.Queues[1:]
	w.watch(4*time.Minute, func(int) Input { return gone })
	wantEqual(t, "ended after 4 min", w.report.Ended, nil)
	w.watch(2*time.Minute, func(int) Input { return gone })
	wantEqual(t, "ended after 6 min", w.report.Ended, []string{"paused:low"})
	w.look(paused)
	wantEqual(t, "ended when it is back", w.report.Ended, nil)
}

func TestUnsaved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		node Node
		want bool
	}{
		{"many changes", Node{Version: "8", Unsaved: 100, SavedAt: start.Add(-11 * time.Minute)}, true},
		{"few changes", Node{Version: "8", Unsaved: 99, SavedAt: start.Add(-11 * time.Minute)}, false},
		{"few changes for long", Node{Version: "8", Unsaved: 1, SavedAt: start.Add(-66 * time.Minute)}, true},
		{"recent", Node{Version: "8", Unsaved: 1e6, SavedAt: start.Add(-9 * time.Minute)}, false},
		{"none", Node{Version: "8", SavedAt: start.Add(-99 * time.Hour)}, false},
		{"append-only file", Node{Version: "8", AppendOnly: true, Unsaved: 1e6, SavedAt: start.Add(-9 * time.Hour)}, false},
		{"replica", Node{Version: "8", Replicas: 1, Unsaved: 1e6, SavedAt: start.Add(-9 * time.Hour)}, false},
		{"embedded", Node{Unsaved: 1e6, SavedAt: start.Add(-9 * time.Hour)}, false},
	} {
		found := newWatch(t).look(Input{Nodes: []Node{c.node}})
		if got := slices.ContainsFunc(found, func(f finding) bool { return f.kind == "redis-unsaved" }); got != c.want {
			t.Errorf("%s: %v", c.name, found)
		}
	}
}

func TestParseNode(t *testing.T) {
	t.Parallel()
	n := ParseNode("a:1", "# Server\r\nredis_version:7.0.15\r\nused_memory:100\r\nmaxmemory:200\r\nmaxmemory_policy:allkeys-lru\r\nevicted_keys:3\r\n"+
		"mem_fragmentation_ratio:1.50\r\naof_enabled:1\r\nconnected_slaves:2\r\nrdb_changes_since_last_save:9\r\nrdb_last_save_time:1700000000\r\nrdb_last_bgsave_status:err\r\n")
	want := Node{
		Addr: "a:1", Version: "7.0.15", Memory: 100, MaxMemory: 200, MaxMemoryPolicy: "allkeys-lru", EvictedKeys: 3, Fragmentation: 0.5,
		SaveFailed: true, AppendOnly: true, Replicas: 2, Unsaved: 9, SavedAt: time.Unix(1700000000, 0),
	}
	wantEqual(t, "node", n, want)
	wantEqual(t, "node without INFO", ParseNode("", "nonsense\nused_memory:x\n"), Node{})
}
