package apiv1

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

const (
	// readTimeout bounds the time for reading all queues. Queues without a result by then are zero,
	// with an error.
	readTimeout = 10 * time.Second

	shortHistory = 10 // days, of one queue
	longHistory  = 90 // days, of all queues: all that are kept

	// concurrentReads is the number of queues whose history is read concurrently.
	concurrentReads = 8
)

// queueState is a queue in lists and details.
type queueState struct {
	Queue          string    `json:"queue"`
	MemoryUsage    int64     `json:"memory_usage_bytes"`
	Size           int       `json:"size"`
	Groups         int       `json:"groups"`
	LatencyMillis  int64     `json:"latency_msec"`
	DisplayLatency string    `json:"display_latency"`
	Active         int       `json:"active"`
	Pending        int       `json:"pending"`
	Aggregating    int       `json:"aggregating"`
	Scheduled      int       `json:"scheduled"`
	Retry          int       `json:"retry"`
	Archived       int       `json:"archived"`
	Completed      int       `json:"completed"`
	Processed      int       `json:"processed"`
	Succeeded      int       `json:"succeeded"`
	Failed         int       `json:"failed"`
	Paused         bool      `json:"paused"`
	Timestamp      time.Time `json:"timestamp"`
	Error          string    `json:"error,omitempty"` // the reason why the other fields are zero
}

func newQueueState(q *asynq.QueueInfo) queueState {
	return queueState{
		Queue:          q.Queue,
		MemoryUsage:    q.MemoryUsage,
		Size:           q.Size,
		Groups:         q.Groups,
		LatencyMillis:  q.Latency.Milliseconds(),
		DisplayLatency: q.Latency.Round(10 * time.Millisecond).String(),
		Active:         q.Active,
		Pending:        q.Pending,
		Aggregating:    q.Aggregating,
		Scheduled:      q.Scheduled,
		Retry:          q.Retry,
		Archived:       q.Archived,
		Completed:      q.Completed,
		Processed:      q.Processed,
		Succeeded:      q.Processed - q.Failed,
		Failed:         q.Failed,
		Paused:         q.Paused,
		Timestamp:      q.Timestamp.UTC(),
	}
}

// dayStats are the counters of a queue for one day.
type dayStats struct {
	Queue     string `json:"queue"`
	Processed int    `json:"processed"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
	Date      string `json:"date"`
}

func newDays(history []*asynq.DailyStats) []dayStats {
	days := make([]dayStats, len(history))
	for n, d := range history {
		days[n] = dayStats{
			Queue: d.Queue, Processed: d.Processed, Succeeded: d.Processed - d.Failed, Failed: d.Failed, Date: d.Date.UTC().Format(time.DateOnly),
		}
	}
	return days
}

// queues lists all queues. Queues that could not be read have zeros and an error, so that the
// others are still returned.
func (h *handler) queues(x *exchange) {
	if !h.mayView(x) {
		return
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), readTimeout)
	defer cancel()
	found, err := x.inspector.QueueInfos(ctx)
	if err != nil {
		h.fail(x, err)
		return
	}
	all := make([]queueState, 0, len(found))
	for _, q := range found {
		switch {
		case errors.Is(q.Err, asynq.ErrQueueNotFound): // deleted in the meantime
		case q.Err != nil:
			all = append(all, queueState{Queue: q.Queue, DisplayLatency: "0s", Timestamp: time.Now().UTC(), Error: show.RedisError(q.Err)})
		default:
			all = append(all, newQueueState(q.Info))
		}
	}
	h.answer(x, struct {
		Queues []queueState `json:"queues"`
	}{all})
}

func (h *handler) queue(x *exchange) {
	if !h.mayView(x) {
		return
	}
	info, err := x.inspector.GetQueueInfo(x.args.queue)
	if err != nil {
		h.fail(x, err)
		return
	}
	history, err := x.inspector.History(x.args.queue, shortHistory)
	if err != nil {
		h.fail(x, err)
		return
	}
	h.answer(x, struct {
		Current queueState `json:"current"`
		History []dayStats `json:"history"`
	}{newQueueState(info), newDays(history)})
}

// queueStats returns the history of all queues. The history of a queue that could not be read is
// empty, and errors has the reason.
func (h *handler) queueStats(x *exchange) {
	if !h.mayView(x) {
		return
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), readTimeout)
	defer cancel()
	inspector := x.inspector.WithContext(ctx)
	names, err := inspector.Queues()
	if err != nil {
		h.fail(x, err)
		return
	}
	stats, failed := make(map[string][]dayStats, len(names)), make(map[string]string)
	var mu sync.Mutex
	var asked sync.WaitGroup
	free := make(chan struct{}, concurrentReads)
	for _, name := range names {
		free <- struct{}{}
		asked.Go(func() {
			defer func() { <-free }()
			history, err := inspector.History(name, longHistory)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, asynq.ErrQueueNotFound): // deleted in the meantime
			case err != nil:
				stats[name], failed[name] = []dayStats{}, show.RedisError(err)
			default:
				stats[name] = newDays(history)
			}
		})
	}
	asked.Wait()
	h.answer(x, struct {
		Stats  map[string][]dayStats `json:"stats"`
		Errors map[string]string     `json:"errors,omitempty"`
	}{stats, failed})
}

func (h *handler) deleteQueue(x *exchange) {
	h.changeQueue(x, access.QueueDelete, func(queue string) error { return x.inspector.DeleteQueue(queue, false) })
}

func (h *handler) pauseQueue(x *exchange) {
	h.changeQueue(x, access.QueuePause, x.inspector.PauseQueue)
}

func (h *handler) resumeQueue(x *exchange) {
	h.changeQueue(x, access.QueueResume, x.inspector.UnpauseQueue)
}

func (h *handler) changeQueue(x *exchange, verb access.Verb, change func(queue string) error) {
	a := access.Action{Verb: verb, Queue: x.args.queue}
	if !h.Gate.Allow(x.w, x.r, a) {
		return
	}
	err := change(a.Queue)
	h.Gate.Done(x.r, a, err)
	h.Wake()
	if err != nil {
		h.fail(x, err)
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}
