package asynq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// TaskRecord contains everything that Redis stores about a task, which is enough to recreate it in
// the same state.
type TaskRecord struct {
	// Number of the record within an import; see ImportTasks. ExportTasks leaves it 0.
	Number int64

	// These fields have the same meaning as in TaskInfo.
	ID, Queue, Type   string
	Payload           []byte
	Headers           map[string]string
	State             TaskState // 0 if the state in Redis is invalid
	MaxRetry, Retried int
	LastErr           string
	LastFailedAt      time.Time
	Timeout           time.Duration
	Deadline          time.Time
	Group             string
	Retention         time.Duration
	CompletedAt       time.Time
	Result            []byte
	Attempts          []AttemptInfo // an import keeps at most 100; Progress is not exported

	// At is when a scheduled task or a task in retry runs, when a pending, archived or aggregating
	// task entered its state, and when a completed task expires. It is zero for an active task, and
	// if unknown.
	At time.Time

	// UniqueKey is the name of the task's uniqueness lock within its queue, empty if the task has
	// none.
	UniqueKey string

	// LockedUntil is when the lock that the task holds expires, zero if it holds none.
	LockedUntil time.Time

	// Unreadable is the raw message of the task if it cannot be decoded. The fields of the message
	// are then empty.
	Unreadable []byte
}

// exportPage is the number of tasks exported per call.
const exportPage = 200

