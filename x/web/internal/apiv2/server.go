package apiv2

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/redact"
)

// Server is a running server.
type Server struct {
	ID             string         `json:"id"`
	Host           string         `json:"host"`
	PID            int            `json:"pid"`
	Concurrency    int            `json:"concurrency"`
	Busy           int            `json:"busy" doc:"The number of tasks that it is processing."`
	Queues         map[string]int `json:"queues" doc:"The queues with their priorities."`
	StrictPriority bool           `json:"strict_priority"`
	Status         string         `json:"status"`
	StartedAt      *time.Time     `json:"started_at"`
	Worker         string         `json:"worker" doc:"The name of a worker that polls for tasks, such as a worker of the queue service. Empty for a server."`
	LastPollAt     *time.Time     `json:"last_poll_at" doc:"The time of the last poll of the worker. null for a server."`
	PausedQueues   []string       `json:"paused_queues" doc:"The queues that are paused on this server."`
	RemoteControl  bool           `json:"remote_control" doc:"true: the server accepts commands."`
	Patterns       *[]string      `json:"patterns" doc:"The patterns of the types that it handles. null: unknown."`
}

// ServerList is the running servers and the polling workers, oldest first.
type ServerList struct {
	Items []*Server `json:"items"`
}

// Worker is a task that a server is processing.
type Worker struct {
	Server    string     `json:"server"`
	Host      string     `json:"host"`
	PID       int        `json:"pid"`
	Queue     string     `json:"queue"`
	TaskID    string     `json:"task_id"`
	TaskType  string     `json:"task_type"`
	StartedAt *time.Time `json:"started_at"`
	Deadline  *time.Time `json:"deadline"`
}

// WorkerList is the tasks that all servers are processing.
type WorkerList struct {
	Items []*Worker `json:"items"`
}

func newWorker(s *asynq.ServerInfo, w *asynq.WorkerInfo) *Worker {
	return &Worker{s.ID, s.Host, s.PID, w.Queue, w.TaskID, w.TaskType, timeOf(w.Started), timeOf(w.Deadline)}
}

// workerOf returns the worker of a task, as last seen by the poller.
func (a *api) workerOf(queue, id string) *Worker {
	s := a.latest()
	if s == nil {
		return nil
	}
	for _, server := range s.Servers {
		for _, w := range server.ActiveWorkers {
			if w.TaskID == id && w.Queue == queue {
				return newWorker(server, w)
			}
		}
	}
	return nil
}

func (c *call) listServers() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	servers, err := c.inspect().Servers()
	if err != nil {
		return nil, err
	}
	out := ServerList{Items: []*Server{}}
	for _, s := range servers {
		out.Items = append(out.Items, newServer(s))
	}
	return out, nil
}

func newServer(s *asynq.ServerInfo) *Server {
	queues, paused := s.Queues, s.PausedQueues
	if queues == nil {
		queues = map[string]int{}
	}
	if paused == nil {
		paused = []string{}
	}
	var patterns *[]string
	if s.Patterns != nil {
		patterns = &s.Patterns
	}
	return &Server{
		s.ID, s.Host, s.PID, s.Concurrency, len(s.ActiveWorkers), queues, s.StrictPriority, s.Status, timeOf(s.Started), s.Worker,
		timeOf(s.LastPoll), paused, s.RemoteControl, patterns,
	}
}

func (c *call) listWorkers() (any, error) {
	queue, server := c.query.Get("queue"), c.query.Get("server")
	if err := c.view(queue, ""); err != nil {
		return nil, err
	}
	servers, err := c.inspect().Servers()
	if err != nil {
		return nil, err
	}
	out := WorkerList{Items: []*Worker{}}
	for _, s := range servers {
		for _, w := range s.ActiveWorkers {
			if (queue == "" || w.Queue == queue) && (server == "" || s.ID == server) {
				out.Items = append(out.Items, newWorker(s, w))
			}
		}
	}
	return out, nil
}

// Schedule is a periodic task.
type Schedule struct {
	ID      string     `json:"id"`
	Spec    string     `json:"spec" doc:"The cron spec or interval."`
	Type    string     `json:"type"`
	Payload *Value     `json:"payload"`
	Queue   string     `json:"queue"`
	Options []string   `json:"options" doc:"Formatted as Go source."`
	NextAt  *time.Time `json:"next_at"`
	PrevAt  *time.Time `json:"prev_at"`
	Paused  bool       `json:"paused" doc:"true: its runs are skipped."`
}

// ScheduleList is the entries of all running schedulers.
type ScheduleList struct {
	Items []*Schedule `json:"items"`
}

// ScheduleEvent is a run of a periodic task.
type ScheduleEvent struct {
	TaskID     string     `json:"task_id"`
	EnqueuedAt *time.Time `json:"enqueued_at"`
}

// ScheduleEvents is the last runs of an entry, newest first.
type ScheduleEvents struct {
	Items []ScheduleEvent `json:"items"`
	More  bool            `json:"more" doc:"true: there is a next page."`
}

