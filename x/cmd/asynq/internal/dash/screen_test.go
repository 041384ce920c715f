package dash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/failures"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/trends"
	"github.com/asynq-go/asynq/x/health"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/teatest/v2"
)

// still is a source that ignores all requests.
type still struct{}

func (still) setQuery(query) {}
func (still) refreshNow()    {}
func (still) stopSearch()    {}

// noon is the time of all screens.
var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// stage is a model with fixed data.
func stage(w, h int) *model {
	m := newModel(context.Background(), &Options{}, still{})
	m.clock, m.zone = func() time.Time { return noon }, time.UTC
	m.Update(tea.WindowSizeMsg{Width: w, Height: h})
	for i := range 30 {
		b := stageBase(i)
		b.at = noon.Add(time.Duration(i-29) * m.refresh)
		b.redisAt = b.at
		m.Update(snapshot{base: b})
	}
	return m
}

// on sets the data of a page.
func (m *model) on(p page, b body) *model {
	if p.view < tabs {
		m.tab, m.pages[p.view] = p.view, p
	} else {
		m.stack = []page{p}
	}
	m.Update(snapshot{base: m.snap.base, query: p.query(), body: b})
	return m
}

func stageBase(i int) base {
	at := noon.Add(time.Duration(i-29) * defaultRefresh)
	wave := []int{3, 5, 8, 9, 7, 4, 2, 1, 2, 4}[i%10]
	total := 0
	for k := range i + 1 {
		total += []int{3, 5, 8, 9, 7, 4, 2, 1, 2, 4}[k%10] * 40
	}
	queue := func(name string, q asynq.QueueInfo) queueRow {
		q.Queue, q.Timestamp = name, at
		return queueRow{name: name, info: &q}
	}
	server := func(host string, pid, slots int, queues map[string]int, workers ...*asynq.WorkerInfo) *asynq.ServerInfo {
		return &asynq.ServerInfo{ID: host, Host: host, PID: pid, Concurrency: slots, Queues: queues, Started: noon.Add(-50 * time.Hour), Status: "active", ActiveWorkers: workers, RemoteControl: true}
	}
	return base{
		queues: []queueRow{
			queue("critical", asynq.QueueInfo{Pending: wave * 12, Active: 7, Retry: 27, Scheduled: 4, Archived: 1204, Processed: 81204, Failed: 312, ProcessedTotal: total, FailedTotal: i * i, Latency: time.Duration(wave) * 900 * time.Millisecond, MemoryUsage: 3 << 20}),
			queue("default", asynq.QueueInfo{Pending: 3, Active: 2, Completed: 12345678, Aggregating: 41, Processed: 9120, ProcessedTotal: 700 * i, Latency: 80 * time.Millisecond, MemoryUsage: 912 << 10}),
			queue("legacy", asynq.QueueInfo{Pending: 3000, Latency: 26*time.Hour + 5*time.Minute, MemoryUsage: 41 << 10}),
			{name: "odd\x1b[31m", err: errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")},
			queue("reports-of-the-accounting-department", asynq.QueueInfo{Paused: true, Scheduled: 40}),
		},
		servers: []*asynq.ServerInfo{
			server("web-1", 4123, 20, map[string]int{"critical": 6, "default": 3},
				&asynq.WorkerInfo{TaskID: "0af10d5a-984a-40ef-9ca5-f4d5e10b925e", TaskType: "email:send", Queue: "critical", TaskPayload: []byte(`{"user":362872,"template":"welcome"}`), Started: noon.Add(-1500 * time.Millisecond), Deadline: noon.Add(28 * time.Second)},
				&asynq.WorkerInfo{TaskID: "b", TaskType: "image:resize", Queue: "default", TaskPayload: []byte{0xff, 0xd8, 0xff}, Started: noon.Add(-4 * time.Minute), Deadline: noon.Add(5 * time.Second)}),
			server("worker-with-a-long-name.example.internal", 88, 4, map[string]int{"reports-of-the-accounting-department": 1}),
		},
	}
}

func stageTasks(state asynq.TaskState) []*asynq.TaskInfo {
	tasks := make([]*asynq.TaskInfo, 0, 27)
	for i := range 27 {
		t := &asynq.TaskInfo{
			ID: fmt.Sprintf("%08x-984a-40ef-9ca5-f4d5e10b925e", 0x0af10d5a+i*7777777), Queue: "critical", Type: "email:send", State: state,
			Payload: []byte(fmt.Sprintf(`{"user":%d,"template":"welcome"}`, 9007199254740993+i)), MaxRetry: 25, Retried: i % 9, Retention: time.Hour, Timeout: 30 * time.Minute,
		}
		switch state {
		case asynq.TaskStateRetry, asynq.TaskStateArchived:
			t.LastErr = fmt.Sprintf("dial tcp 10.0.206.%d:587: connect: connection refused", i)
			t.LastFailedAt = noon.Add(-time.Duration(i+1) * 37 * time.Second)
			t.NextProcessAt = noon.Add(time.Duration(i) * time.Minute)
		case asynq.TaskStateScheduled:
			t.NextProcessAt = noon.Add(time.Duration(i) * time.Hour)
		case asynq.TaskStateCompleted:
			t.CompletedAt, t.Result = noon.Add(-time.Duration(i)*time.Second), []byte(`{"status":200}`)
		case asynq.TaskStateAggregating:
			t.Group = fmt.Sprintf("user:%d", i%3)
		}
		tasks = append(tasks, t)
	}
	tasks[1].Type, tasks[1].Payload = "世界:\x1b[2Jsend", []byte("line one\nline two")
	tasks[2].ID, tasks[2].Payload = "order-77", []byte{0, 1, 2, 0xfe}
	return tasks
}

func stageTask() *asynq.TaskInfo {
	return &asynq.TaskInfo{
		ID: "0af10d5a-984a-40ef-9ca5-f4d5e10b925e", Queue: "critical", Type: "invoice:send", State: asynq.TaskStateRetry, MaxRetry: 25, Retried: 3,
		Payload:       []byte(`{"invoice":12345678901234567890,"amount":1.10,"lines":[{"sku":"A-1","note":"Zürich ✓"},{"sku":"B\u0041","n":1e400}]}`),
		Headers:       map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tenant": "acme"},
		LastErr:       "POST https://billing.example.com/v1/send: 503 Service Unavailable\ngoroutine 7 [running]:\n\tmain.send(0xc000123)",
		LastFailedAt:  noon.Add(-90 * time.Second),
		NextProcessAt: noon.Add(4 * time.Minute),
		Timeout:       30 * time.Second,
		Result:        []byte{0xde, 0xad, 0xbe, 0xef},
	}
}

func stageFaults() *errorGroups {
	tally := failures.NewTally(errorSamples)
	for _, t := range stageTasks(asynq.TaskStateRetry) {
		tally.Add(t)
	}
	tally.Add(stageTask())
	return &errorGroups{at: noon, tasks: 27 + 2, partial: true, kinds: tally.Kinds()}
}

var screens = map[string]func(m *model) *model{
	"queues": func(m *model) *model { return m.on(page{view: viewQueues}, body{}) },
	"retry": func(m *model) *model {
		return m.on(page{view: viewTasks, queue: "critical", state: asynq.TaskStateRetry}, body{tasks: stageTasks(asynq.TaskStateRetry)})
	},
	"scheduled": func(m *model) *model {
		return m.on(page{view: viewTasks, queue: "critical", state: asynq.TaskStateScheduled}, body{tasks: stageTasks(asynq.TaskStateScheduled)})
	},
	"completed": func(m *model) *model {
		return m.on(page{view: viewTasks, queue: "default", state: asynq.TaskStateCompleted}, body{tasks: stageTasks(asynq.TaskStateCompleted)})
	},
	"active": func(m *model) *model {
		return m.on(page{view: viewTasks, queue: "critical", state: asynq.TaskStateActive}, body{tasks: stageTasks(asynq.TaskStateActive)})
	},
	"group": func(m *model) *model {
		return m.on(page{view: viewTasks, queue: "default", state: asynq.TaskStateAggregating, group: "user:1"}, body{tasks: stageTasks(asynq.TaskStateAggregating)})
	},
	"empty": func(m *model) *model {
		return m.on(page{view: viewTasks, queue: "legacy", state: asynq.TaskStateArchived, filter: "type:a* word"}, body{})
	},
	"history": func(m *model) *model {
		task := stageTask()
		task.State, task.Payload = asynq.TaskStateActive, []byte("{}")
		task.Progress = &asynq.TaskProgress{Fraction: 0.456, Note: "456 of 1000\x1b[2J rows", At: noon.Add(-time.Second)}
		task.Attempts = []asynq.AttemptInfo{
			{Ended: noon.Add(-time.Hour), Kind: asynq.AttemptLeaseExpired, Err: "asynq: task lease expired"},
			{Started: noon.Add(-3 * time.Minute), Ended: noon.Add(-90 * time.Second), Kind: asynq.AttemptFailed, Server: "web-1:4711\a", Err: task.LastErr},
		}
		return m.on(page{view: viewTask, queue: "critical", id: task.ID}, body{task: task})
	},
	"task": func(m *model) *model {
		return m.on(page{view: viewTask, queue: "critical", id: stageTask().ID}, body{task: stageTask()})
	},
	"groups": func(m *model) *model {
		return m.on(page{view: viewGroups}, body{groups: []groupRow{
			{"default", &asynq.GroupInfo{Group: "user:1", Size: 12}}, {"default", &asynq.GroupInfo{Group: "user:2", Size: 29}}, {"default", &asynq.GroupInfo{Group: "user:\t3", Size: 1}},
		}})
	},
	"servers": func(m *model) *model { return m.on(page{view: viewServers}, body{}) },
	"schedulers": func(m *model) *model {
		return m.on(page{view: viewSchedulers}, body{entries: stageEntries()})
	},
	"entry": func(m *model) *model {
		return m.on(page{view: viewEntry, id: "e1"}, body{entries: stageEntries(), events: []*asynq.SchedulerEnqueueEvent{
			{TaskID: "84a318c7-3c73-5d88-8ffa-d08202a33b63", EnqueuedAt: noon.Add(-3 * time.Second)}, {TaskID: "3ec5ee43", EnqueuedAt: noon.Add(-63 * time.Second)},
		}})
	},
	"errors": func(m *model) *model { return m.on(page{view: viewErrors}, body{errors: stageFaults()}) },
	"error": func(m *model) *model {
		f := stageFaults()
		return m.on(page{view: viewError, id: f.kinds[0].ID}, body{errors: f})
	},
	"causes": func(m *model) *model {
		m.Update(healthMsg{stageHealth()})
		return m.on(page{view: viewQueues}, body{})
	},
	"cause-selected": func(m *model) *model {
		m.Update(healthMsg{stageHealth()})
		m.on(page{view: viewQueues}, body{})
		for _, key := range []string{"g", "down"} {
			m.Update(keyNamed(key))
		}
		return m
	},
	"cause": func(m *model) *model {
		m.Update(healthMsg{stageHealth()})
		return m.on(page{view: viewCause, id: "slots-busy:report:build"}, body{})
	},
	"no-causes": func(m *model) *model {
		m.Update(healthMsg{new(health.Report)})
		return m.on(page{view: viewQueues}, body{})
	},
	"mute": func(m *model) *model {
		m.Update(healthMsg{stageHealth()})
		m.where = "redis.internal:6379, database 0, namespace \"shop\""
		m.on(page{view: viewQueues}, body{})
		for _, key := range []string{"g", "z"} {
			m.Update(keyNamed(key))
		}
		return m
	},
	"partitions": func(m *model) *model {
		p := page{view: viewPartitions, queue: "critical", sortBy: "HELD", falling: true}
		m.snap.servers[0].Partitions = map[string]asynq.PartitionConfig{"critical": {Weight: 1}}
		return m.on(p, body{partitions: stagePartitions()})
	},
	"flows": func(m *model) *model {
		return m.on(page{view: viewFlows}, body{flows: stageFlows(), flowCount: 1204})
	},
	"flow": func(m *model) *model {
		m.on(page{view: viewFlow, id: "order-42"}, body{flows: stageFlows()[1:2]})
		m.Update(keyNamed("down"))
		return m
	},
	"stats":      func(m *model) *model { return stageHistory(m, nil) },
	"stats-type": func(m *model) *model { return stageHistory(m, new("email:send")) },
	"stats-empty": func(m *model) *model {
		m.where = "redis.internal:6379, database 0"
		p := page{view: viewHistory, queue: "mail"}
		return m.on(p, body{history: &recorded{query: p.query(), points: make([]trends.Point, 60)}})
	},
	"help": func(m *model) *model {
		m.on(page{view: viewQueues}, body{}).Update(keyNamed("?"))
		return m
	},
	"confirm": func(m *model) *model {
		m.on(page{view: viewTasks, queue: "critical", state: asynq.TaskStateRetry}, body{tasks: stageTasks(asynq.TaskStateRetry)}).Update(keyNamed("D"))
		return m
	},
	"protected": func(m *model) *model {
		m.where, m.context = "context \"prod\" (redis.internal:6379, database 0, namespace \"shop\")", "prod"
		m.on(page{view: viewQueues}, body{}).Update(keyNamed("p"))
		return m
	},
	"enqueue": func(m *model) *model {
		m.client = new(asynq.Client)
		m.on(page{view: viewTasks, queue: "critical", state: asynq.TaskStateRetry}, body{tasks: stageTasks(asynq.TaskStateRetry)}).Update(keyNamed("e"))
		return m
	},
	"filter": func(m *model) *model {
		m.on(page{view: viewQueues}, body{}).Update(keyNamed("/"))
		for _, r := range "cri" {
			m.Update(keyNamed(string(r)))
		}
		return m
	},
	"away": func(m *model) *model {
		m.on(page{view: viewQueues}, body{}).clock = func() time.Time { return noon.Add(12 * time.Second) }
		m.Update(failedMsg{err: errors.New("dial tcp 127.0.0.1:6379: connect: connection refused")})
		return m
	},
	"read-only": func(m *model) *model {
		m.readOnly = true
		return m.on(page{view: viewSchedulers}, body{entries: stageEntries()})
	},
}

// stageHealth is a report with causes of all severities, some of them muted.
func stageHealth() *health.Report {
	return &health.Report{
		At: noon,
		Causes: []health.Cause{
			{
				ID: "no-worker:legacy", Kind: "no-worker", Severity: health.Trouble, Queues: []string{"legacy"}, Since: noon.Add(-26 * time.Hour),
				Title: "No server processes queue \"legacy\" with 3,000 tasks", Hint: "Add the queue to Config.Queues of a server.",
				Link:     health.Link{Page: health.PageQueue, Queue: "legacy"},
				Evidence: []health.Evidence{{Text: "The oldest pending task of queue \"legacy\" has been waiting for 26 h", Link: health.Link{Page: health.PageTasks, Queue: "legacy", State: "pending"}}},
			},
			{
				ID: "slots-busy:report:build", Kind: "slots-busy", Severity: health.Warning, Queues: []string{"critical"}, Since: noon.Add(-4 * time.Minute),
				Title: "All slots of queue \"critical\" are busy: report:build holds 12 of 20, email:send\x1b[2J waits",
				Hint:  "Process report:build on servers of its own, or limit the concurrency of queue \"default\".",
				Link:  health.Link{Page: health.PageTasks, Queue: "default", State: "active", Type: "report:build"},
				Evidence: []health.Evidence{
					{Text: "report:build in queue \"default\" holds 12 slots (60 %); the longest has been running for 11 min", Link: health.Link{Page: health.PageTask, Queue: "default", Task: "t1"}},
					{Text: "p95 of report:build rose from 2 s to 40 s", Link: health.Link{Page: health.PageTasks, Queue: "default", State: "active", Type: "report:build"}},
					{Text: "Tasks of queue \"critical\" have been waiting for 4 min", Link: health.Link{Page: health.PageQueue, Queue: "critical"}},
				},
				Actions: []health.Action{{Kind: health.PauseQueue, Queue: "default"}, {Kind: health.SeeErrors, Queue: "critical"}, {Kind: health.RunArchived, Queue: "critical"}},
			},
			{ID: "archive-nearly-full:critical", Kind: "archive-nearly-full", Severity: health.Notice, Queues: []string{"critical"}, Title: "The archive of queue \"critical\" is nearly full", Hint: "Run or delete archived tasks."},
		},
		Muted: []health.Cause{{
			ID: "paused:reports", Kind: "paused", Severity: health.Warning, Title: "Queue \"reports\" is paused", Hint: "Resume it.", Mute: &health.Mute{Until: noon.Add(30 * time.Minute), By: "ann"},
		}},
	}
}

func stagePartitions() []*asynq.PartitionInfo {
	return []*asynq.PartitionInfo{
		{Queue: "critical", Active: 1},
		{Queue: "critical", Key: "acme", Held: 1204, Active: 3, Latency: 41 * time.Second, IsBlocked: true, Settings: asynq.PartitionSettings{Weight: 2, Rate: asynq.RateLimit{Events: 100, Per: time.Minute}}},
		{Queue: "critical", Key: "initech\x1b[2J", Held: 7, Latency: 2 * time.Minute, IsBlocked: true, Settings: asynq.PartitionSettings{Paused: true, Concurrency: 5}},
		{Queue: "critical", Key: "umbrella", Held: 2, Active: 1, Latency: 900 * time.Millisecond},
	}
}

// stageHistory shows the history of all queues, or of a task type.
func stageHistory(m *model, typename *string) *model {
	p := page{view: viewHistory, typename: typename}
	r := &recorded{query: p.query()}
	stats := func(n, failed int64, d time.Duration) (s asynq.AttemptStats) {
		s.Succeeded, s.Retried = n-failed, failed
		s.Duration.Observe(d)
		s.Wait.Observe(d / 7)
		return s
	}
	for n := range 60 {
		point := trends.Point{Start: noon.Add(time.Duration(n-59) * time.Minute), Known: n > 9}
		if point.Known {
			point.AttemptStats = stats(int64(400+n*n%97), int64(n*n%13), time.Duration(80+n*n%31)*time.Millisecond)
			point.Sizes = &asynq.QueueSizes{Pending: n * n % 210, Latency: time.Duration(n%17) * time.Second}
		}
		r.points = append(r.points, point)
	}
	slow, other := stats(1203, 0, 40*time.Second), stats(7, 7, time.Millisecond)
	many := stats(21400, 320, 90*time.Millisecond)
	if typename == nil {
		r.types = []*trends.Type{
			{Name: "email:send", Queues: []string{"critical", "default"}, AttemptStats: many}, {Name: "report:\x1b[2Jbuild", Queues: []string{"low"}, AttemptStats: slow},
			{Queues: []string{"default"}, AttemptStats: other},
		}
	} else {
		r.queues = []*asynq.TypeStats{{Queue: "critical", Type: *typename, AttemptStats: many}, {Queue: "default", Type: *typename, AttemptStats: other}}
	}
	return m.on(p, body{history: r})
}

func stageFlows() []*flow.Info {
	node := func(name string, status flow.Status, tasks, succeeded, failed int, started time.Duration) flow.NodeInfo {
		n := flow.NodeInfo{Name: name, Status: status, Total: tasks, Succeeded: succeeded, Failed: failed, Queues: []string{"shop"}}
		if started > 0 {
			n.Started = noon.Add(-started)
		}
		return n
	}
	order := []flow.NodeInfo{
		node("charge", flow.Succeeded, 1, 1, 0, 4*time.Minute), node("pack", flow.Failed, 12, 10, 1, 3*time.Minute), node("ship", flow.Waiting, 1, 0, 0, 0),
		node("refund\x1b[2J", flow.Running, 1, 0, 0, 50*time.Second), node("report", flow.Waiting, 1, 0, 0, 0),
	}
	order[1].Batch, order[1].Deleted, order[1].After = true, 1, []string{"charge"}
	order[2].After, order[2].AfterEnd = []string{"charge", "pack"}, []string{"refund\x1b[2J"}
	order[3].AfterFailure, order[3].TaskIDs = []string{"pack"}, []string{"84a318c7-3c73-5d88-8ffa-d08202a33b63"}
	order[4].AfterEnd = []string{"refund\x1b[2J", "pack"}
	rows := node("rows", flow.Running, 10000, 8123, 0, 90*time.Second)
	rows.Batch = true
	flows := []*flow.Info{
		{ID: "import-2026-03-14\x1b[2J", Status: flow.Running, Nodes: []flow.NodeInfo{rows, node("report", flow.Waiting, 1, 0, 0, 0)}},
		{ID: "order-42", Status: flow.Running, Nodes: order},
		{ID: "order-41", Status: flow.Blocked, Nodes: []flow.NodeInfo{node("charge", flow.Failed, 1, 0, 1, time.Hour), node("ship", flow.Waiting, 1, 0, 0, 0)}},
		{ID: "audit", Status: flow.Succeeded, Nodes: []flow.NodeInfo{node("1", flow.Succeeded, 1, 1, 0, time.Hour), node("2", flow.Omitted, 1, 0, 0, 0)}},
		{ID: "mails", Status: flow.Canceled, Nodes: []flow.NodeInfo{{Name: "members", Status: flow.Canceled, Batch: true}}},
	}
	for i, f := range flows {
		f.Created, f.Changed = noon.Add(-time.Duration(i*i*7+2)*time.Minute), noon.Add(-time.Duration(i*i*300+1)*time.Second)
	}
	return flows
}

func stageEntries() []*asynq.SchedulerEntry {
	return []*asynq.SchedulerEntry{
		{ID: "e2", Spec: "0 3 * * *", Task: asynq.NewTask("db:vacuum", nil), Opts: []asynq.Option{asynq.Queue("low"), asynq.MaxRetry(2)}, Next: noon.Add(15 * time.Hour), Paused: true},
		{ID: "e1", Spec: "@every 1m", Task: asynq.NewTask("report:build", []byte(`{"kind":"hourly"}`)), Opts: []asynq.Option{asynq.Timeout(5 * time.Minute)}, Next: noon.Add(57 * time.Second), Prev: noon.Add(-3 * time.Second)},
	}
}

// TestScreens compares every page with its golden file. The flag -update rewrites the files.
func TestScreens(t *testing.T) {
	t.Parallel()
	for name, show := range screens {
		for _, size := range [][2]int{{80, 24}, {140, 40}} {
			t.Run(fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), func(t *testing.T) {
				m := show(stage(size[0], size[1]))
				lines := m.screen()
				if len(lines) != size[1] {
					t.Errorf("%d lines", len(lines))
				}
				for i, l := range lines {
					if ansi.StringWidth(l) > size[0] {
						t.Errorf("line %d is too wide: %q", i, l)
					}
					lines[i] = strings.TrimRight(ansi.Strip(l), " ")
				}
				teatest.RequireEqualOutput(t, []byte(strings.Join(lines, "\n")+"\n"))
			})
		}
	}
}

// TestScreensOfAllSizes renders every page in all sizes and both themes.
func TestScreensOfAllSizes(t *testing.T) {
	t.Parallel()
	for name, show := range screens {
		m := show(stage(80, 24))
		for _, w := range []int{0, 1, 23, 24, 47, 81, 200} {
			for _, h := range []int{0, 1, 6, 9, 17, 50} {
				m.theme = newTheme(h%2 == 0)
				m.Update(tea.WindowSizeMsg{Width: w, Height: h})
				lines := m.screen()
				if w > 0 && h > 0 && len(lines) != h {
					t.Fatalf("%s at %dx%d has %d lines", name, w, h, len(lines))
				}
				for i, l := range lines {
					if got := ansi.StringWidth(l); got > w {
						t.Fatalf("%s at %dx%d: line %d takes %d cells: %q", name, w, h, i, got, ansi.Strip(l))
					}
					if strings.ContainsAny(ansi.Strip(l), "\x1b\a\n\t") {
						t.Fatalf("%s at %dx%d: line %d contains control characters: %q", name, w, h, i, l)
					}
				}
			}
		}
	}
}
