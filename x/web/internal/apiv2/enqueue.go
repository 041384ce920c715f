package apiv2

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

// Options are the options of a task to enqueue. Omitted options have the defaults of the client
// library.
type Options struct {
	Queue            string            `json:"queue,omitempty" doc:"The default is the queue named default."`
	ID               string            `json:"id,omitempty" doc:"The default is a random ID. Set an ID to make the request safe to repeat: a repeated request fails with 409, task-id-conflict."`
	Headers          map[string]string `json:"headers,omitempty"`
	MaxRetry         *int              `json:"max_retry,omitempty" doc:"The maximum number of retries. The default is 25."`
	TimeoutSeconds   *float64          `json:"timeout_seconds,omitempty" doc:"The timeout of an attempt. 0: none."`
	Deadline         *time.Time        `json:"deadline,omitempty" doc:"The time at which attempts end."`
	UniqueSeconds    *float64          `json:"unique_seconds,omitempty" doc:"How long other tasks with the same queue, type and payload are rejected."`
	ProcessAt        *time.Time        `json:"process_at,omitempty"`
	ProcessInSeconds *float64          `json:"process_in_seconds,omitempty" doc:"The delay. An alternative to process_at."`
	RetentionSeconds *float64          `json:"retention_seconds,omitempty" doc:"How long the task is kept after it completes."`
	Group            string            `json:"group,omitempty"`
}

// NewTask is a task to enqueue.
type NewTask struct {
	Type    string `json:"type"`
	Payload *Input `json:"payload,omitempty"`
	Options
}

// longest is the maximum of a time.Duration in seconds.
const longest = float64(math.MaxInt64/int64(time.Second) - 1)

// options returns the options of the request. pointer is their location in the body.
func (o *Options) options(pointer string) ([]asynq.Option, error) {
	var opts []asynq.Option
	var wrong []Wrong
	refuse := func(field, why string) { wrong = append(wrong, Wrong{Pointer: pointer + "/" + field, Detail: why}) }
	name := func(field, value string, option func(string) asynq.Option) {
		switch {
		case value == "":
		case strings.TrimSpace(value) == "":
			refuse(field, "must not be blank")
		case !utf8.ValidString(value):
			refuse(field, "must be UTF-8")
		case field == "queue" && strings.HasPrefix(value, "}"):
			refuse(field, "must not begin with }")
		default:
			opts = append(opts, option(value))
		}
	}
	name("queue", o.Queue, asynq.Queue)
	name("id", o.ID, asynq.TaskID)
	name("group", o.Group, asynq.Group)
	seconds := func(field string, value *float64, least float64, option func(time.Duration) asynq.Option) {
		switch {
		case value == nil:
		case *value < least || *value > longest || math.IsNaN(*value):
			refuse(field, fmt.Sprintf("must be from %v to %.0f seconds", least, longest))
		default:
			opts = append(opts, option(time.Duration(*value*float64(time.Second))))
		}
	}
	seconds("timeout_seconds", o.TimeoutSeconds, 0, asynq.Timeout)
	seconds("unique_seconds", o.UniqueSeconds, 1e-9, asynq.Unique)
	seconds("retention_seconds", o.RetentionSeconds, 0, asynq.Retention)
	seconds("process_in_seconds", o.ProcessInSeconds, 0, asynq.ProcessIn)
	if o.ProcessAt != nil {
		if o.ProcessInSeconds != nil {
			refuse("process_in_seconds", "cannot be combined with process_at")
		}
		opts = append(opts, asynq.ProcessAt(*o.ProcessAt))
	}
	if o.Deadline != nil {
		opts = append(opts, asynq.Deadline(*o.Deadline))
	}
	if o.MaxRetry != nil {
		if *o.MaxRetry < 0 || *o.MaxRetry > math.MaxInt32 {
			refuse("max_retry", "must be from 0 to 2147483647")
		} else {
			opts = append(opts, asynq.MaxRetry(*o.MaxRetry))
		}
	}
	for key, value := range o.Headers {
		opts = append(opts, asynq.Header(key, value))
	}
	if len(wrong) > 0 {
		return nil, invalid(http.StatusUnprocessableEntity, wrong...)
	}
	return opts, nil
}

func (n *NewTask) task(pointer string) (*asynq.Task, error) {
	if strings.TrimSpace(n.Type) == "" {
		return nil, unprocessable(pointer+"/type", "the type is required")
	}
	payload, err := n.Payload.bytes(pointer + "/payload")
	if err != nil {
		return nil, err
	}
	opts, err := n.options(pointer)
	if err != nil {
		return nil, err
	}
	return asynq.NewTask(n.Type, payload, opts...), nil
}

// queueOf returns the queue of a task, which may be the default queue.
func queueOf(name string) string {
	if name == "" {
		return "default"
	}
	return name
}

func (c *call) enqueue() (any, error) {
	var n NewTask
	if err := c.read(&n); err != nil {
		return nil, err
	}
	task, err := n.task("")
	if err != nil {
		return nil, err
	}
	return c.send(access.Action{Verb: access.TaskEnqueue, Queue: queueOf(n.Queue), TaskID: n.ID, Group: n.Group, Count: 1}, task)
}

