package apiv2

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
)

// Task is a task.
type Task struct {
	ID                 string            `json:"id"`
	Queue              string            `json:"queue"`
	Type               string            `json:"type"`
	State              string            `json:"state" enum:"scheduled,aggregating,pending,active,retry,archived,completed"`
	Payload            *Value            `json:"payload" doc:"null if payload=none."`
	Headers            map[string]string `json:"headers"`
	Group              string            `json:"group" doc:"Empty if the task has no group."`
	PartitionKey       string            `json:"partition_key" doc:"Empty if the task has none."`
	FlowID             string            `json:"flow_id" doc:"The flow that the task is part of. Empty if none."`
	FlowNode           string            `json:"flow_node" doc:"The node of the flow."`
	Held               bool              `json:"held" doc:"The task is scheduled because its partition holds it back; next_process_at is then not when it runs."`
	MaxRetry           int               `json:"max_retry"`
	Retried            int               `json:"retried"`
	LastError          string            `json:"last_error"`
	LastErrorTruncated bool              `json:"last_error_truncated" doc:"Lists return the first 4,096 bytes."`
	LastFailedAt       *time.Time        `json:"last_failed_at"`
	TimeoutSeconds     float64           `json:"timeout_seconds" doc:"0: none."`
	Deadline           *time.Time        `json:"deadline"`
	NextProcessAt      *time.Time        `json:"next_process_at"`
	RetentionSeconds   float64           `json:"retention_seconds"`
	CompletedAt        *time.Time        `json:"completed_at"`
	ExpiresAt          *time.Time        `json:"expires_at" doc:"When a completed task is deleted, and from when no attempt of any other task starts. null: never."`
	Result             *Value            `json:"result" doc:"null if there is no result, or if payload=none."`
	Orphaned           bool              `json:"orphaned" doc:"The task is active, but its lease has expired."`
	Attempts           []Attempt         `json:"attempts" doc:"The last failed attempts, oldest first, if servers keep them (Config.AttemptLog). Empty in lists."`
	Progress           *Progress         `json:"progress" doc:"What the handler reported last. null: nothing, or in lists."`
	Worker             *Worker           `json:"worker" doc:"The worker of an active task, from the last heartbeat of its server. null: unknown."`
}

// Attempt is a failed attempt.
type Attempt struct {
	Started *time.Time `json:"started" doc:"null if the server crashed."`
	Ended   *time.Time `json:"ended"`
	Kind    string     `json:"kind" doc:"failed, panicked, timed_out, canceled, stuck, lease_expired; later versions may add others."`
	Server  string     `json:"server" doc:"host:pid of the server, or the name of the worker. Empty if the server crashed."`
	Error   string     `json:"error" doc:"At most 1 kB."`
}

// Progress is the progress of a task.
type Progress struct {
	Fraction float64   `json:"fraction" doc:"From 0 to 1."`
	Note     string    `json:"note"`
	At       time.Time `json:"at"`
}

const (
	maxListedError = 4096
	maxPayload     = 64 << 20 // of payload_limit
	listedPayload  = 1 << 10
	shownPayload   = 1 << 20
)

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// newTask converts a task. It redacts and formats the payload as configured.
func (c *call) newTask(t *asynq.TaskInfo, listed bool) *Task {
	as, limit := asFits, shownPayload
	if listed {
		limit = listedPayload
	}
	if slices.ContainsFunc(c.route.params, func(p param) bool { return p.name == "payload" }) {
		as, limit = c.str("payload"), c.num("payload_limit")
	}
	out := &Task{
		ID: t.ID, Queue: t.Queue, Type: t.Type, State: t.State.String(), Headers: t.Headers, Group: t.Group,
		MaxRetry: t.MaxRetry, Retried: t.Retried, LastError: t.LastErr, LastFailedAt: timeOf(t.LastFailedAt),
		TimeoutSeconds: t.Timeout.Seconds(), Deadline: timeOf(t.Deadline), NextProcessAt: timeOf(t.NextProcessAt),
		RetentionSeconds: t.Retention.Seconds(), CompletedAt: timeOf(t.CompletedAt), Orphaned: t.IsOrphaned,
	}
	if t.State != asynq.TaskStateCompleted {
		out.ExpiresAt = timeOf(t.ExpiresAt)
	}
	if out.Headers == nil {
		out.Headers = map[string]string{}
	}
	if t.State == asynq.TaskStateCompleted && !t.CompletedAt.IsZero() {
		out.ExpiresAt = timeOf(t.CompletedAt.Add(t.Retention))
	}
	out.PartitionKey, out.Held, out.FlowID, out.FlowNode = t.PartitionKey, t.IsHeld, t.FlowID, t.FlowNode
	out.Attempts = make([]Attempt, len(t.Attempts))
	for i, a := range t.Attempts {
		out.Attempts[i] = Attempt{timeOf(a.Started), timeOf(a.Ended), string(a.Kind), a.Server, a.Err}
	}
	if p := t.Progress; p != nil {
		out.Progress = &Progress{p.Fraction, p.Note, p.At.UTC()}
	}
	if listed {
		out.LastError, out.LastErrorTruncated = cutText(t.LastErr, maxListedError)
	}
	if as != asNone {
		out.Payload = c.api.value(c.api.FormatPayload, t.Queue, t.Type, t.Payload, as, limit)
		if t.Result != nil {
			out.Result = c.api.value(c.api.FormatResult, t.Queue, t.Type, t.Result, as, limit)
		}
	}
	if t.State == asynq.TaskStateActive {
		out.Worker = c.api.workerOf(t.Queue, t.ID)
	}
	return out
}

