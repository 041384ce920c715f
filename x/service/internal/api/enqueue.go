package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// newTask is a task to enqueue, as sent by a client.
type newTask struct {
	Type          string            `json:"type"`
	Queue         *string           `json:"queue"`
	ID            *string           `json:"id"`
	Payload       json.RawMessage   `json:"payload"`
	PayloadText   *string           `json:"payload_text"`
	PayloadBase64 *string           `json:"payload_base64"`
	Headers       map[string]string `json:"headers"`
	MaxRetry      *int              `json:"max_retry"`
	Timeout       *Duration         `json:"timeout"`
	Deadline      *Time             `json:"deadline"`
	UniqueFor     *Duration         `json:"unique_for"`
	ProcessAt     *Time             `json:"process_at"`
	ProcessIn     *Duration         `json:"process_in"`
	Retention     *Duration         `json:"retention"`
	Group         *string           `json:"group"`

	IdempotencyKey *string   `json:"idempotency_key"`
	IdempotencyTTL *Duration `json:"idempotency_ttl"`

	modes
}

// defaultIdempotencyTTL is how long an idempotency key is kept by default.
const defaultIdempotencyTTL = 24 * time.Hour

// order is a validated task.
type order struct {
	task  *asynq.Task
	queue string
	id    string // empty if the client gave none
}

// is reports whether a task has the type and the payload of the order.
func (o *order) is(info *asynq.TaskInfo) bool {
	return info.Type == o.task.Type() && bytes.Equal(info.Payload, o.task.Payload())
}

// check validates a task.
func (n *newTask) check(c *Call, pointer string) (*order, *Problem) {
	var wrong []FieldError
	add := func(field, detail string) { wrong = append(wrong, FieldError{pointer + "/" + field, detail}) }
	payload, p := (&Data{n.Payload, n.PayloadText, n.PayloadBase64}).Bytes(pointer, "payload")
	if p != nil {
		wrong = append(wrong, p.Errors...)
	}
	if strings.TrimSpace(n.Type) == "" {
		add("type", "must not be blank")
	}
	o := &order{queue: c.Rules.QueueOf(n.Type)}
	if n.Queue != nil {
		o.queue = *n.Queue
	}
	if n.Type != "" || n.Queue != nil {
		if err := CheckQueueName(o.queue); err != nil {
			add("queue", err.Error())
		}
	}
	rule := c.Rules.Queues[o.queue]
	opts := append(rule.options(), asynq.Queue(o.queue))
	if n.ID != nil {
		if o.id = *n.ID; strings.TrimSpace(o.id) == "" {
			add("id", "must not be blank: omit it to get a random ID")
		}
		opts = append(opts, asynq.TaskID(o.id))
	}
	if n.MaxRetry != nil {
		if *n.MaxRetry < 0 {
			add("max_retry", "must not be negative")
		}
		if *n.MaxRetry > maxMaxRetry {
			add("max_retry", "must be at most "+strconv.Itoa(maxMaxRetry))
		}
		opts = append(opts, asynq.MaxRetry(*n.MaxRetry))
	}
	if n.UniqueFor != nil {
		if *n.UniqueFor == 0 {
			add("unique_for", "must be greater than zero")
		}
		if n.UniqueKey == nil {
			opts = append(opts, asynq.Unique(time.Duration(*n.UniqueFor)))
		}
	}
	if n.IdempotencyKey != nil {
		ttl := Duration(defaultIdempotencyTTL)
		if n.IdempotencyTTL != nil {
			ttl = *n.IdempotencyTTL
		}
		if strings.TrimSpace(*n.IdempotencyKey) == "" {
			add("idempotency_key", "must not be blank")
		}
		if ttl == 0 {
			add("idempotency_ttl", "must be greater than zero")
		}
		opts = append(opts, asynq.IdempotencyKey(*n.IdempotencyKey, time.Duration(ttl)))
	} else if n.IdempotencyTTL != nil {
		add("idempotency_ttl", "requires an idempotency_key")
	}
	opts = append(opts, n.modes.options(n.UniqueFor, add)...)
	if n.Group != nil {
		if strings.TrimSpace(*n.Group) == "" {
			add("group", "must not be blank")
		}
		opts = append(opts, asynq.Group(*n.Group))
	}
	if n.Timeout != nil {
		opts = append(opts, asynq.Timeout(time.Duration(*n.Timeout)))
	}
	if n.Deadline != nil {
		opts = append(opts, asynq.Deadline(n.Deadline.Time))
	}
	retention := rule.Retention
	if n.Retention != nil {
		retention = (*time.Duration)(n.Retention)
		opts = append(opts, asynq.Retention(*retention))
	}
	if retention != nil && *retention > 0 { // clients may wait for its result
		opts = append(opts, asynq.Awaitable())
	}
	switch {
	case n.ProcessAt != nil && n.ProcessIn != nil:
		add("process_in", "set either process_at or process_in, not both")
	case n.ProcessAt != nil:
		opts = append(opts, asynq.ProcessAt(n.ProcessAt.Time))
	case n.ProcessIn != nil:
		opts = append(opts, asynq.ProcessIn(time.Duration(*n.ProcessIn)))
	}
	if len(wrong) > 0 {
		return nil, Invalid(wrong...)
	}
	if err := c.Admit(o.queue); err != nil {
		return nil, ProblemOf(err)
	}
	o.task = asynq.NewTaskWithHeaders(n.Type, payload, n.Headers, opts...)
	if n.modes != (modes{}) { // some exclude each other or other fields
		if err := o.task.Validate(); err != nil {
			return nil, Invalid(FieldError{pointer, strings.TrimPrefix(err.Error(), "asynq: ")})
		}
	}
	return o, nil
}

