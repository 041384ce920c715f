package apiv1

import "github.com/asynq-go/asynq"

// A row is a task in a list: common fields, and fields of the state.

type row struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Payload   string `json:"payload"`
	Queue     string `json:"queue"`
	MaxRetry  int    `json:"max_retry"`
	Retried   int    `json:"retried"`
	LastError string `json:"error_message"`
}

func (h *handler) row(t *asynq.TaskInfo) row {
	return row{
		ID: t.ID, Type: t.Type, Payload: h.payload(t.Queue, t.Type, t.Payload), Queue: t.Queue, MaxRetry: t.MaxRetry, Retried: t.Retried,
		LastError: t.LastErr,
	}
}

// unknown is the value of the times of an active task that no server has reported: it was fetched
// in the last few seconds, or it is orphaned.
const unknown = "-"

func activeRow(h *handler, t *asynq.TaskInfo, workers map[taskKey]*asynq.WorkerInfo) any {
	started, deadline := unknown, unknown
	if w := workers[taskKey{t.Queue, t.ID}]; w != nil {
		started, deadline = always(w.Started), always(w.Deadline)
	}
	return struct {
		row
		StartTime  string `json:"start_time"`
		Deadline   string `json:"deadline"`
		IsOrphaned bool   `json:"is_orphaned"`
	}{h.row(t), started, deadline, t.IsOrphaned}
}

func pendingRow(h *handler, t *asynq.TaskInfo, _ map[taskKey]*asynq.WorkerInfo) any { return h.row(t) }

// waitingRow is the row of scheduled and retry tasks.
func waitingRow(h *handler, t *asynq.TaskInfo, _ map[taskKey]*asynq.WorkerInfo) any {
	return struct {
		row
		NextProcessAt string `json:"next_process_at"`
	}{h.row(t), always(t.NextProcessAt)}
}

func archivedRow(h *handler, t *asynq.TaskInfo, _ map[taskKey]*asynq.WorkerInfo) any {
	return struct {
		row
		LastFailedAt string `json:"last_failed_at"`
	}{h.row(t), always(t.LastFailedAt)}
}

func completedRow(h *handler, t *asynq.TaskInfo, _ map[taskKey]*asynq.WorkerInfo) any {
	return struct {
		row
		CompletedAt string `json:"completed_at"`
		Result      string `json:"result"`
		TTLSeconds  int64  `json:"ttl_seconds"`
	}{h.row(t), always(t.CompletedAt), h.result(t), keptFor(t)}
}

func aggregatingRow(h *handler, t *asynq.TaskInfo, _ map[taskKey]*asynq.WorkerInfo) any {
	return struct {
		row
		Group string `json:"group"`
	}{h.row(t), t.Group}
}
