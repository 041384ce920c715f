package apiv1

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

const (
	// maxBatch is the maximum number of tasks in a batch.
	maxBatch = 10_000

	// maxBody bounds the body of a batch: maxBatch IDs, with room for long ones.
	maxBody = 4 << 20
)

// change is a change of the tasks of a list.
type change struct {
	name string // in paths
	verb access.Verb
	one  func(i *asynq.Inspector, queue, id string) error
	all  func(x *exchange, l list) (int, error)

	counted     string // name of the number in the response to a change of all; empty: no response body
	done, wrong string // names of the IDs in the response to a batch
}

var (
	deleteChange = change{
		name: "delete", verb: access.TaskDelete, one: (*asynq.Inspector).DeleteTask, counted: "deleted", done: "deleted_ids", wrong: "failed_ids",
		all: all((*asynq.Inspector).DeleteAllAggregatingTasks, map[asynq.TaskState]func(*asynq.Inspector, string) (int, error){
			asynq.TaskStatePending:   (*asynq.Inspector).DeleteAllPendingTasks,
			asynq.TaskStateScheduled: (*asynq.Inspector).DeleteAllScheduledTasks,
			asynq.TaskStateRetry:     (*asynq.Inspector).DeleteAllRetryTasks,
			asynq.TaskStateArchived:  (*asynq.Inspector).DeleteAllArchivedTasks,
			asynq.TaskStateCompleted: (*asynq.Inspector).DeleteAllCompletedTasks,
		}),
	}
	runChange = change{
		name: "run", verb: access.TaskRun, one: (*asynq.Inspector).RunTask, counted: "scheduled", done: "pending_ids", wrong: "error_ids",
		all: all((*asynq.Inspector).RunAllAggregatingTasks, map[asynq.TaskState]func(*asynq.Inspector, string) (int, error){
			asynq.TaskStateScheduled: (*asynq.Inspector).RunAllScheduledTasks,
			asynq.TaskStateRetry:     (*asynq.Inspector).RunAllRetryTasks,
			asynq.TaskStateArchived:  (*asynq.Inspector).RunAllArchivedTasks,
		}),
	}
	archiveChange = change{
		name: "archive", verb: access.TaskArchive, one: (*asynq.Inspector).ArchiveTask, counted: "archived", done: "archived_ids", wrong: "error_ids",
		all: all((*asynq.Inspector).ArchiveAllAggregatingTasks, map[asynq.TaskState]func(*asynq.Inspector, string) (int, error){
			asynq.TaskStatePending:   (*asynq.Inspector).ArchiveAllPendingTasks,
			asynq.TaskStateScheduled: (*asynq.Inspector).ArchiveAllScheduledTasks,
			asynq.TaskStateRetry:     (*asynq.Inspector).ArchiveAllRetryTasks,
		}),
	}
	cancelChange = change{
		name: "cancel", verb: access.TaskCancel, one: cancelOne, all: cancelAll, done: "canceled_ids", wrong: "error_ids",
	}
)

// all selects the change of all tasks by the state of the list.
func all(
	grouped func(i *asynq.Inspector, queue, group string) (int, error), byState map[asynq.TaskState]func(i *asynq.Inspector, queue string) (int, error),
) func(*exchange, list) (int, error) {
	return func(x *exchange, l list) (int, error) {
		if l.grouped {
			return grouped(x.inspector, x.args.queue, x.args.group)
		}
		return byState[l.state](x.inspector, x.args.queue)
	}
}

// cancelOne reads the task first: servers receive only the ID, which tasks of other queues may have
// as well.
func cancelOne(i *asynq.Inspector, queue, id string) error {
	t, err := i.GetTaskInfo(queue, id)
	if err != nil {
		return err
	}
	if t.State != asynq.TaskStateActive {
		return fmt.Errorf("cannot cancel task %q of queue %q: it is %v, not active", id, queue, t.State)
	}
	return i.CancelProcessing(id)
}

