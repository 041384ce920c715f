package apiv1

import "github.com/asynq-go/asynq"

type serverState struct {
	ID             string         `json:"id"`
	Host           string         `json:"host"`
	PID            int            `json:"pid"`
	Concurrency    int            `json:"concurrency"`
	Queues         map[string]int `json:"queue_priorities"`
	StrictPriority bool           `json:"strict_priority_enabled"`
	Started        string         `json:"start_time"`
	Status         string         `json:"status"`
	ActiveWorkers  []workerState  `json:"active_workers"`
}

type workerState struct {
	TaskID    string `json:"task_id"`
	Queue     string `json:"queue"`
	Type      string `json:"task_type"`
	Payload   string `json:"task_payload"`
	StartTime string `json:"start_time"`
}

// servers lists the running servers and their active tasks.
func (h *handler) servers(x *exchange) {
	if !h.mayView(x) {
		return
	}
	found, err := x.inspector.Servers()
	if err != nil {
		h.fail(x, err)
		return
	}
	all := make([]serverState, len(found))
	for n, s := range found {
		all[n] = serverState{
			ID: s.ID, Host: s.Host, PID: s.PID, Concurrency: s.Concurrency, Queues: s.Queues, StrictPriority: s.StrictPriority,
			Started: always(s.Started), Status: s.Status, ActiveWorkers: h.workers(s),
		}
	}
	h.answer(x, struct {
		Servers []serverState `json:"servers"`
	}{all})
}

func (h *handler) workers(s *asynq.ServerInfo) []workerState {
	all := make([]workerState, len(s.ActiveWorkers))
	for n, w := range s.ActiveWorkers {
		all[n] = workerState{
			TaskID: w.TaskID, Queue: w.Queue, Type: w.TaskType, Payload: h.payload(w.Queue, w.TaskType, w.TaskPayload), StartTime: always(w.Started),
		}
	}
	return all
}
