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

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// TaskRecord is all that Redis keeps of a task: what it takes to make the same task again, in the same state.
type TaskRecord struct {
	// Number of the record among those that are imported together: see ImportTasks. ExportTasks leaves it at 0.
	Number int64

	// What TaskInfo has by the same names.
	ID, Queue, Type   string
	Payload           []byte
	Headers           map[string]string
	State             TaskState // 0 if Redis names a state that there is none of
	MaxRetry, Retried int
	LastErr           string
	LastFailedAt      time.Time
	Timeout           time.Duration
	Deadline          time.Time
	Group             string
	Retention         time.Duration
	CompletedAt       time.Time
	Result            []byte

	// At is when a scheduled task, or one in retry, is to be processed; since when one has been pending, archived or in its group; until
	// when a completed one is kept. It is zero for an active one, and where nothing tells.
	At time.Time

	// UniqueKey names the task's uniqueness lock within its queue; empty if it was not made with Unique.
	UniqueKey string

	// LockedUntil is when the lock ends that the task holds; zero if it holds none.
	LockedUntil time.Time

	// Unreadable is the task's message as it is, where it cannot be read. All that it would tell is missing then.
	Unreadable []byte
}

// exportPage is how many tasks are exported in one call.
const exportPage = 200

// ExportTasks goes through the tasks of a queue as Tasks does, and yields all that Redis keeps of those that the filter admits. What is
// told of a task was so at one moment; a task that has changed its state since it was found is told in its new one.
func (i *Inspector) ExportTasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) iter.Seq2[*TaskRecord, error] {
	return func(yield func(*TaskRecord, error) bool) {
		var page []*rdb.TaskInfo
		flush := func() (more bool, err error) {
			records, err := i.exportPage(ctx, queue, page)
			page = page[:0]
			for _, r := range records {
				if !yield(r, nil) {
					return false, nil
				}
			}
			return true, err
		}
		more, failed := true, error(nil)
		err := i.eachTask(ctx, queue, state, filter, func(found *rdb.TaskInfo, _ *TaskInfo) bool {
			if page = append(page, found); len(page) == exportPage {
				more, failed = flush()
			}
			return more && failed == nil
		})
		if more && failed == nil && len(page) > 0 {
			more, failed = flush()
		}
		if failed != nil {
			err = failed
		}
		if more && err != nil {
			yield(nil, err)
		}
	}
}

// exportPage reads the tasks that were found and are still there.
func (i *Inspector) exportPage(ctx context.Context, queue string, found []*rdb.TaskInfo) ([]*TaskRecord, error) {
	ids := make([]string, len(found))
	for n, t := range found {
		ids[n] = t.ID
	}
	tasks, err := until(ctx, func() ([]*rdb.StoredTask, error) { return i.broker.ExportTasks(ctx, queue, ids) })
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
			r.At = found[n].Since // one that is being aggregated right now has its time in another place
		}
		records = append(records, r)
	}
	return records, nil
}

