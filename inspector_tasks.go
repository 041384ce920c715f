package asynq

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// TaskFilter selects tasks: those that match all of its fields. The zero value selects all.
type TaskFilter struct {
	Group string // only for aggregating tasks; empty means all groups
	Type  string // type of the tasks, or a prefix if it ends in "*"

	// PartitionKey, if not empty, is the PartitionKey of the tasks.
	PartitionKey string

	// MinAge (inclusive) and MaxAge (exclusive) bound the age of the tasks. Zero means no bound.
	// The age is the time since
	//
	//   - an active task started, as its server reports
	//   - a pending task became pending
	//   - a scheduled task was due; negative before
	//   - a task in retry failed
	//   - an archived task was archived
	//   - a completed task succeeded
	//   - an aggregating task entered its group
	//
	// in seconds, by the clock of Redis, or of the server for active tasks. A task of unknown age
	// matches no bound: an orphaned task, or one fetched within the last few seconds.
	MinAge, MaxAge time.Duration

	ErrorContains   string // substring of LastErr
	PayloadContains string // substring of the payload
	Reverse         bool   // reverses the order of the tasks; see Inspector.Tasks
	MaxScan         int    // maximum number of tasks scanned, matching or not; zero means no limit

	// Match, if not nil, is called for each task that matches all other fields, and decides. It
	// must not change the task.
	Match func(*TaskInfo) bool

	// Scanned, if not nil, is called after each call of Redis with the number of tasks scanned so
	// far.
	Scanned func(tasks int)
}

