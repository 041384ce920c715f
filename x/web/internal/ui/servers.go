package ui

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// mostServers and mostRunning are the servers and the active tasks per page.
const (
	mostServers = 50
	mostRunning = 200
)

type serversBody struct {
	Find, Server     string // the filter, and the selected server
	Unknown          string // why the list is not current
	Causes           []causeBox
	Rows             []serverRow
	Pages            pager // of Rows
	Active           int   // active servers
	Workers          int   // polling workers
	Busy, Slots, All int   // All: servers regardless of the filter
	Running          []runningTask
	RunningPages     pager // of Running
	Queues           []servedQueue
}

// serverRow is a server in the table.
type serverRow struct {
	ID, Name string
	Worker   bool      // it polls for tasks
	LastPoll time.Time // only for a worker
	Status   string
	Started  time.Time
	Busy     int
	Slots    int
	Strict   bool
	Queues   []weight
	Longest  *asynq.WorkerInfo // its longest-running task; nil if it has none
	Remote   bool              // it accepts commands
	Paused   []string          // the queues that are paused on it
	Handles  string            // the patterns of the types that it handles; empty if unknown
}

// weight is a queue of a server with its priority, and the resulting percentage of the server's
// slots while all queues have tasks.
type weight struct {
	Queue    string
	Priority int
	Percent  int
}

// runningTask is a task that a server is processing.
type runningTask struct {
	ID, Type, Queue, Payload, Server, ServerID string

	Started, Deadline time.Time
	Late              bool // it is past its deadline
}

// servedQueue is a queue with its servers.
type servedQueue struct {
	Name                      string
	Servers, Slots, Busy      int
	Pending                   int
	Exists, Paused, NoWorkers bool
}

// servers is the page with the servers and their active tasks.
func (u *UI) servers(r *http.Request) (*view, error) {
	s := u.Poller.Latest()
	body := serversBody{Find: strings.TrimSpace(r.URL.Query().Get("find")), Server: r.URL.Query().Get("server"), All: len(s.Servers)}
	body.Causes = u.causesThat(func(c *health.Cause) bool { return c.Link.Page == health.PageServers })
	if s.Err != nil || s.Problems.Servers != nil {
		body.Unknown = "Could not list servers. Showing the last known state, from " + s.At.UTC().Format("15:04:05") + " UTC or before."
	}
	type active struct {
		*asynq.WorkerInfo
		server *asynq.ServerInfo
		name   string
	}
	var running []active
	for _, server := range s.Servers {
		row := serverRowOf(server)
		found := matches(body.Find, row.Name, row.ID, row.Status, strings.Join(slices.Collect(maps.Keys(server.Queues)), "\n"))
		if body.Server != "" && body.Server != server.ID {
			continue
		}
		n := len(running)
		for _, w := range server.ActiveWorkers {
			if found || matches(body.Find, w.TaskID, w.TaskType, w.Queue) {
				running = append(running, active{w, server, row.Name})
			}
		}
		if !found && len(running) == n {
			continue
		}
		body.Rows = append(body.Rows, row)
		body.Busy += row.Busy
		if row.Status == "active" {
			if row.Worker {
				body.Workers++
			} else {
				body.Active++
			}
			body.Slots += row.Slots
		}
	}
	slices.SortFunc(running, func(a, b active) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Queue, b.Queue))
	})
	var err error
	if body.Rows, body.Pages, err = pageOf(u, r, body.Rows, mostServers); err != nil {
		return nil, err
	}
	if running, body.RunningPages, err = pageBy(u, r, "tasks", running, mostRunning); err != nil {
		return nil, err
	}
	for _, w := range running {
		body.Running = append(body.Running, runningTask{
			ID: w.TaskID, Type: w.TaskType, Queue: w.Queue, Server: w.name, ServerID: w.server.ID, Started: w.Started, Deadline: w.Deadline,
			Payload: u.excerpt(w.Queue, w.TaskType, w.TaskPayload), Late: !w.Deadline.IsZero() && w.Deadline.Before(u.now()),
		})
	}
	body.Queues = servedQueues(s, body.Find)
	return &view{Template: "servers", Title: "Servers", Nav: "/servers", Body: body}, nil
}

// matches reports whether one of the texts contains find, ignoring case.
func matches(find string, texts ...string) bool {
	find = strings.ToLower(find)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), find) })
}