// newTaskRecord describes a task by what is kept of it.
func newTaskRecord(t *rdb.StoredTask, keys wire.Queue) *TaskRecord {
	r := &TaskRecord{
		ID: t.ID, Queue: keys.Name, State: TaskState(t.State), Group: t.Group, Result: t.Result, LockedUntil: t.LockedUntil,
	}
	if ns, err := strconv.ParseInt(t.PendingSince, 10, 64); err == nil {
		r.At = time.Unix(0, ns)
	} else if s, err := strconv.ParseFloat(t.Score, 64); err == nil && s > -1e11 && s < 1e11 {
		whole := int64(s)
		r.At = time.Unix(whole, int64((s-float64(whole))*1e9))
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

// ImportOptions say how ImportTasks goes about it.
type ImportOptions struct {
	// Name of the import. For 30 days an import of the same name into the same queue makes no task a second time that has the same Number,
	// whatever has become of the first one. So an import that ended half-way can be repeated from its beginning.
	Name string

	// Replace lets a record take the place of a task with the same ID, unless that is active or being aggregated.
	Replace bool
}

// ImportTasks makes tasks from records: in the state, with the times, the counts, the result and the uniqueness lock that these tell, and in
// the order of the records behind those that are pending. The queue may be another than that of the record. An active task cannot be
// imported, because nobody works on it: set State to pending to have it run (again), or to archived.
//
// The errors stand in the order of the records; nil is a task that was made. Of them these are told by errors.Is: ErrTaskImported,
// ErrTaskIDConflict, ErrDuplicateTask (another task holds the lock). The last error is that of the call: then a record without an
// error of its own has it too, and it is not known whether its task was made. Repeat the call with the same Name.
func (i *Inspector) ImportTasks(ctx context.Context, queue string, opts ImportOptions, records []*TaskRecord) ([]error, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if err := validateQueueName(queue); err != nil {
		return nil, err
	}
	if strings.TrimSpace(opts.Name) == "" {
		return nil, errors.New("asynq: an import needs a name")
	}
	errs := make([]error, len(records))
	var tasks []*rdb.StoredTask
	var numbers []int64
	var at []int // where the task stands among the records
	for n, r := range records {
		t, err := r.stored(i.broker.Keys(queue))
		if err != nil {
			errs[n] = err
			continue
		}
		tasks, numbers, at = append(tasks, t), append(numbers, r.Number), append(at, n)
	}
	codes, err := until(ctx, func() ([]rdb.Code, error) {
		return i.broker.ImportTasks(ctx, queue, opts.Name, opts.Replace, numbers, tasks)
	})
	if err != nil {
		err = publicError(err)
	}
	for n, place := range at {
		code := rdb.CodeUnknown
		if codes != nil {
			code = codes[n]
		}
		errs[place] = importError(code, err, tasks[n].ID)
	}
	return errs, err
}

// importError says what became of one record.
func importError(code rdb.Code, call error, id string) error {
	why := ""
	switch code {
	case rdb.CodeOK:
		return nil
	case rdb.CodeUnknown:
		return call
	case rdb.CodeAlready:
		return fmt.Errorf("asynq: %w: %q", ErrTaskImported, id)
	case rdb.CodeConflict:
		return fmt.Errorf("asynq: %w: %q", ErrTaskIDConflict, id)
	case rdb.CodeDuplicate:
		return fmt.Errorf("asynq: %w: cannot import %q with its lock", ErrDuplicateTask, id)
	case rdb.CodeActive:
		why = "it is active"
	case rdb.CodeStaged:
		why = "it is being aggregated"
	default:
		return fmt.Errorf("asynq: cannot import task %q: %w", id, code.Err())
	}
	return fmt.Errorf("asynq: cannot replace task %q: %s: try again when that is over", id, why)
}

// lastTime is the last one that pending_since can hold, in nanoseconds.
var lastTime = time.Unix(0, math.MaxInt64)

// stored is the task as it is to be kept.
func (r *TaskRecord) stored(keys wire.Queue) (*rdb.StoredTask, error) {
	if r == nil {
		return nil, errors.New("asynq: cannot import task: the record is nil")
	}
	fail := func(format string, args ...any) (*rdb.StoredTask, error) {
		return nil, fmt.Errorf("asynq: cannot import task %q: %s", r.ID, fmt.Sprintf(format, args...))
	}
	switch {
	case r.Number < 0 || r.Number >= rdb.MaxImport:
		return fail("its number must be from 0 to %d", rdb.MaxImport-1)
	case strings.TrimSpace(r.ID) == "":
		return fail("its ID must not be empty")
	case r.Unreadable == nil && strings.TrimSpace(r.Type) == "":
		return fail("its type must not be empty")
	case r.State == TaskStateActive:
		return fail("nobody would work on an active task: import it as pending or archived")
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
	t := &rdb.StoredTask{ID: r.ID, State: wire.State(r.State), Group: r.Group, Result: bytes.Clone(r.Result), LockedUntil: r.LockedUntil}
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
		t.Message = bytes.Clone(r.Unreadable)
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
	t.Message = text
	return t, nil
}

// wireTime is a time as messages have it, where 0 is none.
func wireTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
