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
	"github.com/asynq-go/asynq/internal/worker"
)

// Task is a unit of work: a type, which selects the handler, and a payload for it. A Task is
// immutable.
type Task struct {
	typename string
	payload  []byte
	headers  map[string]string
	opts     []Option
	result   *ResultWriter
}

// NewTask returns a task with default options, which the options of Enqueue override. The payload
// may contain any bytes, up to the 512 MB that Redis accepts; it is not copied. Nil options are
// ignored. Enqueue returns an error if typename is blank or not valid UTF-8.
func NewTask(typename string, payload []byte, opts ...Option) *Task {
	return &Task{typename: typename, payload: payload, opts: withoutNil(opts)}
}

// NewTaskWithHeaders is like NewTask with headers: metadata for middleware, such as a trace ID. The
// headers are copied.
func NewTaskWithHeaders(typename string, payload []byte, headers map[string]string, opts ...Option) *Task {
	t := NewTask(typename, payload, opts...)
	t.headers = maps.Clone(headers)
	return t
}

// orZero returns t, or the zero value if t is nil.
func (t *Task) orZero() *Task {
	if t == nil {
		return &Task{}
	}
	return t
}

// Type returns the type of the task. It is empty for a nil Task.
func (t *Task) Type() string { return t.orZero().typename }

// Payload returns the payload without copying it; callers must not modify it. It is nil for a nil
// Task.
func (t *Task) Payload() []byte { return t.orZero().payload }

// Headers returns the headers without copying them; nil if there are none. Entries added to the map
// before the task is enqueued are enqueued with it, as tracing libraries do. If the task was
// created with an empty map, Headers returns it; the handler receives nil.
func (t *Task) Headers() map[string]string { return t.orZero().headers }

// Options returns a copy of the options of NewTask.
func (t *Task) Options() []Option { return slices.Clone(t.orZero().opts) }

// Validate returns the error that Enqueue would return for an invalid task or option, without
// contacting Redis. opts override the options of NewTask. Redis may still reject a valid task, for
// example as a duplicate.
func (t *Task) Validate(opts ...Option) error {
	_, err := newCreation(t, opts, wire.DefaultNamespace.Queue, time.Now())
	return err
}

// ResultWriter returns a writer for the result of the task. It is nil unless the task was passed to
// a Handler or returned by Lease.Task.
func (t *Task) ResultWriter() *ResultWriter { return t.orZero().result }

// TaskState is the state of a task in its queue.
type TaskState int

// The states of a task.
const (
	// TaskStateActive: a worker processes it.
	TaskStateActive TaskState = TaskState(wire.StateActive)
	// TaskStatePending: it waits for a free worker.
	TaskStatePending TaskState = TaskState(wire.StatePending)
	// TaskStateScheduled: it waits until the time set with ProcessAt or ProcessIn.
	TaskStateScheduled TaskState = TaskState(wire.StateScheduled)
	// TaskStateRetry: its last attempt failed, and it waits until the next one.
	TaskStateRetry TaskState = TaskState(wire.StateRetry)
	// TaskStateArchived: its retries are exhausted, or it was archived. It is not processed unless
	// Inspector.RunTask is called.
	TaskStateArchived TaskState = TaskState(wire.StateArchived)
	// TaskStateCompleted: it succeeded, and is kept until its retention has passed.
	TaskStateCompleted TaskState = TaskState(wire.StateCompleted)
	// TaskStateAggregating: it waits in a group for its aggregation.
	TaskStateAggregating TaskState = TaskState(wire.StateAggregating)
)

// String returns the name of the state in lower case.
func (s TaskState) String() string { return wire.State(s).String() }

