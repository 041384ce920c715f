package hostile_test

import (
	"context"
	"errors"
	"math"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// invalidRecords returns records that ImportTasks rejects.
func invalidRecords() []*asynq.TaskRecord {
	pending := func(change func(r *asynq.TaskRecord)) *asynq.TaskRecord {
		r := &asynq.TaskRecord{ID: "new", Type: "type", State: asynq.TaskStatePending}
		change(r)
		return r
	}
	records := []*asynq.TaskRecord{
		nil,
		{},
		pending(func(r *asynq.TaskRecord) { r.Number = -1 }),
		pending(func(r *asynq.TaskRecord) { r.Number = math.MaxInt64 }),
		pending(func(r *asynq.TaskRecord) { r.State = asynq.TaskStateActive }),
		pending(func(r *asynq.TaskRecord) { r.State = asynq.TaskStateAggregating }),
		pending(func(r *asynq.TaskRecord) { r.At = endOfTime }),
		pending(func(r *asynq.TaskRecord) { r.At = yearZero }),
		pending(func(r *asynq.TaskRecord) { r.Type = notUTF8 }),
		pending(func(r *asynq.TaskRecord) { r.Headers = map[string]string{notUTF8: ""} }),
		pending(func(r *asynq.TaskRecord) { r.MaxRetry = math.MaxInt }),
		pending(func(r *asynq.TaskRecord) { r.Retried = -1 }),
		pending(func(r *asynq.TaskRecord) { r.Timeout = -1 }),
		pending(func(r *asynq.TaskRecord) { r.Retention = mostNegative }),
	}
	for _, state := range []asynq.TaskState{0, -1, 8, math.MaxInt, math.MinInt} {
		records = append(records, pending(func(r *asynq.TaskRecord) { r.State = state }))
	}
	for _, name := range append([]string{notUTF8}, blankNames...) {
		records = append(records, pending(func(r *asynq.TaskRecord) { r.ID = name }), pending(func(r *asynq.TaskRecord) { r.Type = name }))
	}
	return records
}

var hostileRecords = map[string]func(h *hostile){
	"Inspector.ExportTasks": func(h *hostile) {
		ctx := context.Background()
		h.withMissingQueues(func(queue string) error {
			return testenv.LastError(h.inspect.ExportTasks(ctx, queue, asynq.TaskStatePending, asynq.TaskFilter{}))
		})
		for _, state := range []asynq.TaskState{0, -1, 8, math.MaxInt, math.MinInt} {
			h.wantErr(testenv.LastError(h.inspect.ExportTasks(ctx, "default", state, asynq.TaskFilter{})), nil, "is not a task state")
		}
		h.wantErr(testenv.LastError(h.inspect.ExportTasks(noContext, "default", asynq.TaskStatePending, asynq.TaskFilter{})), nil, "ctx must not be nil")
	},
	"Inspector.ImportTasks": func(h *hostile) {
		ctx, once := context.Background(), asynq.ImportOptions{IdempotencyKey: "import"}
		good := []*asynq.TaskRecord{{ID: "new", Type: "type", State: asynq.TaskStatePending}}
		h.wantErr(testenv.ErrorOf(h.inspect.ImportTasks(noContext, "default", once, good)), nil, "ctx must not be nil")
		for _, queue := range append([]string{"}", "}x"}, blankNames...) {
			h.wantErr(testenv.ErrorOf(h.inspect.ImportTasks(ctx, queue, once, good)), nil, "queue")
		}
		for _, name := range blankNames {
			h.wantErr(testenv.ErrorOf(h.inspect.ImportTasks(ctx, "default", asynq.ImportOptions{IdempotencyKey: name}, good)), nil, "an import needs a name")
		}
		for _, r := range invalidRecords() {
			errs, err := h.inspect.ImportTasks(ctx, "default", once, []*asynq.TaskRecord{r})
			h.noErr(err)
			h.wantErr(errors.Join(errs...), nil, "cannot import task")
		}
	},
}