// value converts a payload or a result, after redaction.
func (a *api) value(format func(string, []byte) string, queue, typename string, b []byte, as string, limit int) *Value {
	shown, redacted := a.Redact.Bytes(queue, typename, b)
	v := newValue(shown, as, limit)
	v.Redacted = redacted
	if format != nil {
		text := format(typename, shown)
		v.Formatted = &text
	}
	return v
}

// whole rejects a change that requires the complete payload, if the payload is redacted: a copy in
// another queue, or of a part of the payload, could reveal it.
func (c *call) whole(t *asynq.TaskInfo) error {
	if _, redacted := c.api.Redact.Bytes(t.Queue, t.Type, t.Payload); redacted {
		return problemf(http.StatusForbidden, "", "the payload of this task is redacted, so it cannot be edited or cloned")
	}
	return nil
}

// etag returns a value that changes whenever the task does. It ignores its age, and the next
// processing time of a pending task, which is always the current time.
func (a *api) etag(t *asynq.TaskInfo) string {
	fixed := *t
	fixed.Age = 0
	if t.State == asynq.TaskStatePending {
		fixed.NextProcessAt = time.Time{}
	}
	text, _ := json.Marshal(&fixed) // the keys of a map are sorted
	h := hmac.New(sha256.New, a.secret)
	h.Write(text)
	return `"` + hex.EncodeToString(h.Sum(nil)[:12]) + `"`
}

// matches reports whether a header with entity tags contains this one.
func matches(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimSpace(part); part == "*" || strings.TrimPrefix(part, "W/") == tag {
			return true
		}
	}
	return false
}

// find returns the task in the path.
func (c *call) find() (*asynq.TaskInfo, error) { return c.inspect().GetTaskInfo(c.queue(), c.id()) }

func (c *call) showTask(t *asynq.TaskInfo) *Task {
	c.w.Header().Set("ETag", c.api.etag(t))
	return c.newTask(t, false)
}

func (c *call) getTask() (any, error) {
	if err := c.view(c.queue(), c.id()); err != nil {
		return nil, err
	}
	t, err := c.find()
	if err != nil {
		return nil, err
	}
	if tags := c.r.Header.Get("If-None-Match"); tags != "" && matches(tags, c.api.etag(t)) {
		c.w.Header().Set("ETag", c.api.etag(t))
		c.w.WriteHeader(http.StatusNotModified)
		return nil, errAnswered
	}
	return c.showTask(t), nil
}

// TaskPatch is a change of a task.
type TaskPatch struct {
	Payload       *Input     `json:"payload,omitempty" doc:"Only for a scheduled task."`
	NextProcessAt *time.Time `json:"next_process_at,omitempty" doc:"The time of the next attempt. A time in the past means now."`
}

func (c *call) patchTask() (any, error) {
	var patch TaskPatch
	if err := c.read(&patch); err != nil {
		return nil, err
	}
	payload, err := patch.Payload.bytes("/payload")
	if err != nil {
		return nil, err
	}
	edit := access.Action{Verb: access.TaskEdit, Queue: c.queue(), TaskID: c.id(), Count: 1}
	move := access.Action{Verb: access.TaskReschedule, Queue: c.queue(), TaskID: c.id(), Count: 1}
	var actions []access.Action
	if patch.Payload != nil {
		actions = append(actions, edit)
	}
	if patch.NextProcessAt != nil {
		actions = append(actions, move)
	}
	if len(actions) == 0 {
		return nil, unprocessable("", "set payload, next_process_at, or both")
	}
	if err := c.allow(actions...); err != nil {
		return nil, err
	}
	seen, err := c.expect()
	if err != nil {
		return nil, err
	}
	if patch.Payload != nil {
		t := seen
		if t == nil {
			if t, err = c.find(); err != nil {
				return nil, err
			}
		}
		if err := c.whole(t); err != nil {
			return nil, err
		}
		if seen != nil {
			err = c.api.Inspector.CompareAndSwapTaskPayload(c.r.Context(), c.queue(), c.id(), seen.Payload, payload)
		} else {
			err = c.inspect().UpdateTaskPayload(c.queue(), c.id(), payload)
		}
		c.done(edit, err)
		if err != nil {
			return nil, c.why(err)
		}
	}
	if patch.NextProcessAt != nil {
		err := c.api.Inspector.RescheduleTask(c.r.Context(), c.queue(), c.id(), *patch.NextProcessAt)
		c.done(move, err)
		if err != nil {
			return nil, c.why(err)
		}
	}
	t, err := c.find()
	if err != nil {
		return nil, err
	}
	return c.showTask(t), nil
}