// TaskInfo describes a task in a queue.
type TaskInfo struct {
	ID      string            // unique within the queue
	Queue   string            // name of the queue
	Type    string            // type of the task, which selects the handler
	Payload []byte            // payload of the task
	Headers map[string]string // metadata of the task; nil if it has none
	State   TaskState         // state of the task

	MaxRetry     int       // maximum number of retries
	Retried      int       // number of retries so far, including one that is pending
	LastErr      string    // error text of the last failed attempt; empty if none failed
	LastFailedAt time.Time // when the last failed attempt ended; zero if none failed

	Timeout       time.Duration // time limit of an attempt, in whole seconds; zero means no limit
	Deadline      time.Time     // when an attempt must end; zero means never
	Group         string        // group of the task; empty if it has none
	NextProcessAt time.Time     // when the task is due; zero if it is not going to be processed
	PartitionKey  string        // see the option PartitionKey; empty if it has none
	FlowID        string        // flow that the task is part of, see package flow; empty if none
	FlowNode      string        // node of the flow
	IsHeld        bool          // whether the task is scheduled because its partition holds it back
	IsOrphaned    bool          // whether the task is active without a valid lease
	IsRepeated    bool          // returned by Enqueue: an earlier call created it, see IdempotencyKey and OnDuplicate
	ExpiresAt     time.Time     // when no attempt starts any more, see ExpiresIn; zero means never
	Retention     time.Duration // how long the task is kept after it succeeds
	CompletedAt   time.Time     // when the task succeeded; zero if it has not yet
	Result        []byte        // what the handler wrote to the ResultWriter; nil if nothing

	// Age is the time that the task has been in its state, by the clock of Redis, as
	// TaskFilter.MinAge defines it; negative for a scheduled task that is not due. It is zero if
	// unknown, for an active task, and in the result of Enqueue.
	Age time.Duration

	// Attempts are the last failed attempts, oldest first, of servers with Config.AttemptLog. Only
	// GetTaskInfo sets it.
	Attempts []AttemptInfo

	// Progress is what the handler reported last with SetProgress; nil if nothing. Only GetTaskInfo
	// sets it.
	Progress *TaskProgress
}

// newTaskInfo returns the TaskInfo of a message.
func newTaskInfo(msg *wire.TaskMessage, state TaskState, next time.Time, result []byte) *TaskInfo {
	part, _ := msg.FlowPart()
	return &TaskInfo{
		ID:            msg.ID,
		Queue:         msg.Queue,
		Type:          msg.Type,
		Payload:       msg.Payload,
		Headers:       wire.UserHeaders(msg.Headers),
		State:         state,
		MaxRetry:      msg.MaxRetry,
		Retried:       msg.Retried,
		LastErr:       msg.LastErr,
		LastFailedAt:  unixTime(msg.LastFailedAt),
		Timeout:       wireSeconds(msg.Timeout),
		Deadline:      unixTime(msg.Deadline),
		Group:         msg.Group,
		PartitionKey:  msg.PartitionKey(),
		FlowID:        part.Flow,
		FlowNode:      part.Node,
		NextProcessAt: next,
		Retention:     wireSeconds(msg.Retention),
		CompletedAt:   unixTime(msg.CompletedAt),
		ExpiresAt:     unixTime(msg.Expires()),
		Result:        result,
	}
}

// unixTime converts a time of the wire format, where 0 means none.
func unixTime(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0)
}

// wireSeconds converts a duration of the wire format. It clamps values that a time.Duration cannot
// hold.
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

// creation is a task to enqueue: the broker's input, and the TaskInfo that Enqueue returns.
type creation struct {
	order rdb.NewTask
	msg   wire.TaskMessage
	next  time.Time // when it is due, to the nanosecond
}

// newCreation validates a task and encodes it. opts override the options of the task.
func newCreation(t *Task, opts []Option, keys func(queue string) wire.Queue, now time.Time) (*creation, error) {
	c, err := prepareCreation(t, opts, keys, now, false)
	if err != nil {
		return nil, err
	}
	if err := c.encode(); err != nil {
		return nil, err
	}
	return c, nil
}