func (c *call) listSchedules() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	entries, err := c.inspect().SchedulerEntries()
	if err != nil {
		return nil, err
	}
	out := ScheduleList{Items: []*Schedule{}}
	for _, e := range entries {
		s := &Schedule{
			ID: e.ID, Spec: e.Spec, Type: e.Task.Type(), Queue: redact.QueueOf(e), Options: []string{},
			NextAt: timeOf(e.Next), PrevAt: timeOf(e.Prev), Paused: e.Paused,
		}
		s.Payload = c.api.value(c.api.FormatPayload, s.Queue, s.Type, e.Task.Payload(), asFits, listedPayload)
		for _, o := range e.Opts {
			s.Options = append(s.Options, o.String())
		}
		out.Items = append(out.Items, s)
	}
	return out, nil
}

func (c *call) scheduleHistory() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	size := c.num("limit")
	events, err := c.inspect().ListSchedulerEnqueueEvents(c.id(), asynq.Page(c.num("page")), asynq.PageSize(size))
	if err != nil {
		return nil, err
	}
	out := ScheduleEvents{Items: []ScheduleEvent{}, More: len(events) == size}
	for _, e := range events {
		out.Items = append(out.Items, ScheduleEvent{e.TaskID, timeOf(e.EnqueuedAt)})
	}
	return out, nil
}

func (c *call) runSchedule() (any, error) {
	a := access.Action{Verb: access.ScheduleRun, Entry: c.id()}
	entries, err := c.inspect().SchedulerEntries()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.ID == a.Entry {
			a.Queue = redact.QueueOf(e)
		}
	}
	if err := c.allow(a); err != nil {
		return nil, err
	}
	info, err := c.api.Inspector.RunSchedulerEntry(c.r.Context(), c.id())
	if info != nil {
		a.Queue, a.TaskID = info.Queue, info.ID
	}
	c.done(a, err)
	if info == nil {
		return nil, c.api.whyNot(err)
	}
	c.status = 201
	c.w.Header().Set("Location", c.api.link("queues", info.Queue, "tasks", info.ID))
	return c.showTask(info), nil
}

// Redis is the state of Redis from INFO. Fields that are not reported are 0 or empty.
type Redis struct {
	Version              string  `json:"version"`
	Mode                 string  `json:"mode"`
	UptimeSeconds        float64 `json:"uptime_seconds"`
	MemoryBytes          int64   `json:"memory_bytes"`
	MemoryPeakBytes      int64   `json:"memory_peak_bytes"`
	MaxMemoryBytes       int64   `json:"max_memory_bytes" doc:"0: no limit."`
	MaxMemoryPolicy      string  `json:"max_memory_policy"`
	FragmentationPercent float64 `json:"fragmentation_percent"`
	Clients              int     `json:"clients"`
	BlockedClients       int     `json:"blocked_clients"`
	OpsPerSecond         float64 `json:"ops_per_second"`
	Keys                 int64   `json:"keys"`
}

// unseen returns the problem of a poller without any snapshot.
func unseen() error {
	return problemf(503, kindUnavailable, "no data from Redis yet: try again in a few seconds")
}

func (c *call) getRedis() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	s := c.api.latest()
	if s == nil {
		return nil, unseen()
	}
	r := s.Redis
	if err := cmp.Or(s.Err, s.Problems.Redis); err != nil && len(r.Nodes) == 0 { // no data from earlier polls either
		return nil, err
	}
	return Redis{
		r.Version, r.Mode, r.Uptime.Seconds(), r.Memory, r.MemoryPeak, r.MaxMemory, r.MaxMemoryPolicy, r.FragmentationPct, r.Clients,
		r.BlockedClients, r.OpsPerSecond, r.Keys,
	}, nil
}

// Whoami is the user and this server.
type Whoami struct {
	User     string `json:"user" doc:"Empty if no user is logged in."`
	Role     string `json:"role" enum:"none,viewer,operator,admin"`
	ReadOnly bool   `json:"read_only" doc:"true: this server rejects all changes."`
	Version  string `json:"version"`
}

func (c *call) whoami() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	out := Whoami{Role: "none", ReadOnly: c.api.ReadOnly, Version: c.api.Version}
	if c.api.User != nil {
		name, role := c.api.User(c.r.Context())
		out.User = name
		switch role {
		case access.Viewer:
			out.Role = "viewer"
		case access.Operator:
			out.Role = "operator"
		case access.Admin:
			out.Role = "admin"
		case access.None:
		default:
			out.Role = fmt.Sprint(int(role))
		}
	}
	return out, nil
}

// Index is the entry point of the API.
type Index struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	OpenAPI string `json:"openapi" doc:"The URL of the OpenAPI document."`
}

func (c *call) index() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	return Index{"asynq", c.api.Version, c.api.link("openapi.json")}, nil
}
