package ui

import (
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// taskRow is a task in a table.
type taskRow struct {
	ID, Queue, Type, State, Group string
	Payload, Result, Error        string // clipped
	Retried, MaxRetry             int
	Next, Failed, Completed       time.Time
	Expires                       time.Time // when a completed task is deleted
	Orphaned                      bool
	Worker                        *worker // of an active task, if its server has reported it
}

// worker is the worker of an active task.
type worker struct {
	Server            *asynq.ServerInfo
	Started, Deadline time.Time
}

// How many characters of a payload, a result and an error a row shows.
const (
	rowPayload = 140
	rowResult  = 80
	rowError   = 160
)

func (u *UI) taskRow(t *asynq.TaskInfo) taskRow {
	payload, _ := u.Redact.Bytes(t.Queue, t.Type, t.Payload)
	result, _ := u.Redact.Bytes(t.Queue, t.Type, t.Result)
	row := taskRow{
		ID: t.ID, Queue: t.Queue, Type: t.Type, State: t.State.String(), Group: t.Group, Error: show.Clip(t.LastErr, rowError),
		Payload: excerpt(u.PayloadText, t.Type, payload, rowPayload), Result: excerpt(u.ResultText, t.Type, result, rowResult),
		Retried: t.Retried, MaxRetry: t.MaxRetry, Next: t.NextProcessAt, Failed: t.LastFailedAt, Completed: t.CompletedAt,
		Orphaned: t.IsOrphaned,
	}
	if t.State == asynq.TaskStateCompleted && !t.CompletedAt.IsZero() {
		row.Expires = t.CompletedAt.Add(t.Retention)
	}
	return row
}

// taskRows returns the rows of tasks, with the workers of active ones.
func (u *UI) taskRows(tasks []*asynq.TaskInfo) []taskRow {
	rows := make([]taskRow, len(tasks))
	var workers map[taskKey]*worker
	for n, t := range tasks {
		rows[n] = u.taskRow(t)
		if t.State == asynq.TaskStateActive {
			if workers == nil {
				workers = u.workers()
			}
			rows[n].Worker = workers[taskKey{t.Queue, t.ID}]
		}
	}
	return rows
}

type taskKey struct{ queue, id string }

// workers returns the workers of all servers by task.
func (u *UI) workers() map[taskKey]*worker {
	all := map[taskKey]*worker{}
	for _, s := range u.Poller.Latest().Servers {
		for _, w := range s.ActiveWorkers {
			all[taskKey{w.Queue, w.TaskID}] = &worker{s, w.Started, w.Deadline}
		}
	}
	return all
}

// excerpt returns the beginning of a payload or result, formatted by the formatter if there is one.
func excerpt(text func(string, []byte) (string, bool), typename string, data []byte, n int) string {
	if len(data) > 0 {
		if s, ok := formatted(text, typename, data); ok {
			return show.Clip(s, n)
		}
	}
	return show.Excerpt(data, n)
}
