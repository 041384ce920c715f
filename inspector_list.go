package asynq

import (
	"math"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// defaultPageSize is how many items a listing returns where PageSize does not say.
const defaultPageSize = 30

// ListOption says which part of a list an Inspector is to return: Page or PageSize.
type ListOption interface{}

type (
	pageOption     int
	pageSizeOption int
)

// Page asks for the n-th page. The first one is 1, and what is less counts as 1. Default 1.
func Page(n int) ListOption { return pageOption(max(n, 1)) }

// PageSize sets how many items are on a page. What is less than 0 counts as 0. Default 30.
func PageSize(n int) ListOption { return pageSizeOption(max(n, 0)) }

// listWindow reads list options: how many items to pass over, and how many to return.
func listWindow(opts []ListOption) (offset, limit int) {
	page, size := 1, defaultPageSize
	for _, opt := range opts {
		switch o := opt.(type) {
		case pageOption:
			page = int(o)
		case pageSizeOption:
			size = int(o)
		}
	}
	const most = math.MaxInt32 * 1024 // of which twice as much is still an exact number in Lua
	if size > 0 && page-1 > most/size {
		return most, 0
	}
	return (page - 1) * size, min(size, most)
}

// ListPendingTasks lists the pending tasks of a queue, from the one that is next to run on. By default it returns the first 30.
//
// As with all lists, the tasks of a page are from one moment, up to 200 of them, and two pages are from two. A page is shorter where
// the queue holds an ID without a task. Of a task whose message cannot be read, only ID, Queue, State, Group, Result and the
// time that it waits for are told. The error is ErrQueueNotFound (errors.Is) if there is no such queue.
func (i *Inspector) ListPendingTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStatePending, "", opts)
}

// ListActiveTasks lists the tasks of a queue that are in process, from the one on that was taken first. By default it returns the
// first 30.
func (i *Inspector) ListActiveTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateActive, "", opts)
}

// ListScheduledTasks lists the scheduled tasks of a queue, by NextProcessAt. By default it returns the first 30.
func (i *Inspector) ListScheduledTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateScheduled, "", opts)
}

// ListRetryTasks lists the tasks of a queue that are to be tried again, by NextProcessAt. By default it returns the first 30.
func (i *Inspector) ListRetryTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateRetry, "", opts)
}

// ListArchivedTasks lists the archived tasks of a queue, from the one on that came there last. By default it returns the first 30.
func (i *Inspector) ListArchivedTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateArchived, "", opts)
}

// ListCompletedTasks lists the completed tasks of a queue, from the one on that is kept the longest: by CompletedAt plus Retention,
// the latest first. By default it returns the first 30.
func (i *Inspector) ListCompletedTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateCompleted, "", opts)
}

// ListAggregatingTasks lists the tasks of a group, from the one on that has been in it the longest, but those that are being
// aggregated right now. By default it returns the first 30.
func (i *Inspector) ListAggregatingTasks(queue, group string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateAggregating, group, opts)
}

func (i *Inspector) listTasks(queue string, state TaskState, group string, opts []ListOption) ([]*TaskInfo, error) {
	offset, limit := listWindow(opts)
	found, err := until(i.ctx, func() ([]*rdb.TaskInfo, error) {
		return i.broker.ListTasks(i.ctx, queue, wire.State(state), group, offset, limit)
	})
	if err != nil {
		return nil, brokerError(err)
	}
	if len(found) == 0 {
		return nil, i.mustExist(i.ctx, queue)
	}
	tasks := make([]*TaskInfo, len(found))
	for n, t := range found {
		tasks[n] = listedTask(t)
	}
	return tasks, nil
}

// listedTask describes a task that a listing found. What is in its message may be missing, or be that of another task.
func listedTask(t *rdb.TaskInfo) *TaskInfo {
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
	if t.Group != "" {
		info.Group = t.Group
	}
	return info
}
