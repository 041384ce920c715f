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
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// mostRunning is how many running tasks the page lists: those that have been for the longest.
const mostRunning = 200

type serversBody struct {
	Find, Server     string // what is looked for, and the server that the tasks are of
	Unknown          string // why the list is from before
	Verdicts         []poll.Verdict
	Rows             []serverRow
	Active           int // servers that take tasks
	Busy, Slots, All int // All: servers, whatever is looked for
	Running          []runningTask
	RunningCount     int
	Queues           []servedQueue
}

// serverRow is a server as the table shows it.
type serverRow struct {
	ID, Name string
	Status   string
	Started  time.Time
	Busy     int
	Slots    int
	Strict   bool
	Queues   []weight
	Longest  *asynq.WorkerInfo // the task that it has worked on for the longest
}

// weight is a queue of a server with its priority, and how much of the server's slots that promises, in percent, if all have tasks.
type weight struct {
	Queue    string
	Priority int
	Percent  int
}

// runningTask is a task that a server works on.
type runningTask struct {
	ID, Type, Queue, Payload, Server, ServerID string

	Started, Deadline time.Time
	Late              bool // it runs beyond its deadline
}

// servedQueue is who works on a queue.
type servedQueue struct {
	Name                   string
	Servers, Slots, Busy   int
	Pending                int
	Exists, Paused, Nobody bool
}

// servers is the page of the servers, and of what they work on now.
func (u *UI) servers(r *http.Request) (*view, error) {
	s := u.Poller.Latest()
	body := serversBody{Find: strings.TrimSpace(r.URL.Query().Get("find")), Server: r.URL.Query().Get("server"), All: len(s.Servers)}
	for _, v := range s.Health {
		if v.Link == "/servers" {
			body.Verdicts = append(body.Verdicts, v)
		}
	}
	if s.Err != nil || s.Problems.Servers != nil {
		body.Unknown = "What is shown is from " + s.At.UTC().Format("15:04:05") + " UTC or before: Redis did not tell of the servers since."
	}
	for _, server := range s.Servers {
		row := serverRowOf(server)
		found := matches(body.Find, row.Name, row.ID, row.Status, strings.Join(slices.Collect(maps.Keys(server.Queues)), "\n"))
		if body.Server != "" && body.Server != server.ID {
			continue
		}
		n := len(body.Running)
		for _, w := range server.ActiveWorkers {
			if found || matches(body.Find, w.TaskID, w.TaskType, w.Queue) {
				body.Running = append(body.Running, runningTask{
					ID: w.TaskID, Type: w.TaskType, Queue: w.Queue, Server: row.Name, ServerID: server.ID, Started: w.Started, Deadline: w.Deadline,
					Payload: u.excerpt(w.Queue, w.TaskType, w.TaskPayload), Late: !w.Deadline.IsZero() && w.Deadline.Before(u.now()),
				})
			}
		}
		if !found && len(body.Running) == n {
			continue
		}
		body.Rows = append(body.Rows, row)
		body.Busy += row.Busy
		if row.Status == "active" {
			body.Active++
			body.Slots += row.Slots
		}
	}
	slices.SortFunc(body.Running, func(a, b runningTask) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	body.RunningCount = len(body.Running)
	body.Running = body.Running[:min(len(body.Running), mostRunning)]
	body.Queues = servedQueues(s, body.Find)
	return &view{Template: "servers", Title: "Servers", Nav: "/servers", Body: body}, nil
}

// matches says that one of the texts contains what is looked for, in any case.
func matches(find string, texts ...string) bool {
	find = strings.ToLower(find)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), find) })
}

func serverRowOf(s *asynq.ServerInfo) serverRow {
	row := serverRow{
		ID: s.ID, Name: fmt.Sprintf("%s:%d", s.Host, s.PID), Status: s.Status, Started: s.Started, Busy: len(s.ActiveWorkers),
		Slots: s.Concurrency, Strict: s.StrictPriority,
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

// servedQueues tells of each queue who works on it. A queue that has tasks and no server comes first.
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
			q.Nobody = q.Servers == 0 && known.Info.Size > 0
		}
	}
	var all []servedQueue
	for _, q := range queues {
		if matches(find, q.Name) {
			all = append(all, *q)
		}
	}
	slices.SortFunc(all, func(a, b servedQueue) int {
		if a.Nobody != b.Nobody {
			if a.Nobody {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.Slots, a.Slots), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), mostRunning)]
}

// changeServers cancels a task that a server works on.
func (u *UI) changeServers(w http.ResponseWriter, r *http.Request) (*view, error) {
	queue, id := r.PostForm.Get("queue"), r.PostForm.Get("id")
	if r.PostForm.Get("do") != "cancel" || id == "" {
		return nil, invalid("A task that is being processed can be canceled, and nothing else be done here.")
	}
	action := access.Action{Verb: access.TaskCancel, Queue: queue, TaskID: id, State: "active", Count: 1}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	// Servers are told an ID alone, which a task of another queue may have, too.
	t, err := u.findTask(r, queue, id)
	if err != nil {
		return nil, err
	}
	if t.State != asynq.TaskStateActive {
		u.say(w, r, flash{Text: "The task is " + t.State.String() + ": only one that is active can be canceled.", Bad: true})
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
		u.say(w, r, flash{Text: "The server was told to cancel task " + id + ". Its handler ends when it heeds its context; then the task is retried, unless its retries are used up."})
	}
	http.Redirect(w, r, u.back(r), http.StatusSeeOther)
	return nil, nil
}

// meter is how much of something is used up. It warns when little is left.
func meter(part, whole any) template.HTML {
	share := portion(part, whole)
	if share >= 0.95 {
		return portionBar("fill high", share)
	}
	return portionBar("fill", share)
}

// shareBar is a part of something, of which none is bad.
func shareBar(part, whole any) template.HTML { return portionBar("fill", portion(part, whole)) }

// portion is part/whole, from 0 to 1.
func portion(part, whole any) float64 {
	if w := float(whole); w > 0 {
		return min(max(float(part)/w, 0), 1)
	}
	return 0
}

func portionBar(class string, share float64) template.HTML {
	return template.HTML(fmt.Sprintf(
		`<svg class="bar meter" viewBox="0 0 120 8" preserveAspectRatio="none" aria-hidden="true"><rect class="nothing" width="120" height="8"/><rect class=%q width="%.2f" height="8"/></svg>`,
		class, 120*share)) // of numbers and constants
}
