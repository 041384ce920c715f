package rdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// StoredTask is all that is kept of a task that nobody works on.
type StoredTask struct {
	ID           string
	State        wire.State
	Message      []byte // encoded
	Score        string // in the collection of its state; "" where that has none
	PendingSince string // unix nanoseconds; "" unless pending
	Result       []byte
	Group        string
	UniqueKey    string    // key of its lock; "" if it has none
	LockedUntil  time.Time // when the lock ends that it holds; zero if it holds none
}

const exportValues = 8 // of each task

// ExportTasks tells all that is kept of tasks, in the order of the IDs: nil for one that there is not. An active task's token is not told.
func (b *Broker) ExportTasks(ctx context.Context, queue string, ids []string) ([]*StoredTask, error) {
	q := b.queues.get(queue)
	tasks := make([]*StoredTask, 0, len(ids))
	for len(tasks) < len(ids) {
		some := ids[len(tasks):min(len(ids), len(tasks)+maxLook)]
		c := newCall(exportTasksScript, 4+2+2*len(some)).key(q.scheduled, q.retry, q.archived, q.completed)
		for _, id := range some {
			c.key(q.keys.Task(id))
		}
		c.arg(q.groupPrefix, maxLookBytes)
		for _, id := range some {
			c.arg(id)
		}
		b.run(ctx, c)
		if c.err != nil {
			return nil, b.explain(ctx, q, fmt.Errorf("rdb: %s: %w", c.script.name, c.err))
		}
		reply, ok := c.reply.([]any)
		if !ok || len(reply) <= 1 || (len(reply)-1)%exportValues != 0 || len(reply) > 1+exportValues*len(some) {
			return nil, c.malformed()
		}
		now, err := nanoseconds(reply[0])
		if err != nil {
			return nil, c.malformed()
		}
		for i := 1; i < len(reply); i += exportValues {
			tasks = append(tasks, newStoredTask(ids[len(tasks)], reply[i:i+exportValues], now))
		}
	}
	return tasks, nil
}

func newStoredTask(id string, values []any, now time.Time) *StoredTask {
	var text [exportValues]string
	for i, v := range values {
		text[i], _ = v.(string)
	}
	if text[0] == "" {
		return nil
	}
	t := &StoredTask{
		ID: id, Message: []byte(text[1]), Score: text[2], Result: []byte(text[3]), PendingSince: text[4], Group: text[5], UniqueKey: text[6],
	}
	t.State, _ = wire.ParseState(text[0]) // zero: a state that there is none of
	if ms, ok := values[7].(int64); ok && ms > 0 {
		t.LockedUntil = now.Add(time.Duration(ms) * time.Millisecond)
	}
	return t
}

// importMarks is how long it is remembered which tasks of an import were made.
const importMarks = 30 * 24 * time.Hour

// MaxImport bounds the numbers of the tasks of one import: its marks take a bit each.
const MaxImport = 1 << 27

// An import's scripts write more than others do.
const (
	importBatch      = 250
	importBatchBytes = 1 << 20
)

// ImportTasks makes tasks as they are given, in any state but active, and answers for each: CodeOK, CodeAlready (the import of this
// name made the task with this number before, whatever has become of it), CodeConflict, CodeDuplicate; where tasks are to be replaced also
// CodeActive, CodeStaged or CodeBroken; and with an error CodeUnknown for those that it keeps from being told. Tasks that are pending
// are put behind others, in their order. numbers are those of the tasks within the import.
//
// To repeat a call is harmless: that is what the marks of the import are for.
func (b *Broker) ImportTasks(ctx context.Context, queue, name string, replace bool, numbers []int64, tasks []*StoredTask) ([]Code, error) {
	codes := make([]Code, len(tasks))
	left := make([]int, len(tasks))
	for i := range tasks {
		codes[i], left[i] = CodeUnknown, i
	}
	q := b.queues.get(queue)
	for len(left) > 0 {
		b.publish(ctx, q)
		n, bytes := 0, 0
		for n < len(left) && n < importBatch && (n == 0 || bytes < importBatchBytes) {
			bytes += len(tasks[left[n]].Message) + len(tasks[left[n]].Result)
			n++
		}
		c := newCall(importTasksScript, 9+4+10*n).
			key(q.pending, q.scheduled, q.retry, q.archived, q.completed, q.groups, q.groupsDue, q.marker, q.keys.Import(name))
		for _, i := range left[:n] {
			c.key(q.keys.Task(tasks[i].ID))
		}
		replaces := 0
		if replace {
			replaces = 1
		}
		c.arg(q.groupPrefix, q.taskPrefix, replaces, int64(importMarks.Seconds()))
		for _, i := range left[:n] {
			t := tasks[i]
			score, till := t.Score, int64(0)
			if t.State == wire.StatePending {
				score = t.PendingSince
			}
			if !t.LockedUntil.IsZero() {
				till = t.LockedUntil.UnixMilli()
			}
			c.arg(numbers[i], t.ID, t.State.String(), t.Message, score, t.Result, t.Group, q.lock(t.UniqueKey), till)
		}
		b.run(ctx, c)
		answers, err := c.codes(n)
		if err != nil {
			return codes, b.explain(ctx, q, err)
		}
		var later []int
		for at, code := range answers {
			if code == CodeLater {
				later = append(later, left[at])
			} else {
				codes[left[at]] = code
			}
		}
		if len(later) == n {
			return codes, errors.New("rdb: import_tasks: the script puts all tasks off") // a defect of ours; else an endless loop
		}
		left = append(later, left[n:]...)
	}
	return codes, nil
}