func cancelAll(x *exchange, l list) (n int, err error) {
	for t, err := range x.inspector.Tasks(x.r.Context(), x.args.queue, l.state, asynq.TaskFilter{}) {
		if err != nil {
			return n, err
		}
		if err := x.inspector.CancelProcessing(t.ID); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// changeOne changes the task in the path, in whatever list it is now.
func (h *handler) changeOne(x *exchange, c change) {
	a := access.Action{Verb: c.verb, Queue: x.args.queue, Group: x.args.group, TaskID: x.args.id}
	if !h.Gate.Allow(x.w, x.r, a) {
		return
	}
	err := c.one(x.inspector, a.Queue, a.TaskID)
	h.Gate.Done(x.r, a, err)
	h.Wake()
	if err != nil {
		h.fail(x, err)
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}

// changeAll changes all tasks of a list.
func (h *handler) changeAll(x *exchange, l list, c change) {
	a := access.Action{Verb: c.verb, Queue: x.args.queue, Group: x.args.group, State: l.name, Count: sizeOf(x, l)}
	if !h.Gate.Allow(x.w, x.r, a) {
		return
	}
	n, err := c.all(x, l)
	a.Count = n // the actual number
	h.Gate.Done(x.r, a, err)
	h.Wake()
	switch {
	case err != nil && n > 0:
		h.fail(x, fmt.Errorf("%d tasks were changed, then: %w", n, err))
	case err != nil:
		h.fail(x, err)
	case c.counted == "":
		x.w.WriteHeader(http.StatusNoContent)
	default:
		h.answer(x, map[string]int{c.counted: n})
	}
}

// sizeOf returns the number of tasks of a list; 0 if unknown. Errors are reported by the change
// itself, after the permission check.
func sizeOf(x *exchange, l list) int {
	if l.grouped {
		groups, err := x.inspector.Groups(x.args.queue)
		if err != nil {
			return 0
		}
		for _, g := range groups {
			if g.Group == x.args.group {
				return g.Size
			}
		}
		return 0
	}
	info, err := x.inspector.WithMemorySamples(0).GetQueueInfo(x.args.queue)
	if err != nil {
		return 0
	}
	return map[asynq.TaskState]int{
		asynq.TaskStateActive: info.Active, asynq.TaskStatePending: info.Pending, asynq.TaskStateScheduled: info.Scheduled,
		asynq.TaskStateRetry: info.Retry, asynq.TaskStateArchived: info.Archived, asynq.TaskStateCompleted: info.Completed,
	}[l.state]
}

// changeBatch changes the tasks in the body one after the other, and returns which of them were
// changed.
func (h *handler) changeBatch(x *exchange, l list, c change) {
	ids, err := taskIDs(x.w, x.r)
	if err != nil {
		h.fail(x, err)
		return
	}
	a := access.Action{Verb: c.verb, Queue: x.args.queue, Group: x.args.group, State: l.name, Count: len(ids)}
	if !h.Gate.Allow(x.w, x.r, a) {
		return
	}
	changed, wrong := []string{}, []string{}
	for n, id := range ids {
		err := c.one(x.inspector, a.Queue, id)
		h.Gate.Done(x.r, access.Action{Verb: a.Verb, Queue: a.Queue, Group: a.Group, State: a.State, TaskID: id, Count: 1}, err)
		switch {
		case err == nil:
			changed = append(changed, id)
		case !ofTask(err) && len(changed) == 0: // no queue or no Redis
			h.Wake()
			h.fail(x, err)
			return
		case ofTask(err):
			wrong = append(wrong, id)
		default: // the remaining tasks would fail as well
			h.Logger.ErrorContext(x.r.Context(), "batch ended early", "queue", a.Queue, "verb", a.Verb, "changed", len(changed), "left", len(ids)-n, "err", err)
			h.Wake()
			h.answer(x, map[string][]string{c.done: changed, c.wrong: append(wrong, ids[n:]...)})
			return
		}
	}
	h.Wake()
	h.answer(x, map[string][]string{c.done: changed, c.wrong: wrong})
}

// taskIDs parses the body of a batch.
func taskIDs(w http.ResponseWriter, r *http.Request) ([]string, error) {
	var body struct {
		TaskIDs []string `json:"task_ids"`
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&body)
	if err == nil {
		if _, err = decoder.Token(); err == nil {
			err = errors.New("unexpected data after the value")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	} else if errors.Is(err, io.EOF) {
		err = errors.New("empty body")
	}
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, fmt.Errorf("the request body exceeds the limit of %d bytes: %w", large.Limit, err)
	}
	if err != nil {
		return nil, bad(`the request body must be {"task_ids": ["…"]}: %v`, err)
	}
	if len(body.TaskIDs) > maxBatch {
		return nil, bad("the limit of a batch is %d tasks, not %d: send several batches", maxBatch, len(body.TaskIDs))
	}
	return body.TaskIDs, nil
}
