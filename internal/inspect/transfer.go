package inspect

import (
	"context"
	"errors"
	"time"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// StoredTask is everything that Redis stores about a task.
type StoredTask struct {
	ID           string
	State        wire.State
	Message      []byte // encoded
	Score        string // in the collection of its state; "" where that has none
	PendingSince string // unix nanoseconds; "" unless pending
	Result       []byte
	Log          []byte // see wire.DecodeAttempts
	Group        string
	UniqueKey    string    // key of its lock; "" if it has none
	LockedUntil  time.Time // when the lock ends that it holds; zero if it holds none
}

// reading is a task in the reply of a script. Its State and LockedUntil are zero.
type reading struct {
	StoredTask
	state          string // as stored; "" if there is no such task
	orphaned       bool   // active without an unexpired lease
	progress       []byte
	token, settled string // as in TaskInfo
}

// readListed reads an entry of the reply of list.lua, or the first part of one of read_tasks.lua.
func readListed(r *script.Reader) (t reading) {
	t.ID, t.state, t.Score, t.orphaned = r.Text(), r.Text(), r.Text(), r.Bool()
	t.Message, t.Result, t.PendingSince, t.Group = r.Bytes(), r.Bytes(), r.Text(), r.Text()
	return t
}

// readStored reads a task in the reply of read_tasks.lua, up to the time until its lock expires.
func readStored(r *script.Reader) reading {
	t := readListed(r)
	t.progress = r.Bytes()
	t.token, t.settled, t.UniqueKey, t.Log = r.Text(), r.Text(), r.Text(), r.Bytes()
	return t
}

// ExportTasks returns the stored tasks in the order of the IDs, nil for a missing task. It omits
// the token of an active task.
func (b *Inspector) ExportTasks(ctx context.Context, queue string, ids []string) ([]*StoredTask, error) {
	q := b.Queue(queue)
	tasks := make([]*StoredTask, 0, len(ids))
	for len(tasks) < len(ids) {
		c := readCall(q, ids[len(tasks):min(len(ids), len(tasks)+maxScan)]...)
		b.Run(ctx, c)
		r, before := c.Read(), len(tasks)
		for now := readTime(&r); r.More() && len(tasks) < len(ids); {
			t := readStored(&r)
			if left := r.Int(); left > 0 {
				t.LockedUntil = now.Add(script.Milliseconds(left))
			}
			if t.state == "" {
				tasks = append(tasks, nil)
				continue
			}
			t.State, _ = wire.ParseState(t.state) // zero: a state that there is none of
			tasks = append(tasks, &t.StoredTask)
		}
		if len(tasks) == before {
			r.Fail()
		}
		if err := r.Err(); err != nil {
			return nil, b.explain(ctx, q, err)
		}
	}
	return tasks, nil
}

// importMarks is the TTL of the marks of an import.
const importMarks = 30 * 24 * time.Hour

// MaxImport limits the numbers of the tasks of an import: each takes one bit of its marks.
const MaxImport = 1 << 27

// An import's scripts write more than others do.
const (
	importBatch      = 250
	importBatchBytes = 1 << 20
)

// ImportTasks creates tasks in any state but active. The result has one code per task: CodeOK,
// CodeAlready (an import with this name has created the task with this number before),
// CodeConflict, CodeDuplicate; with replace also CodeActive, CodeStaged or CodeBroken; and with an
// error CodeUnknown for tasks without a result. Pending tasks are added behind others, in order.
// numbers are the numbers of the tasks within the import.
//
// A call can be repeated: the marks of the import prevent duplicates.
func (b *Inspector) ImportTasks(
	ctx context.Context, queue, name string, replace bool, numbers []int64, tasks []*StoredTask,
) ([]script.Code, error) {
	codes := make([]script.Code, len(tasks))
	left := make([]int, len(tasks))
	for i := range tasks {
		codes[i], left[i] = script.CodeUnknown, i
	}
	q := b.Queue(queue)
	err := b.RegisterQueues(ctx, []string{queue})
	if err != nil && !script.Refused(err) { // if rejected, tasks are still created and processed
		return codes, err
	}
	for len(left) > 0 {
		if err := ctx.Err(); err != nil {
			return codes, err
		}
		n, bytes := 0, 0
		for n < len(left) && n < importBatch && (n == 0 || bytes < importBatchBytes) {
			t := tasks[left[n]]
			bytes += len(t.Message) + len(t.Result) + len(t.Log)
			n++
		}
		c := script.NewCall(importTasksScript, 10+4+11*n).
			Key(q.Pending, q.Scheduled, q.Retry, q.Archived, q.Completed, q.Groups, q.GroupsDue, q.Marker, q.Keys.Import(name),
				q.Keys.HeldTasks())
		for _, i := range left[:n] {
			c.Key(q.Keys.Task(tasks[i].ID))
		}
		c.Arg(q.GroupPrefix, q.TaskPrefix, script.Flag(replace), int64(importMarks.Seconds()))
		for _, i := range left[:n] {
			t := tasks[i]
			score, till := t.Score, int64(0)
			if t.State == wire.StatePending {
				score = t.PendingSince
			}
			if !t.LockedUntil.IsZero() {
				till = t.LockedUntil.UnixMilli()
			}
			c.Arg(numbers[i], t.ID, t.State.String(), t.Message, score, t.Result, t.Log, t.Group, q.Lock(t.UniqueKey), till)
		}
		c.Late = true // so that the caller knows what was imported
		b.Run(ctx, c)
		r := c.ReadCodes(n)
		if err := r.Err(); err != nil {
			return codes, b.explain(ctx, q, err)
		}
		var later []int
		for _, i := range left[:n] {
			code := r.Code()
			if code == script.CodeLater {
				later = append(later, i)
				continue
			}
			codes[i] = code
		}
		if len(later) == n {
			return codes, errors.New("inspect: import_tasks: the script defers all tasks") // a bug; avoid an endless loop
		}
		left = append(later, left[n:]...)
	}
	return codes, nil
}