// Tasks yields the tasks of a queue in one state that the filter selects, however many there are.
// Each call of Redis is short, so it is safe on busy queues:
//
//	for task, err := range inspector.Tasks(ctx, "default", asynq.TaskStateArchived, asynq.TaskFilter{Type: "email:*"}) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(task.ID, task.LastErr)
//	}
//
// A selected task that stays in the state during the whole iteration is yielded exactly once. Tasks
// that enter or leave the state during the iteration may or may not be yielded; a task that returns
// may be yielded again. A task that is rescheduled (RescheduleTask) may be missed or yielded twice.
//
// Pending tasks are yielded in the order of execution, active tasks longest active first, scheduled
// tasks and tasks in retry by NextProcessAt, aggregating tasks oldest first (groups by name),
// archived and completed tasks newest first. TaskFilter.Reverse reverses the order. If clients keep
// enqueueing, Tasks yields at most 100,000 pending tasks more than there were at the start. The
// fields of a task are as in ListPendingTasks. Unlike ListAggregatingTasks, it includes tasks that
// are being aggregated.
//
// An error comes with a nil task and ends the iteration: ErrQueueNotFound, ErrScanLimit
// (errors.Is), the error of ctx, or an error of Redis. Pending, active and aggregating tasks use 10
// to 20 bytes of memory per task scanned (per group).
func (i *Inspector) Tasks(ctx context.Context, queue string, state TaskState, filter TaskFilter) iter.Seq2[*TaskInfo, error] {
	return func(yield func(*TaskInfo, error) bool) {
		if err := i.eachTask(ctx, queue, state, filter, func(_ *inspect.TaskInfo, t *TaskInfo) bool { return yield(t, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// tasksPerCall is the number of tasks that one call of Redis scans.
const tasksPerCall = 200

// taskScan scans the tasks of a queue in one state, and selects those that a filter admits.
type taskScan struct {
	inspector *Inspector
	queue     string
	state     TaskState
	filter    *TaskFilter
	walk      *inspect.Walk
	scanned   int
}

// scan returns a scan that begins at a cursor, or with the first task if the cursor is empty.
func (i *Inspector) scan(ctx context.Context, queue string, state TaskState, filter *TaskFilter, cursor string) (*taskScan, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if filter.Group != "" && state != TaskStateAggregating {
		return nil, errors.New("asynq: TaskFilter.Group is for aggregating tasks only")
	}
	var from *inspect.Cursor
	if cursor != "" {
		var err error
		if from, err = inspect.ParseCursor(cursor); err != nil {
			return nil, ErrCursor
		}
	}
	walk, err := i.inspector.Walk(queue, wire.State(state), filter.Group, filter.Reverse, from)
	if errors.Is(err, inspect.ErrCursor) {
		return nil, ErrCursor
	}
	return &taskScan{inspector: i, queue: queue, state: state, filter: filter, walk: walk}, brokerError(err)
}

// full reports whether MaxScan tasks are scanned.
func (s *taskScan) full() bool { return s.filter.MaxScan > 0 && s.scanned >= s.filter.MaxScan }

// next scans up to n tasks with one call of Redis, and calls yield for the selected ones until it
// returns false. It reports false if there are no more tasks. It returns ErrQueueNotFound if there
// have been none because the queue does not exist.
func (s *taskScan) next(ctx context.Context, n int, yield func(*inspect.TaskInfo, *TaskInfo) bool) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.filter.MaxScan > 0 {
		n = min(n, s.filter.MaxScan-s.scanned)
	}
	tasks, scanned, err := s.walk.Next(ctx, n)
	switch {
	case err != nil:
		return false, brokerError(err)
	case scanned == 0 && s.scanned == 0:
		return false, s.inspector.mustExist(ctx, s.queue, queueNotFoundText)
	case scanned == 0:
		return false, nil
	}
	s.scanned += scanned
	if s.state == TaskStateActive && s.filter.ofAge() {
		if err := s.findStart(ctx, tasks); err != nil {
			return false, err
		}
	}
	for _, t := range tasks {
		if !s.filter.admits(t) {
			continue
		}
		info := listedTask(t)
		if (s.filter.Match == nil || s.filter.Match(info)) && !yield(t, info) {
			break
		}
	}
	if s.filter.Scanned != nil {
		s.filter.Scanned(s.scanned)
	}
	return true, nil
}

// findStart sets the start times of active tasks.
func (s *taskScan) findStart(ctx context.Context, tasks []*inspect.TaskInfo) error {
	ids := make([]string, len(tasks))
	for n, t := range tasks {
		ids[n] = t.ID
	}
	started, err := s.inspector.inspector.Started(ctx, s.queue, ids)
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

// eachTask calls yield for each selected task until there are no more or yield returns false.
func (i *Inspector) eachTask(
	ctx context.Context, queue string, state TaskState, filter TaskFilter, yield func(*inspect.TaskInfo, *TaskInfo) bool,
) error {
	scan, err := i.scan(ctx, queue, state, &filter, "")
	if err != nil {
		return err
	}
	for more, stopped := true, false; more && !stopped; {
		if scan.full() {
			if _, further, err := scan.walk.Next(ctx, 1); err != nil || further == 0 {
				return brokerError(err)
			}
			return ErrScanLimit
		}
		more, err = scan.next(ctx, tasksPerCall, func(t *inspect.TaskInfo, info *TaskInfo) bool {
			stopped = !yield(t, info)
			return !stopped
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ofAge reports whether the filter bounds the age.
func (f *TaskFilter) ofAge() bool { return f.MinAge != 0 || f.MaxAge != 0 }

// admits reports whether the filter, apart from Match, selects a task.
func (f *TaskFilter) admits(t *inspect.TaskInfo) bool {
	msg := t.Message
	if msg == nil {
		msg = &wire.TaskMessage{}
	}
	if f.Group != "" && t.Group != f.Group {
		return false
	}
	if f.PartitionKey != "" && msg.PartitionKey() != f.PartitionKey {
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
		if t.Since.IsZero() || f.MinAge != 0 && age < f.MinAge || f.MaxAge != 0 && age >= f.MaxAge {
			return false
		}
	}
	return strings.Contains(msg.LastErr, f.ErrorContains) && bytes.Contains(msg.Payload, []byte(f.PayloadContains))
}

// listedTask describes a listed task. Its message may be missing, or belong to another task.
func listedTask(t *inspect.TaskInfo) *TaskInfo {
	msg := t.Message
	if msg == nil {
		msg = &wire.TaskMessage{}
	}
	next := t.ProcessAt
	if t.State == wire.StatePending {
		next = time.Now()
	}
	info := newTaskInfo(msg, TaskState(t.State), next, t.Result)
	info.ID, info.Queue, info.IsOrphaned = t.ID, t.Queue, t.Orphaned
	info.IsHeld = t.Held
	if t.Group != "" {
		info.Group = t.Group
	}
	if !t.Since.IsZero() && t.State != wire.StateActive {
		info.Age = t.Now.Sub(t.Since)
	}
	for _, a := range t.Attempts {
		info.Attempts = append(info.Attempts, newAttemptInfo(a))
	}
	info.Progress = newTaskProgress(t.Progress)
	return info
}

// ListTasksOptions selects the tasks of a page.
type ListTasksOptions struct {
	Filter TaskFilter // selects the tasks; its MaxScan bounds the tasks that one call scans
	Cursor string     // Next of the page before; if empty, ListTasks returns the first page
	Limit  int        // maximum number of tasks on the page, at most 1,000; if zero, it is 100
}

// TaskPage is a page of the tasks of a queue in one state.
type TaskPage struct {
	Tasks   []*TaskInfo // tasks of the page
	Next    string      // cursor of the next page; empty on the last page
	Scanned int         // number of tasks that were scanned for the page
}

// The limits of ListTasks.
const (
	defaultTaskPage = 100
	maxTaskPage     = 1000
)

// ListTasks returns a page of the tasks that Tasks yields, and the cursor of the next page. Pages
// stay fast and consistent however many tasks there are and whatever happens to them in between. A
// cursor may be used later, and in another process:
//
//	page, err := inspector.ListTasks(ctx, "default", asynq.TaskStateRetry, asynq.ListTasksOptions{Cursor: cursor})
//
// When a call has scanned Filter.MaxScan tasks it returns a short or empty page without an error,
// and the next call continues behind them. A page can therefore have fewer than Limit tasks and a
// Next.
//
// A task that is in the state from the first page to the last is on exactly one page, in the order
// and with the exceptions of Tasks. Pending and active tasks have one more exception: if the eight
// tasks on either side of a cursor are gone, or more than 9,000 others have moved it, some by
// entering and some by leaving the state, the next page begins with the first task of the state;
// with TaskFilter.Reverse it begins at the same distance from the newest task.
//
// A cursor is at most 1 kB long unless a task ID or a group name is longer. It is not encrypted,
// and contains task IDs and group names. Cursors from untrusted sources are safe.
//
// It returns ErrCursor if the cursor is malformed or belongs to another queue, state, group or
// direction (TaskFilter.Reverse), ErrQueueNotFound if the queue does not exist (errors.Is), and an
// error if Limit is negative or more than 1,000.
func (i *Inspector) ListTasks(ctx context.Context, queue string, state TaskState, opts ListTasksOptions) (*TaskPage, error) {
	limit := cmp.Or(opts.Limit, defaultTaskPage)
	if limit < 1 || limit > maxTaskPage {
		return nil, fmt.Errorf("asynq: invalid Limit %d: it must be from 0 to 1,000", limit)
	}
	scan, err := i.scan(ctx, queue, state, &opts.Filter, opts.Cursor)
	if err != nil {
		return nil, err
	}
	page := &TaskPage{}
	var last *inspect.TaskInfo // the task that filled the page
	for more := true; more && last == nil && !scan.full(); {
		n := tasksPerCall
		if opts.Filter.admitsAll() {
			n = min(n, limit-len(page.Tasks)+1) // one more, to detect further tasks
		}
		found, err := scan.next(ctx, n, func(t *inspect.TaskInfo, info *TaskInfo) bool {
			if page.Tasks = append(page.Tasks, info); len(page.Tasks) == limit {
				last = t
			}
			return last == nil
		})
		if err != nil || !found {
			return page, err
		}
		var next *inspect.Cursor
		page.Scanned, page.Next = scan.scanned, ""
		if next, more = scan.walk.Cursor(last); more {
			page.Next = next.String()
		}
	}
	return page, nil
}

// admitsAll reports whether the filter selects all tasks of its group.
func (f *TaskFilter) admitsAll() bool {
	return f.Type == "" && !f.ofAge() && f.ErrorContains == "" && f.PayloadContains == "" && f.Match == nil
}

// TaskRef identifies a task. IDs are unique within a queue.
type TaskRef struct{ Queue, ID string }

// TaskStateResult is the result of TaskStates for one task. Either State or Err is set.
type TaskStateResult struct {
	// State is the state of the task.
	State TaskState

	// Err is the reason why the state is unknown: ErrTaskNotFound (errors.Is) if the task or its
	// queue does not exist, an error of Redis, or the error of ctx.
	Err error
}

// TaskStates returns the states of any number of tasks, of one or several queues, in order. It
// suits callers that wait for many tasks: each costs Redis one HGET, and 500 of them one round trip
// (on a Cluster, one per node). GetTaskInfo returns the details of a task. An error of one task
// does not affect the others.
//
// It returns when ctx ends; then all results have the error of ctx.
func (i *Inspector) TaskStates(ctx context.Context, tasks ...TaskRef) []TaskStateResult {
	results := make([]TaskStateResult, len(tasks))
	if ctx == nil {
		for n := range results {
			results[n].Err = errNilContext
		}
		return results
	}
	names := make([]inspect.TaskName, len(tasks))
	for n, t := range tasks {
		names[n] = inspect.TaskName(t)
	}
	states, errs := i.inspector.TaskStates(ctx, names)
	for n, t := range tasks {
		switch err := errs[n]; {
		case errors.Is(err, script.ErrTaskGone):
			results[n].Err = taskNotFound(t.Queue, t.ID)
		case err != nil:
			results[n].Err = brokerError(err)
		default:
			results[n].State = TaskState(states[n])
		}
	}
	return results
}
