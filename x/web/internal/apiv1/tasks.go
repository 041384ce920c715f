package apiv1

import (
	"net/url"
	"strconv"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	defaultSize = 20
	maxSize     = 1000
)

// list is the list of tasks in one state.
type list struct {
	name    string // in paths
	state   asynq.TaskState
	grouped bool // there is one list per group

	page    func(i *asynq.Inspector, queue, group string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	row     func(h *handler, t *asynq.TaskInfo, workers map[taskKey]*asynq.WorkerInfo) any
	changes []change
}

// ungrouped adapts a list function without a group parameter.
func ungrouped(page func(*asynq.Inspector, string, ...asynq.ListOption) ([]*asynq.TaskInfo, error)) func(*asynq.Inspector, string, string, ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	return func(i *asynq.Inspector, queue, _ string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
		return page(i, queue, opts...)
	}
}

var lists = []list{{
	name: "active", state: asynq.TaskStateActive, page: ungrouped((*asynq.Inspector).ListActiveTasks), row: activeRow,
	changes: []change{cancelChange},
}, {
	name: "pending", state: asynq.TaskStatePending, page: ungrouped((*asynq.Inspector).ListPendingTasks), row: pendingRow,
	changes: []change{deleteChange, archiveChange},
}, {
	name: "scheduled", state: asynq.TaskStateScheduled, page: ungrouped((*asynq.Inspector).ListScheduledTasks), row: waitingRow,
	changes: []change{deleteChange, runChange, archiveChange},
}, {
	name: "retry", state: asynq.TaskStateRetry, page: ungrouped((*asynq.Inspector).ListRetryTasks), row: waitingRow,
	changes: []change{deleteChange, runChange, archiveChange},
}, {
	name: "archived", state: asynq.TaskStateArchived, page: ungrouped((*asynq.Inspector).ListArchivedTasks), row: archivedRow,
	changes: []change{deleteChange, runChange},
}, {
	name: "completed", state: asynq.TaskStateCompleted, page: ungrouped((*asynq.Inspector).ListCompletedTasks), row: completedRow,
	changes: []change{deleteChange},
}, {
	name: "aggregating", state: asynq.TaskStateAggregating, grouped: true, page: (*asynq.Inspector).ListAggregatingTasks, row: aggregatingRow,
	changes: []change{deleteChange, runChange, archiveChange},
}}

// taskKey names a task: an ID is unique only in its queue.
type taskKey struct{ queue, id string }

// list returns a page of tasks and the state of their queue.
func (h *handler) list(x *exchange, l list) {
	if !h.mayView(x) {
		return
	}
	opts, err := pageOf(x.r.URL.Query())
	if err != nil {
		h.fail(x, err)
		return
	}
	tasks, err := l.page(x.inspector, x.args.queue, x.args.group, opts...)
	if err != nil {
		h.fail(x, err)
		return
	}
	info, err := x.inspector.GetQueueInfo(x.args.queue)
	if err != nil {
		h.fail(x, err)
		return
	}
	var workers map[taskKey]*asynq.WorkerInfo
	if l.state == asynq.TaskStateActive && len(tasks) > 0 {
		if workers, err = workersOf(x.inspector); err != nil {
			h.fail(x, err)
			return
		}
	}
	rows := make([]any, len(tasks))
	for n, t := range tasks {
		rows[n] = l.row(h, t, workers)
	}
	stats := newQueueState(info)
	if !l.grouped {
		h.answer(x, struct {
			Tasks []any      `json:"tasks"`
			Stats queueState `json:"stats"`
		}{rows, stats})
		return
	}
	groups, err := x.inspector.Groups(x.args.queue)
	if err != nil {
		h.fail(x, err)
		return
	}
	h.answer(x, struct {
		Tasks  []any        `json:"tasks"`
		Stats  queueState   `json:"stats"`
		Groups []groupState `json:"groups"`
	}{rows, stats, newGroups(groups)})
}

// pageOf parses the size and number of a page.
func pageOf(q url.Values) ([]asynq.ListOption, error) {
	size, err := number(q, "size", defaultSize, maxSize)
	if err != nil {
		return nil, err
	}
	page, err := number(q, "page", 1, 1<<31-1)
	if err != nil {
		return nil, err
	}
	return []asynq.ListOption{asynq.PageSize(size), asynq.Page(page), asynq.NewestFirst()}, nil
}

// number parses a parameter from 1 to most.
func number(q url.Values, name string, otherwise, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, bad("%s must be a number from 1 to %d, not %q", name, most, text)
	}
	return n, nil
}

// workersOf returns the workers of active tasks.
func workersOf(i *asynq.Inspector) (map[taskKey]*asynq.WorkerInfo, error) {
	servers, err := i.Servers()
	if err != nil {
		return nil, err
	}
	workers := make(map[taskKey]*asynq.WorkerInfo)
	for _, s := range servers {
		for _, w := range s.ActiveWorkers {
			workers[taskKey{w.Queue, w.TaskID}] = w
		}
	}
	return workers, nil
}

// task returns one task.
func (h *handler) task(x *exchange) {
	if !h.mayView(x) {
		return
	}
	t, err := x.inspector.GetTaskInfo(x.args.queue, x.args.id)
	if err != nil {
		h.fail(x, err)
		return
	}
	h.answer(x, struct {
		ID             string `json:"id"`
		Queue          string `json:"queue"`
		Type           string `json:"type"`
		Payload        string `json:"payload"`
		State          string `json:"state"`
		MaxRetry       int    `json:"max_retry"`
		Retried        int    `json:"retried"`
		LastError      string `json:"error_message"`
		LastFailedAt   string `json:"last_failed_at"`
		TimeoutSeconds int64  `json:"timeout_seconds"`
		Deadline       string `json:"deadline"`
		NextProcessAt  string `json:"next_process_at"`
		CompletedAt    string `json:"completed_at"`
		Result         string `json:"result"`
		TTLSeconds     int64  `json:"ttl_seconds"`
	}{
		ID: t.ID, Queue: t.Queue, Type: t.Type, Payload: h.payload(t.Queue, t.Type, t.Payload), State: t.State.String(),
		MaxRetry: t.MaxRetry, Retried: t.Retried, LastError: t.LastErr, LastFailedAt: when(t.LastFailedAt),
		TimeoutSeconds: int64(t.Timeout / time.Second), Deadline: when(t.Deadline), NextProcessAt: when(t.NextProcessAt),
		CompletedAt: when(t.CompletedAt), Result: h.result(t), TTLSeconds: keptFor(t),
	})
}

// always formats a time in whole seconds in UTC. The zero time is formatted as the year 1, so that
// clients can parse it. Lists use this format.
func always(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// when is like always, but returns "" for the zero time. Task details use this format.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return always(t)
}

// keptFor returns the remaining retention of a completed task in seconds; 0 for all others.
func keptFor(t *asynq.TaskInfo) int64 {
	if t.CompletedAt.IsZero() {
		return 0
	}
	return int64(max(t.Retention-time.Since(t.CompletedAt), 0) / time.Second)
}