// ExportTasks yields the records of the tasks that Tasks would yield. Each record is read at one
// moment. A task that has changed its state since it was found is exported in its new state.
func (i *Inspector) ExportTasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) iter.Seq2[*TaskRecord, error] {
	return func(yield func(*TaskRecord, error) bool) {
		stopped := false
		page := func(found []*inspect.TaskInfo) error {
			records, err := i.exportPage(ctx, queue, found)
			for _, r := range records {
				if stopped = !yield(r, nil); stopped {
					return errors.New("stopped by the caller")
				}
			}
			return err
		}
		err := inPages(exportPage, page, func(add func(found *inspect.TaskInfo) bool) error {
			return i.eachTask(ctx, queue, state, filter, func(found *inspect.TaskInfo, _ *TaskInfo) bool { return add(found) })
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// exportPage exports the tasks that still exist.
func (i *Inspector) exportPage(ctx context.Context, queue string, found []*inspect.TaskInfo) ([]*TaskRecord, error) {
	ids := make([]string, len(found))
	for n, t := range found {
		ids[n] = t.ID
	}
	tasks, err := i.inspector.ExportTasks(ctx, queue, ids)
	if err != nil {
		return nil, brokerError(err)
	}
	records := make([]*TaskRecord, 0, len(tasks))
	for n, t := range tasks {
		if t == nil {
			continue
		}
		r := newTaskRecord(t, i.broker.Keys(queue))
		if r.At.IsZero() && r.State == TaskState(found[n].State) {
			r.At = found[n].Since // a task that is being aggregated stores its time elsewhere
		}
		records = append(records, r)
	}
	return records, nil
}

// newTaskRecord converts a stored task.
func newTaskRecord(t *inspect.StoredTask, keys wire.Queue) *TaskRecord {
	r := &TaskRecord{
		ID: t.ID, Queue: keys.Name, State: TaskState(t.State), Group: t.Group, Result: t.Result, LockedUntil: t.LockedUntil,
	}
	if ns, err := strconv.ParseInt(t.PendingSince, 10, 64); err == nil {
		r.At = time.Unix(0, ns)
		if r.State == TaskStateScheduled { // its partition holds it
			r.State = TaskStatePending
		}
	} else if s, err := strconv.ParseFloat(t.Score, 64); err == nil && s > -1e11 && s < 1e11 {
		whole := int64(s)
		r.At = time.Unix(whole, int64(math.Round((s-float64(whole))*1e6))*1e3)
	}
	for _, a := range wire.DecodeAttempts(t.Log) {
		r.Attempts = append(r.Attempts, newAttemptInfo(a))
	}
	msg, err := wire.DecodeTaskMessage(t.Message)
	if err != nil {
		r.Unreadable = t.Message
		msg = &wire.TaskMessage{}
	}
	r.Type, r.Payload, r.Headers, r.MaxRetry, r.Retried = msg.Type, msg.Payload, msg.Headers, msg.MaxRetry, msg.Retried
	r.LastErr, r.LastFailedAt, r.CompletedAt = msg.LastErr, unixTime(msg.LastFailedAt), unixTime(msg.CompletedAt)
	r.Timeout, r.Deadline, r.Retention = wireSeconds(msg.Timeout), unixTime(msg.Deadline), wireSeconds(msg.Retention)
	if r.Group == "" {
		r.Group = msg.Group
	}
	lock := t.UniqueKey
	if lock == "" {
		lock = msg.UniqueKey
	}
	if name, ok := strings.CutPrefix(lock, keys.UniquePrefix()); ok {
		r.UniqueKey = name
	}
	return r
}

// ImportOptions configure ImportTasks.
type ImportOptions struct {
	// IdempotencyKey of the import. For 30 days, imports with the same key into the same queue
	// create the task of a Number only once, even if the first one has run and been deleted. An
	// interrupted import can therefore be repeated from the beginning.
	IdempotencyKey string

	// Replace replaces an existing task with the same ID, unless it is active or being aggregated.
	Replace bool
}

// ImportTasks creates tasks from records, with the state, times, counters, result and uniqueness
// lock of each record. Pending tasks are added behind those in the queue, in the order of the
// records. The queue may differ from that of the records. Active tasks cannot be imported: set
// State to pending to run them (again), or to archived.
//
// The result has one error per record, in order; nil means that the task was created. Compare with
// errors.Is: ErrTaskImported, ErrTaskIDConflict, ErrDuplicateTask (another task holds the lock).
// The last error is the error of the call. Records without an error of their own then have it too,
// and their tasks may or may not have been created: repeat the call with the same IdempotencyKey.
func (i *Inspector) ImportTasks(ctx context.Context, queue string, opts ImportOptions, records []*TaskRecord) ([]error, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if err := validateQueueName(queue); err != nil {
		return nil, err
	}
	if strings.TrimSpace(opts.IdempotencyKey) == "" {
		return nil, errors.New("asynq: an import needs a name")
	}
	errs := make([]error, len(records))
	var tasks []*inspect.StoredTask
	var numbers []int64
	var at []int // indexes of the tasks among the records
	for n, r := range records {
		t, err := r.stored(i.broker.Keys(queue))
		if err != nil {
			errs[n] = err
			continue
		}
		tasks, numbers, at = append(tasks, t), append(numbers, r.Number), append(at, n)
	}
	codes, err := i.inspector.ImportTasks(ctx, queue, opts.IdempotencyKey, opts.Replace, numbers, tasks)
	if err != nil {
		err = publicError(err)
	}
	for n, place := range at {
		errs[place] = importError(codes[n], err, tasks[n].ID)
	}
	return errs, err
}

// importError returns the error of one record.
func importError(code script.Code, call error, id string) error {
	why := ""
	switch code {
	case script.CodeOK:
		return nil
	case script.CodeUnknown:
		return call
	case script.CodeAlready:
		return fmt.Errorf("asynq: %w: %q", ErrTaskImported, id)
	case script.CodeConflict:
		return fmt.Errorf("asynq: %w: %q", ErrTaskIDConflict, id)
	case script.CodeDuplicate:
		return fmt.Errorf("asynq: %w: cannot import %q with its lock", ErrDuplicateTask, id)
	case script.CodeActive:
		why = "it is active"
	case script.CodeStaged:
		why = "it is being aggregated"
	default:
		return fmt.Errorf("asynq: cannot import task %q: %w", id, code.Err())
	}
	return fmt.Errorf("asynq: cannot replace task %q: %s: try again when that is over", id, why)
}

// lastTime is the latest time that pending_since can hold, in nanoseconds.
var lastTime = time.Unix(0, math.MaxInt64)

// stored converts the record to its stored form.
func (r *TaskRecord) stored(keys wire.Queue) (*inspect.StoredTask, error) {
	if r == nil {
		return nil, errors.New("asynq: cannot import task: the record is nil")
	}
	fail := func(format string, args ...any) (*inspect.StoredTask, error) {
		return nil, fmt.Errorf("asynq: cannot import task %q: %s", r.ID, fmt.Sprintf(format, args...))
	}
	switch {
	case r.Number < 0 || r.Number >= inspect.MaxImport:
		return fail("its number must be from 0 to %d", inspect.MaxImport-1)
	case strings.TrimSpace(r.ID) == "":
		return fail("its ID must not be empty")
	case r.Unreadable == nil && strings.TrimSpace(r.Type) == "":
		return fail("its type must not be empty")
	case r.State == TaskStateActive:
		return fail("active tasks cannot be imported: import it as pending or archived")
	case r.State == TaskStateAggregating && r.Group == "":
		return fail("an aggregating task needs a group")
	case r.MaxRetry < 0 || r.MaxRetry > math.MaxInt32 || r.Retried < 0 || r.Retried > math.MaxInt32:
		return fail("its retries must be from 0 to %d", math.MaxInt32)
	case r.Timeout < 0 || r.Retention < 0:
		return fail("its timeout and its retention must not be negative")
	case !r.At.IsZero() && (r.At.Unix() < 0 || r.At.After(lastTime)):
		return fail("its time must be from 1970 to %d", lastTime.Year())
	}
	if _, err := wire.ParseState(r.State.String()); err != nil {
		return fail("there is no such state")
	}
	t := &inspect.StoredTask{ID: r.ID, State: wire.State(r.State), Group: r.Group, Result: bytes.Clone(r.Result), LockedUntil: r.LockedUntil}
	if r.UniqueKey != "" {
		t.UniqueKey = keys.UniquePrefix() + r.UniqueKey
	}
	if !r.At.IsZero() {
		t.PendingSince = strconv.FormatInt(r.At.UnixNano(), 10)
		t.Score = strconv.FormatInt(r.At.Unix(), 10)
		if ns := r.At.Nanosecond(); ns != 0 {
			t.Score = strconv.FormatFloat(float64(r.At.Unix())+float64(ns)/1e9, 'f', -1, 64)
		}
	}
	if r.Unreadable != nil {
		t.Message, t.Log = bytes.Clone(r.Unreadable), encodeAttempts(r.Attempts, 0)
		return t, nil
	}
	msg := &wire.TaskMessage{
		ID: r.ID, Queue: keys.Name, Type: r.Type, Payload: r.Payload, Headers: r.Headers, MaxRetry: r.MaxRetry, Retried: r.Retried,
		LastErr: r.LastErr, LastFailedAt: wireTime(r.LastFailedAt), CompletedAt: wireTime(r.CompletedAt), Deadline: wireTime(r.Deadline),
		Timeout: ceilSeconds(r.Timeout), Retention: ceilSeconds(r.Retention), UniqueKey: t.UniqueKey, Group: r.Group,
	}
	text, err := msg.Encode()
	if err != nil {
		return fail("%v", err)
	}
	t.Message, t.Log = text, encodeAttempts(r.Attempts, msg.Retried+msg.Archived())
	return t, nil
}

// wireTime returns a time as messages store it; 0 means none.
func wireTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