// enqueued is the result of an order.
type enqueued struct {
	info    *asynq.TaskInfo
	created bool
	err     error
}

// send enqueues tasks. A task that its queue already has counts as enqueued, provided that type and
// payload are the same.
func (a *API) send(ctx context.Context, orders []*order) []enqueued {
	out := make([]enqueued, len(orders))
	tasks := make([]*asynq.Task, len(orders))
	for i, o := range orders {
		tasks[i] = o.task
	}
	var results []asynq.BatchEnqueueResult
	if len(tasks) == 1 { // shares a round trip with other requests
		info, err := a.Client.EnqueueContext(ctx, tasks[0])
		results = []asynq.BatchEnqueueResult{{TaskInfo: info, Err: err}}
	} else {
		results = a.Client.BatchEnqueueContext(ctx, tasks)
	}
	for i, r := range results {
		out[i] = enqueued{info: r.TaskInfo, created: r.Err == nil && !r.TaskInfo.IsRepeated, err: r.Err}
		if r.Err == nil {
			a.Touch(orders[i].queue)
			if r.TaskInfo.State == 0 {
				r.TaskInfo.Type = orders[i].task.Type() // the first task with the key is gone
			}
		}
		if orders[i].id != "" && (errors.Is(r.Err, asynq.ErrTaskIDConflict) || errors.Is(r.Err, asynq.ErrDuplicateTask)) {
			out[i] = a.resolveConflict(ctx, orders[i], r.Err)
		}
	}
	return out
}

// resolveConflict checks whether a queue rejected a task because it already has the same one. If
// that task is gone, it enqueues again.
func (a *API) resolveConflict(ctx context.Context, o *order, refusal error) enqueued {
	for range 3 {
		info, err := a.Inspector.WithContext(ctx).GetTaskInfo(o.queue, o.id)
		switch {
		case err == nil && o.is(info):
			return enqueued{info: info}
		case err == nil:
			return enqueued{err: asynq.ErrTaskIDConflict}
		case !errors.Is(err, asynq.ErrTaskNotFound) && !errors.Is(err, asynq.ErrQueueNotFound):
			return enqueued{err: err}
		case errors.Is(refusal, asynq.ErrDuplicateTask): // the lock is another task's
			return enqueued{err: refusal}
		}
		if info, refusal = a.Client.EnqueueContext(ctx, o.task); refusal == nil {
			return enqueued{info: info, created: true}
		}
		if !errors.Is(refusal, asynq.ErrTaskIDConflict) && !errors.Is(refusal, asynq.ErrDuplicateTask) {
			break
		}
	}
	return enqueued{err: refusal}
}

