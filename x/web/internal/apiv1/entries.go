package apiv1

import (
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/redact"
)

type entryState struct {
	ID      string   `json:"id"`
	Spec    string   `json:"spec"`
	Type    string   `json:"task_type"`
	Payload string   `json:"task_payload"`
	Options []string `json:"options"`
	Next    string   `json:"next_enqueue_at"`
	Prev    string   `json:"prev_enqueue_at,omitempty"`
}

type enqueueEvent struct {
	TaskID     string `json:"task_id"`
	EnqueuedAt string `json:"enqueued_at"`
}

// entries lists the periodic tasks of all schedulers.
func (h *handler) entries(x *exchange) {
	if !h.mayView(x) {
		return
	}
	found, err := x.inspector.SchedulerEntries()
	if err != nil {
		h.fail(x, err)
		return
	}
	all := make([]entryState, len(found))
	for n, e := range found {
		all[n] = h.newEntryState(e)
	}
	h.answer(x, struct {
		Entries []entryState `json:"entries"`
	}{all})
}

func (h *handler) newEntryState(e *asynq.SchedulerEntry) entryState {
	options := make([]string, len(e.Opts))
	for n, opt := range e.Opts {
		options[n] = opt.String()
	}
	return entryState{
		ID: e.ID, Spec: e.Spec, Type: e.Task.Type(), Payload: h.payload(redact.QueueOf(e), e.Task.Type(), e.Task.Payload()), Options: options,
		Next: always(e.Next), Prev: when(e.Prev),
	}
}

// events lists the runs of an entry.
func (h *handler) events(x *exchange) {
	if !h.mayView(x) {
		return
	}
	opts, err := pageOf(x.r.URL.Query())
	if err != nil {
		h.fail(x, err)
		return
	}
	found, err := x.inspector.ListSchedulerEnqueueEvents(x.args.entry, opts...)
	if err != nil {
		h.fail(x, err)
		return
	}
	all := make([]enqueueEvent, len(found))
	for n, e := range found {
		all[n] = enqueueEvent{e.TaskID, always(e.EnqueuedAt)}
	}
	h.answer(x, struct {
		Events []enqueueEvent `json:"events"`
	}{all})
}