func serverRowOf(s *asynq.ServerInfo) serverRow {
	row := serverRow{
		ID: s.ID, Name: fmt.Sprintf("%s:%d", s.Host, s.PID), Status: s.Status, Started: s.Started, Busy: len(s.ActiveWorkers),
		Slots: s.Concurrency, Strict: s.StrictPriority, LastPoll: s.LastPoll,
		Remote: s.RemoteControl, Paused: s.PausedQueues,
	}
	if s.Worker != "" {
		row.Name, row.Worker = s.Worker, true
	}
	if s.Patterns != nil {
		row.Handles = cmp.Or(strings.Join(s.Patterns, ", "), "no types")
	}
	if row.Busy > 0 {
		row.Longest = s.ActiveWorkers[0]
	}
	sum := 0
	for _, priority := range s.Queues {
		sum += priority
	}
	for name, priority := range s.Queues {
		row.Queues = append(row.Queues, weight{name, priority, 100 * priority / max(sum, 1)})
	}
	slices.SortFunc(row.Queues, func(a, b weight) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Queue, b.Queue))
	})
	return row
}

// servedQueues returns the queues with their servers. Queues with tasks and without servers come
// first.
func servedQueues(s *poll.Snapshot, find string) []servedQueue {
	queues := make(map[string]*servedQueue)
	of := func(name string) *servedQueue {
		if queues[name] == nil {
			queues[name] = &servedQueue{Name: name}
		}
		return queues[name]
	}
	for _, server := range s.Servers {
		for name := range server.Queues {
			if q := of(name); server.Status == "active" {
				q.Servers++
				q.Slots += server.Concurrency
			}
		}
		for _, w := range server.ActiveWorkers {
			of(w.Queue).Busy++
		}
	}
	for _, known := range s.Queues {
		q := of(known.Name)
		q.Exists = true
		if known.Info != nil {
			q.Pending, q.Paused = known.Info.Pending, known.Info.Paused
			q.NoWorkers = q.Servers == 0 && known.Info.Size > known.Info.Completed
		}
	}
	var all []servedQueue
	for _, q := range queues {
		if matches(find, q.Name) {
			all = append(all, *q)
		}
	}
	slices.SortFunc(all, func(a, b servedQueue) int {
		if a.NoWorkers != b.NoWorkers {
			if a.NoWorkers {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.Slots, a.Slots), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), mostRunning)]
}

// changeServers cancels an active task, or sends a command to a server.
func (u *UI) changeServers(w http.ResponseWriter, r *http.Request) (*view, error) {
	if r.PostForm.Get("server") != "" {
		return u.commandServer(w, r)
	}
	queue, id := r.PostForm.Get("queue"), r.PostForm.Get("id")
	if r.PostForm.Get("do") != "cancel" || id == "" {
		return nil, invalid("Unknown action: an active task can only be canceled.")
	}
	action := access.Action{Verb: access.TaskCancel, Queue: queue, TaskID: id, State: "active", Count: 1}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	// Servers receive only the ID, which a task of another queue may have as well.
	t, err := u.findTask(r, queue, id)
	if err != nil {
		return nil, err
	}
	if t.State != asynq.TaskStateActive {
		u.say(w, r, flash{Text: "The task is " + t.State.String() + ". Only active tasks can be canceled.", Bad: true})
		http.Redirect(w, r, u.back(r), http.StatusSeeOther)
		return nil, nil
	}
	inspector, cancel := u.inspector(r)
	defer cancel()
	err = inspector.CancelProcessing(id)
	u.Gate.Done(r, action, err)
	u.Poller.Wake()
	if err != nil {
		u.say(w, r, flash{Text: sentence(err.Error()), Bad: true})
	} else {
		u.say(w, r, flash{Text: "Cancellation of task " + id + " requested. If its handler returns an error, the task is retried, unless its retries are exhausted."})
	}
	http.Redirect(w, r, u.back(r), http.StatusSeeOther)
	return nil, nil
}

// meter returns a bar of a used share. Its color changes when little is left.
func meter(part, whole any) template.HTML {
	share := shareOf(part, whole)
	if share >= 0.95 {
		return shareSVG("fill high", share)
	}
	return shareSVG("fill", share)
}

// shareBar returns a bar of a share, without a warning color.
func shareBar(part, whole any) template.HTML { return shareSVG("fill", shareOf(part, whole)) }

// shareOf returns part/whole, between 0 and 1.
func shareOf(part, whole any) float64 {
	if w := float(whole); w > 0 {
		return min(max(float(part)/w, 0), 1)
	}
	return 0
}

func shareSVG(class string, share float64) template.HTML {
	return template.HTML(fmt.Sprintf(
		`<svg class="bar meter" viewBox="0 0 120 8" preserveAspectRatio="none" aria-hidden="true"><rect class="nothing" width="120" height="8"/><rect class=%q width="%.2f" height="8"/></svg>`,
		class, 120*share)) // contains only numbers and constants
}