// noteEnqueued logs new tasks.
func (a *API) noteEnqueued(c *Call, out []enqueued) {
	if !a.Log.Enabled(c.R.Context(), slog.LevelDebug) {
		return
	}
	for _, e := range out {
		if e.created {
			a.Log.Debug("audit", "action", "task.enqueue", "token", c.Who.Name, "queue", e.info.Queue, "task", e.info.ID, "type", e.info.Type)
		}
	}
}

func (a *API) enqueue(c *Call) error {
	var n newTask
	if err := c.Decode(&n); err != nil {
		return err
	}
	if keys := c.R.Header.Values("Idempotency-Key"); len(keys) > 0 {
		if len(keys) > 1 || n.IdempotencyKey != nil && *n.IdempotencyKey != keys[0] {
			return Invalid(FieldError{"/idempotency_key", "differs from the header Idempotency-Key: send one of them"})
		}
		n.IdempotencyKey = &keys[0]
	}
	o, p := n.check(c, "")
	if p != nil {
		return p
	}
	out := a.send(c.R.Context(), []*order{o})
	a.noteEnqueued(c, out)
	e := out[0]
	if e.err != nil {
		return e.err
	}
	j := NewJSON()
	defer j.Free()
	j.Open('{').Key("task").Task(e.info, false)
	j.Close('}')
	if !e.created {
		return c.Send(http.StatusOK, j.Bytes())
	}
	c.W.Header().Set("Location", "/v1/queues/"+url.PathEscape(e.info.Queue)+"/tasks/"+url.PathEscape(e.info.ID))
	return c.Send(http.StatusCreated, j.Bytes())
}

func (a *API) enqueueBatch(c *Call) error {
	var batch struct {
		Tasks []json.RawMessage `json:"tasks"`
	}
	if err := c.Decode(&batch); err != nil {
		return err
	}
	orders, problems, err := c.orders(batch.Tasks, (*newTask).check)
	if err != nil {
		return err
	}
	out := a.send(c.R.Context(), orders)
	a.noteEnqueued(c, out)
	return a.sendResults(c, problems, out)
}

// orders validates a list of tasks. It returns the valid ones, and a problem or nil for each task.
func (c *Call) orders(tasks []json.RawMessage, check func(n *newTask, c *Call, pointer string) (*order, *Problem)) (orders []*order, problems []*Problem, err error) {
	if err := c.Count("tasks", len(tasks)); err != nil {
		return nil, nil, err
	}
	problems = make([]*Problem, len(tasks))
	orders = make([]*order, 0, len(tasks))
	for i, text := range tasks {
		pointer := "/tasks/" + strconv.Itoa(i)
		var n newTask
		if problems[i] = Unmarshal(text, pointer, &n); problems[i] != nil {
			continue
		}
		var o *order
		if o, problems[i] = check(&n, c, pointer); problems[i] == nil {
			orders = append(orders, o)
		}
	}
	return orders, problems, nil
}

// sendResults writes one result per task of a list: its problem, or else the next of out.
func (a *API) sendResults(c *Call, problems []*Problem, out []enqueued) error {
	j := NewJSON()
	defer j.Free()
	j.Open('{').Key("results").Open('[')
	for _, p := range problems {
		j.Open('{')
		if p == nil {
			e := out[0]
			out = out[1:]
			if e.err == nil {
				j.Key("task").Task(e.info, false)
				j.Key("created").Bool(e.created)
			} else {
				p = a.PartialProblem(c, e.err)
			}
		}
		if p != nil {
			j.Key("problem").Problem(p)
		}
		j.Close('}')
	}
	j.Close(']').Close('}')
	return c.Send(http.StatusOK, j.Bytes())
}

// PartialProblem converts an error of one entry of a request, and logs it unless the client caused
// it.
func (a *API) PartialProblem(c *Call, err error) *Problem {
	p := ProblemOf(err)
	if p.Status >= http.StatusInternalServerError && c.R.Context().Err() == nil {
		a.Log.Warn("part of a request failed", "route", c.R.Pattern, "token", c.Who.Name, "error", err)
	}
	return p
}

// Count returns an error if a request has more than MaxBatch entries.
func (c *Call) Count(field string, n int) error {
	if n > c.Rules.MaxBatch {
		return Problemf(http.StatusRequestEntityTooLarge, KindTooLarge, "%s has %d entries: at most %d at a time", field, n, c.Rules.MaxBatch)
	}
	return nil
}
