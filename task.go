package asynq

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// Task is a unit of work: a type, by which a handler is found, and a payload for it. It does not change once made.
type Task struct {
	typename string
	payload  []byte
	headers  map[string]string
	opts     []Option
	result   *ResultWriter
}

// NewTask makes a task. The options are defaults: those given to Enqueue override them. The payload is not copied; it may be any bytes,
// of which Redis takes up to 512 MB. Enqueue refuses a type that is blank or not UTF-8.
func NewTask(typename string, payload []byte, opts ...Option) *Task {
	return &Task{typename: typename, payload: payload, opts: slices.Clone(opts)}
}

// NewTaskWithHeaders makes a task that carries headers beside its payload: small facts for middleware, such as a trace ID. The
// headers are copied, the payload is not.
func NewTaskWithHeaders(typename string, payload []byte, headers map[string]string, opts ...Option) *Task {
	t := NewTask(typename, payload, opts...)
	t.headers = maps.Clone(headers)
	return t
}

// Type returns the type, by which a handler is found; "" for a nil Task.
func (t *Task) Type() string {
	if t == nil {
		return ""
	}
	return t.typename
}

// Payload returns the payload; nil for a nil Task. It is the task's own: a handler that changes it changes what others see of this Task.
func (t *Task) Payload() []byte {
	if t == nil {
		return nil
	}
	return t.payload
}

// Headers returns a copy of the headers; nil if there are none.
func (t *Task) Headers() map[string]string {
	if t == nil {
		return nil
	}
	return maps.Clone(t.headers)
}

// Options returns a copy of the options that the task was made with.
func (t *Task) Options() []Option {
	if t == nil {
		return nil
	}
	return slices.Clone(t.opts)
}

// ResultWriter returns a writer for the task's result. It is nil unless the task was given to a handler.
func (t *Task) ResultWriter() *ResultWriter {
	if t == nil {
		return nil
	}
	return t.result
}

// TaskState is where a task is in its life.
type TaskState int

// The states of a task.
const (
	// TaskStateActive: a handler works on it.
	TaskStateActive = TaskState(wire.StateActive)
	// TaskStatePending: it waits for a free worker.
	TaskStatePending = TaskState(wire.StatePending)
	// TaskStateScheduled: it waits for its time.
	TaskStateScheduled = TaskState(wire.StateScheduled)
	// TaskStateRetry: its last attempt failed, and it waits for the next one.
	TaskStateRetry = TaskState(wire.StateRetry)
	// TaskStateArchived: it is kept, but not processed unless somebody says so.
	TaskStateArchived = TaskState(wire.StateArchived)
	// TaskStateCompleted: it succeeded, and is kept until its retention is over.
	TaskStateCompleted = TaskState(wire.StateCompleted)
	// TaskStateAggregating: it waits in a group to be aggregated with others.
	TaskStateAggregating = TaskState(wire.StateAggregating)
)

// String returns the state's name in lower case.
func (s TaskState) String() string { return wire.State(s).String() }

// TaskInfo is what is known of a task in a queue.
type TaskInfo struct {
	// ID of the task, unique in its queue.
	ID string

	// Queue that the task is in.
	Queue string

	// Type of the task, by which a handler is found.
	Type string

	// Payload for the handler.
	Payload []byte

	// Headers that travel with the payload.
	Headers map[string]string

	// State of the task.
	State TaskState

	// MaxRetry is how many failed attempts the task may have after its first.
	MaxRetry int

	// Retried is how many attempts have failed and been followed, or will be, by another.
	Retried int

	// LastErr is the text of the error of the last failed attempt.
	LastErr string

	// LastFailedAt is when the last failed attempt ended; zero if none failed.
	LastFailedAt time.Time

	// Timeout is how long an attempt may take, in whole seconds; zero if there is no limit.
	Timeout time.Duration

	// Deadline is when an attempt must end; zero if there is none.
	Deadline time.Time

	// Group that the task waits in; empty if none.
	Group string

	// NextProcessAt is when the task is to be processed; zero if it is not to be.
	NextProcessAt time.Time

	// IsOrphaned says that the task is active, but no worker holds its lease.
	IsOrphaned bool

	// Retention is how long the task is kept after it succeeded.
	Retention time.Duration

	// CompletedAt is when the task succeeded; zero if it has not.
	CompletedAt time.Time

	// Result that the handler wrote.
	Result []byte
}