// send enqueues one task.
func (c *call) send(a access.Action, task *asynq.Task) (any, error) {
	if err := c.allow(a); err != nil {
		return nil, err
	}
	info, err := c.api.Client.EnqueueContext(c.r.Context(), task)
	if info != nil {
		a.TaskID = info.ID
	}
	c.done(a, err)
	if err != nil {
		return nil, c.api.whyNot(err)
	}
	c.status = http.StatusCreated
	c.w.Header().Set("Location", c.api.link("queues", info.Queue, "tasks", info.ID))
	return c.showTask(info), nil
}

// whyNot converts errors about the task, which have no type of their own, to problems. It leaves
// errors of Redis unchanged.
func (a *api) whyNot(err error) error {
	if p := problemOf(err); p.Type != "urn:asynq:problem:"+kindRedis || a.Client.Ping() != nil {
		return p
	}
	return unprocessable("", "%v", err)
}

// Batch is a batch of tasks to enqueue.
type Batch struct {
	Tasks []NewTask `json:"tasks" doc:"1 to 1,000 tasks."`
}

// BatchResult is the result of a batch.
type BatchResult struct {
	Enqueued int         `json:"enqueued"`
	Failed   int         `json:"failed"`
	Results  []BatchItem `json:"results" doc:"One result per task, in order."`
}

// BatchItem is the result of one task of a batch.
type BatchItem struct {
	Queue string   `json:"queue"`
	ID    string   `json:"id" doc:"Empty if the task was not enqueued and had no ID."`
	State string   `json:"state,omitempty"`
	Error *Problem `json:"error,omitempty" doc:"The reason why the task was not enqueued."`
}

const maxBatch = 1000

func (c *call) enqueueBatch() (any, error) {
	var b Batch
	if err := c.read(&b); err != nil {
		return nil, err
	}
	if len(b.Tasks) == 0 || len(b.Tasks) > maxBatch {
		return nil, unprocessable("/tasks", "must have 1 to %d tasks", maxBatch)
	}
	var actions []access.Action // one per queue
	at := make(map[string]int)
	tasks := make([]*asynq.Task, len(b.Tasks))
	for i := range b.Tasks {
		var err error
		if tasks[i], err = b.Tasks[i].task(fmt.Sprintf("/tasks/%d", i)); err != nil {
			return nil, err
		}
		queue := queueOf(b.Tasks[i].Queue)
		if _, ok := at[queue]; !ok {
			at[queue] = len(actions)
			actions = append(actions, access.Action{Verb: access.TaskEnqueue, Queue: queue})
		}
		actions[at[queue]].Count++
	}
	if err := c.allow(actions...); err != nil {
		return nil, err
	}
	out := BatchResult{Results: make([]BatchItem, len(tasks))}
	failed := make([]error, len(actions))
	for i := range actions {
		actions[i].Count = 0 // counts the enqueued tasks
	}
	for i, r := range c.api.Client.BatchEnqueueContext(c.r.Context(), tasks) {
		item := &out.Results[i]
		item.Queue, item.ID = queueOf(b.Tasks[i].Queue), b.Tasks[i].ID
		n := at[item.Queue]
		if r.Err != nil {
			failed[n] = r.Err
			item.Error = problemOf(c.api.whyNot(r.Err))
			out.Failed++
			continue
		}
		item.ID, item.State = r.TaskInfo.ID, r.TaskInfo.State.String()
		out.Enqueued++
		actions[n].Count++
	}
	for n, a := range actions {
		if a.Count > 0 {
			failed[n] = nil // the audit log has the enqueued tasks; the response has the errors
		}
		c.done(a, failed[n])
	}
	return out, nil
}

func (c *call) cloneTask() (any, error) {
	var o Options
	if err := c.read(&o); err != nil {
		return nil, err
	}
	over, err := o.options("")
	if err != nil {
		return nil, err
	}
	if err := c.view(c.queue(), c.id()); err != nil {
		return nil, err
	}
	t, err := c.find()
	if err != nil {
		return nil, err
	}
	if err := c.whole(t); err != nil {
		return nil, err
	}
	opts := []asynq.Option{
		asynq.Queue(t.Queue), asynq.MaxRetry(t.MaxRetry), asynq.Timeout(t.Timeout), asynq.Retention(t.Retention),
	}
	if t.Deadline.After(time.Now()) {
		opts = append(opts, asynq.Deadline(t.Deadline))
	}
	if t.Group != "" {
		opts = append(opts, asynq.Group(t.Group))
	}
	queue := t.Queue
	if o.Queue != "" {
		queue = o.Queue
	}
	task := asynq.NewTaskWithHeaders(t.Type, t.Payload, maps.Clone(t.Headers), append(opts, over...)...)
	return c.send(access.Action{Verb: access.TaskEnqueue, Queue: queue, TaskID: o.ID, Group: o.Group, Count: 1}, task)
}