// prepareCreation validates a task. awaited allows CancelOnReturn.
func prepareCreation(t *Task, opts []Option, keys func(queue string) wire.Queue, now time.Time, awaited bool) (*creation, error) {
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
	c := &creation{msg: wire.TaskMessage{
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
	if _, reserved := c.msg.Headers[wire.ExtHeader]; reserved {
		return nil, fmt.Errorf("asynq: the header %q is reserved: use another name", wire.ExtHeader)
	}
	if !o.deadline.IsZero() {
		c.msg.Deadline = ceilUnix(o.deadline)
	}
	if c.msg.Timeout == 0 && c.msg.Deadline == 0 {
		c.msg.Timeout = ceilSeconds(defaultTimeout)
	}
	c.order = rdb.NewTask{ID: o.taskID, Queue: o.queue, Group: o.group}
	if o.taskID == "" {
		id := uuid.NewString()
		c.msg.ID, c.order.ID, c.order.RandomID = id, id, true
	}
	c.next = now
	if o.processAt.After(now) {
		c.next, c.order.ProcessAt, c.order.Early = o.processAt, ceilUnix(o.processAt), earlyMillis(o.processAt)
	}
	if o.uniqueTTL > 0 {
		c.order.Lock = keys(o.queue).Unique(t.typename, t.payload)
		c.order.LockTTL = ceilSeconds(o.uniqueTTL) + ceilSeconds(max(o.processAt.Sub(now), 0))
	}
	if o.rare != nil {
		if err := c.addRare(o, keys(o.queue), now); err != nil {
			return nil, err
		}
		if o.rare.cancelOnReturn && !awaited {
			return nil, errors.New("asynq: CancelOnReturn is for EnqueueAndWait: omit it")
		}
	}
	c.msg.UniqueKey = c.order.Lock
	return c, nil
}

// encode encodes the message of the task.
func (c *creation) encode() (err error) {
	if c.order.Message, err = c.msg.Encode(); err != nil {
		return fmt.Errorf("asynq: task cannot be stored: %w", err)
	}
	return nil
}

// info returns the initial state of the task.
func (c *creation) info() *TaskInfo {
	switch {
	case c.order.Mode != nil && c.order.Mode.State != 0:
		return c.modeInfo()
	case c.order.ProcessAt > 0:
		return newTaskInfo(&c.msg, TaskStateScheduled, c.next, nil)
	case c.order.Group != "":
		return newTaskInfo(&c.msg, TaskStateAggregating, time.Time{}, nil)
	default:
		return newTaskInfo(&c.msg, TaskStatePending, c.next, nil)
	}
}

// mergeHeaders returns the headers of the task and of the options, which take precedence. It
// returns nil if both are nil.
func mergeHeaders(task, opts map[string]string) map[string]string {
	if task == nil && opts == nil {
		return nil
	}
	all := make(map[string]string, len(task)+len(opts))
	maps.Copy(all, task)
	maps.Copy(all, opts)
	return all
}

// ceilSeconds rounds a duration up to whole seconds, so that it does not become zero. The result
// fits a time.Duration.
func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 && s < math.MaxInt64/int64(time.Second) {
		s++
	}
	return s
}

// ceilUnix returns a time in Unix seconds, rounded up, so that no task runs early.
func ceilUnix(t time.Time) int64 {
	const last = 1<<63 - 62_135_596_801 // of time.Time
	s := t.Unix()
	if t.Nanosecond() > 0 && s != last {
		s++
	}
	return s
}

// earlyMillis returns how much earlier than ceilUnix a time is, in milliseconds, rounded so that no
// task runs early.
func earlyMillis(t time.Time) uint16 {
	if t.Nanosecond() == 0 {
		return 0
	}
	return uint16(int(time.Second-time.Duration(t.Nanosecond())) / int(time.Millisecond)) //nolint:gosec // Less than 1,000.
}

// ResultWriter writes the result of a task to Redis. The result is kept as long as the task, see
// Retention.
type ResultWriter struct {
	attempt *worker.Attempt
}

var errNoResult = errors.New("asynq: only a task that was given to a handler by a server can have a result")

// TaskID returns the ID of the task. It is empty for a nil ResultWriter.
func (w *ResultWriter) TaskID() string {
	if w == nil || w.attempt == nil {
		return ""
	}
	return w.attempt.Message.ID
}

// Write replaces the result with data. Results may have up to 512 MB.
//
// In a Handler, a result of up to 64 kB is stored within about a millisecond after Write has
// returned, together with those of other tasks, or with the outcome of the task if the handler
// returns earlier; if Redis is unreachable, it is stored when Redis is back. Flush waits for it.
// Write returns when a larger result, or that of a Lease, is stored.
//
// Write returns ErrLeaseExpired if the server no longer holds the task, as far as it knows: a
// result that Redis rejected for this reason cancels the context of the handler. It returns an
// error if w is nil, as it is for tasks that were not received from a queue.
func (w *ResultWriter) Write(data []byte) (n int, err error) {
	if w == nil || w.attempt == nil {
		return 0, errNoResult
	}
	if err := w.attempt.WriteResult(data); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Flush waits until the last result is stored, so that others can read it while the handler still
// runs. It returns the error of storing it, as Write does for large results.
func (w *ResultWriter) Flush() error {
	if w == nil || w.attempt == nil {
		return errNoResult
	}
	return w.attempt.FlushResult()
}