// expect checks the task against the header If-Match and returns the matching task. It returns nil
// if there is no such header.
func (c *call) expect() (*asynq.TaskInfo, error) {
	tags := c.r.Header.Get("If-Match")
	if tags == "" {
		return nil, nil
	}
	t, err := c.find()
	if err != nil {
		return nil, err
	}
	if !matches(tags, c.api.etag(t)) {
		return nil, problemOf(asynq.ErrTaskChanged)
	}
	if strings.TrimSpace(tags) == "*" {
		return nil, nil
	}
	return t, nil
}

// why converts the error of a task in the wrong state to a problem. It leaves errors of Redis
// unchanged.
func (c *call) why(err error) error {
	if errors.Is(err, asynq.ErrTaskState) {
		return problemf(http.StatusConflict, kindState, "%v", err)
	}
	return err
}

// change returns a handler that makes one change of a task and returns the new state of the task.
func change(verb access.Verb, do func(i *asynq.Inspector, queue, id string) error) func(*call) (any, error) {
	return func(c *call) (any, error) {
		a := access.Action{Verb: verb, Queue: c.queue(), TaskID: c.id(), Count: 1}
		if err := c.allow(a); err != nil {
			return nil, err
		}
		if _, err := c.expect(); err != nil {
			return nil, err
		}
		err := do(c.inspect(), c.queue(), c.id())
		c.done(a, err)
		if err != nil {
			return nil, c.why(err)
		}
		if verb == access.TaskDelete {
			return nil, nil
		}
		t, err := c.find()
		if err != nil {
			return nil, err
		}
		return c.showTask(t), nil
	}
}

// archiveTask archives one task. It deletes no other task without consent.
func (c *call) archiveTask() (any, error) {
	if err := c.allow(access.Action{Verb: access.TaskArchive, Queue: c.queue(), TaskID: c.id(), Count: 1}); err != nil {
		return nil, err
	}
	if !c.flag("discard_oldest") {
		discards, err := c.api.Bulk.Discards(c.r.Context(), c.queue(), 1)
		if err != nil {
			return nil, err
		}
		if discards > 0 {
			if _, err := c.find(); err != nil {
				return nil, err
			}
			return nil, &bulk.FullError{Queue: c.queue(), Tasks: 1, Discards: discards, Limit: c.api.Bulk.Limit(c.r.Context(), c.queue())}
		}
	}
	return change(access.TaskArchive, (*asynq.Inspector).ArchiveTask)(c)
}

// CancelRequest has the outcome of a canceled task.
type CancelRequest struct {
	Then string `json:"then,omitempty" enum:"retry,archive,delete" doc:"The outcome if the handler then returns an error. The default is retry."`
}

func (c *call) cancelTask() (any, error) {
	var req CancelRequest
	if err := c.read(&req); err != nil {
		return nil, err
	}
	a := access.Action{Verb: access.TaskCancel, Queue: c.queue(), TaskID: c.id(), Count: 1}
	actions := []access.Action{a}
	cancel := func(_ context.Context, id string) error { return c.inspect().CancelProcessing(id) }
	switch req.Then {
	case "", "retry":
	case "archive":
		cancel = c.api.Inspector.CancelAndArchive
		actions = append(actions, access.Action{Verb: access.TaskArchive, Queue: c.queue(), TaskID: c.id(), Count: 1})
	case "delete":
		cancel = c.api.Inspector.CancelAndDelete
		actions = append(actions, access.Action{Verb: access.TaskDelete, Queue: c.queue(), TaskID: c.id(), Count: 1})
	default:
		return nil, unprocessable("/then", "must be retry, archive or delete")
	}
	if err := c.allow(actions...); err != nil {
		return nil, err
	}
	if _, err := c.expect(); err != nil {
		return nil, err
	}
	t, err := c.find()
	if err != nil {
		return nil, err
	}
	if t.State != asynq.TaskStateActive {
		return nil, problemf(http.StatusConflict, kindState, "the task is %v: only active tasks can be canceled", t.State)
	}
	err = cancel(c.r.Context(), c.id())
	c.done(a, err)
	if err != nil {
		return nil, err
	}
	c.status = http.StatusAccepted
	return c.showTask(t), nil
}
