package asynq

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// TaskFilter says which tasks Inspector.Tasks yields: those that all of its fields admit. The zero value admits all.
type TaskFilter struct {
	// Group that the tasks are in. Only for aggregating tasks; empty means all groups.
	Group string

	// Type of the tasks, or what it begins with if this ends in "*".
	Type string

	// OlderThan and YoungerThan bound the age of the tasks: at least the one, less than the other. Zero means no bound. The age is
	//
	//   - of an active task how long it has been processed, as its server tells
	//   - of a pending task how long it has been pending
	//   - of a scheduled task how long it has been due; less than zero until then
	//   - of a task to retry how long ago it failed
	//   - of an archived task how long it has been in the archive
	//   - of a completed task how long ago it succeeded
	//   - of an aggregating task how long ago it came into its group
	//
	// in seconds, by the clock of Redis; active tasks by those of their servers. A task of which nothing tells the age is not
	// admitted by a bound: an orphaned one, or one that was taken in the last few seconds.
	OlderThan, YoungerThan time.Duration

	// Error is a part of LastErr.
	Error string

	// Payload is a part of the payload.
	Payload string

	// MaxScan bounds how many tasks are looked at, whether they are admitted or not. Zero means no bound.
	MaxScan int

	// Match has the last word, if it is set: it is asked for each task that all other fields admit. It must not change the task.
	Match func(*TaskInfo) bool

	// Looked is called, if it is set, after each call of Redis, with how many tasks have been looked at so far.
	Looked func(tasks int)
}

// Tasks goes through the tasks of a queue in one state, however many there are, and yields those that the filter admits. Each call of
// Redis is short, so it may be used on a queue at work:
//
//	for task, err := range inspector.Tasks(ctx, "default", asynq.TaskStateArchived, asynq.TaskFilter{Type: "email:*"}) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(task.ID, task.LastErr)
//	}
//
// A task that is in the state from the beginning to the end is yielded exactly once, if the filter admits it, whatever becomes of
// others meanwhile. One that comes or goes meanwhile may be yielded or not; one that comes back may be yielded again. So may one whose
// time is changed meanwhile (Reschedule), or it may be missed.
//
// Scheduled tasks and those to retry come by NextProcessAt, those of a group by when they came into it; all others the latest first.
// What is told of a task is as with ListPendingTasks, and unlike ListAggregatingTasks it includes tasks that are being aggregated.
//
// An error is yielded with no task, and is the last pair: ErrQueueNotFound, ErrScanLimit (errors.Is), what ended ctx, or what Redis
// said. For pending, active and aggregating tasks 10 to 20 bytes of memory are needed for each task looked at (of one group).
func (i *Inspector) Tasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) iter.Seq2[*TaskInfo, error] {
	return func(yield func(*TaskInfo, error) bool) {
		if err := i.eachTask(ctx, queue, state, filter, func(_ *rdb.TaskInfo, t *TaskInfo) bool { return yield(t, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

var errGroupOfOthers = errors.New("asynq: TaskFilter.Group is for aggregating tasks only")

// tasksPerCall is how many tasks one call of Redis looks at.
const tasksPerCall = 200

// eachTask calls yield with the tasks that the filter admits, until there are no more or it returns false.
func (i *Inspector) eachTask(
	ctx context.Context, queue string, state TaskState, filter TaskFilter, yield func(*rdb.TaskInfo, *TaskInfo) bool,
) error {
	if ctx == nil {
		return errNilContext
	}
	if filter.Group != "" && state != TaskStateAggregating {
		return errGroupOfOthers
	}
	walk, err := i.broker.Walk(queue, wire.State(state), filter.Group)
	if err != nil {
		return brokerError(err)
	}
	for scanned := 0; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, full := tasksPerCall, false
		if filter.MaxScan > 0 {
			n, full = min(n, filter.MaxScan-scanned), scanned >= filter.MaxScan
		}
		tasks, looked, err := next(ctx, walk, max(n, 1)) // one more, where it is full, to see whether there are more
		switch {
		case err != nil:
			return brokerError(err)
		case looked == 0 && scanned == 0:
			return i.mustExist(ctx, queue)
		case looked == 0:
			return nil
		case full:
			return ErrScanLimit
		}
		scanned += looked
		if state == TaskStateActive && filter.ofAge() {
			if err := i.findStart(ctx, queue, tasks); err != nil {
				return err
			}
		}
		for _, t := range tasks {
			if !filter.admits(t) {
				continue
			}
			info := listedTask(t)
			if (filter.Match == nil || filter.Match(info)) && !yield(t, info) {
				return nil
			}
		}
		if filter.Looked != nil {
			filter.Looked(scanned)
		}
	}
}

// next goes on with a walk.
func next(ctx context.Context, walk *rdb.Walk, n int) ([]*rdb.TaskInfo, int, error) {
	type page struct {
		tasks  []*rdb.TaskInfo
		looked int
	}
	p, err := until(ctx, func() (p page, err error) {
		p.tasks, p.looked, err = walk.Next(ctx, n)
		return p, err
	})
	return p.tasks, p.looked, err
}

// findStart fills in since when active tasks are processed.
func (i *Inspector) findStart(ctx context.Context, queue string, tasks []*rdb.TaskInfo) error {
	ids := make([]string, len(tasks))
	for n, t := range tasks {
		ids[n] = t.ID
	}
	started, err := until(ctx, func() (map[string]time.Time, error) { return i.broker.Started(ctx, queue, ids) })
	if err != nil {
		return brokerError(err)
	}
	for _, t := range tasks {
		if !t.Orphaned {
			t.Since = started[t.ID]
		}
	}
	return nil
}

// ofAge reports whether the filter asks for an age.
func (f *TaskFilter) ofAge() bool { return f.OlderThan != 0 || f.YoungerThan != 0 }

// admits reports whether a task is one of those that the filter asks for.
func (f *TaskFilter) admits(t *rdb.TaskInfo) bool {
	msg := t.Message
	if msg == nil {
		msg = &wire.TaskMessage{}
	}
	if f.Group != "" && t.Group != f.Group {
		return false
	}
	if prefix, ok := strings.CutSuffix(f.Type, "*"); ok {
		if !strings.HasPrefix(msg.Type, prefix) {
			return false
		}
	} else if f.Type != "" && msg.Type != f.Type {
		return false
	}
	if f.ofAge() {
		age := t.Now.Sub(t.Since)
		if t.Since.IsZero() || f.OlderThan != 0 && age < f.OlderThan || f.YoungerThan != 0 && age >= f.YoungerThan {
			return false
		}
	}
	return strings.Contains(msg.LastErr, f.Error) && bytes.Contains(msg.Payload, []byte(f.Payload))
}