// newTaskInfo describes a task by its message.
func newTaskInfo(msg *wire.TaskMessage, state TaskState, next time.Time, result []byte) *TaskInfo {
	return &TaskInfo{
		ID:            msg.ID,
		Queue:         msg.Queue,
		Type:          msg.Type,
		Payload:       msg.Payload,
		Headers:       msg.Headers,
		State:         state,
		MaxRetry:      msg.MaxRetry,
		Retried:       msg.Retried,
		LastErr:       msg.LastErr,
		LastFailedAt:  unixTime(msg.LastFailedAt),
		Timeout:       wireSeconds(msg.Timeout),
		Deadline:      unixTime(msg.Deadline),
		Group:         msg.Group,
		NextProcessAt: next,
		Retention:     wireSeconds(msg.Retention),
		CompletedAt:   unixTime(msg.CompletedAt),
		Result:        result,
	}
}

// unixTime reads a time of the wire format, where 0 is none.
func unixTime(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0)
}

// wireSeconds reads a length of time of the wire format. What a time.Duration cannot hold counts as the longest that it can.
func wireSeconds(s int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Second)
	switch {
	case s > most:
		return math.MaxInt64
	case s < -most:
		return math.MinInt64
	default:
		return time.Duration(s) * time.Second
	}
}

// creation is a task about to be made: what the broker needs, and what Enqueue returns.
type creation struct {
	order rdb.NewTask
	msg   *wire.TaskMessage
	state TaskState
	next  time.Time
}

// newCreation turns a task and its options into a wire message and the order to make it. Options given to Enqueue come last.
func newCreation(t *Task, opts []Option, keys func(queue string) wire.Queue, now time.Time) (*creation, error) {
	if t == nil {
		return nil, errors.New("asynq: task must not be nil")
	}
	if strings.TrimSpace(t.typename) == "" {
		return nil, errors.New("asynq: task type must not be empty")
	}
	o, err := composeOptions(now, t.opts, opts)
	if err != nil {
		return nil, err
	}
	c := &creation{msg: &wire.TaskMessage{
		ID:        o.taskID,
		Type:      t.typename,
		Payload:   t.payload,
		Queue:     o.queue,
		MaxRetry:  o.maxRetry,
		Timeout:   ceilSeconds(o.timeout),
		Retention: ceilSeconds(o.retention),
		Group:     o.group,
		Headers:   mergeHeaders(t.headers, o.headers),
	}}
	if !o.deadline.IsZero() {
		c.msg.Deadline = ceilUnix(o.deadline)
	}
	if c.msg.Timeout == 0 && c.msg.Deadline == 0 {
		c.msg.Timeout = ceilSeconds(defaultTimeout)
	}
	c.order = rdb.NewTask{ID: o.taskID, Queue: o.queue, Group: o.group}
	if o.taskID == "" {
		id := uuid.NewString()
		c.msg.ID, c.order.ID = id, id
	}
	c.state, c.next = TaskStatePending, now
	switch {
	case o.processAt.After(now):
		c.state, c.next = TaskStateScheduled, o.processAt
		c.order.ProcessAt = ceilUnix(o.processAt)
	case o.group != "":
		c.state, c.next = TaskStateAggregating, time.Time{}
	}
	if o.uniqueTTL > 0 {
		c.msg.UniqueKey = keys(o.queue).Unique(t.typename, t.payload)
		c.order.Lock = c.msg.UniqueKey
		c.order.LockTTL = ceilSeconds(o.uniqueTTL) + ceilSeconds(max(o.processAt.Sub(now), 0))
	}
	if c.order.Message, err = c.msg.Encode(); err != nil {
		return nil, fmt.Errorf("asynq: task cannot be stored: %w", err)
	}
	return c, nil
}

// info is what Enqueue returns of a task that was made.
func (c *creation) info() *TaskInfo { return newTaskInfo(c.msg, c.state, c.next, nil) }

// mergeHeaders returns the headers of the task and of the options; the latter win.
func mergeHeaders(task, opts map[string]string) map[string]string {
	if len(task)+len(opts) == 0 {
		return nil
	}
	all := make(map[string]string, len(task)+len(opts))
	maps.Copy(all, task)
	maps.Copy(all, opts)
	return all
}

// ceilSeconds rounds a duration up to whole seconds, so that a short one does not become none.
func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// ceilUnix is a time in unix seconds, rounded up: what waits for it never runs early.
func ceilUnix(t time.Time) int64 {
	const last = 1<<63 - 62_135_596_801 // that a time.Time can hold
	s := t.Unix()
	if t.Nanosecond() > 0 && s != last {
		s++
	}
	return s
}
