package asynq

import (
	"math"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/wire"
)

// defaultPageSize is the page size of lists without PageSize.
const defaultPageSize = 30

// ListOption is an option of the list methods: Page, PageSize or NewestFirst.
type ListOption interface{}

type (
	pageOption        int
	pageSizeOption    int
	newestFirstOption struct{}
)

// Page selects the n-th page, starting from 1. Values below 1 count as 1. The default is 1.
func Page(n int) ListOption { return pageOption(max(n, 1)) }

// PageSize sets the number of tasks per page. The default is 30.
//
// If n is 0 or negative, the list has all tasks, and Page is ignored. They are read in calls of at
// most 200 tasks or a megabyte. A task that stays in the list during the call is returned exactly
// once. A task that enters or leaves during the call may be missing, and a task that leaves and
// returns may be returned twice. Use Inspector.Tasks for lists that do not fit into memory.
func PageSize(n int) ListOption { return pageSizeOption(max(n, 0)) }

// NewestFirst makes ListArchivedTasks and ListCompletedTasks start with the newest task. Other
// lists ignore it.
func NewestFirst() ListOption { return newestFirstOption{} }

// listWindow is the part of a list that list options select.
type listWindow struct {
	offset, limit int
	all, newest   bool
}

func windowOf(opts []ListOption) listWindow {
	page, size, newest := 1, defaultPageSize, false
	for _, opt := range opts {
		switch o := opt.(type) {
		case pageOption:
			page = int(o)
		case pageSizeOption:
			size = int(o)
		case newestFirstOption:
			newest = true
		}
	}
	const most = math.MaxInt32 * 1024 // twice this is an exact number in Lua
	switch {
	case size == 0:
		return listWindow{limit: most, all: true, newest: newest}
	case page-1 > most/size:
		return listWindow{offset: most, newest: newest}
	default:
		return listWindow{offset: (page - 1) * size, limit: min(size, most), newest: newest}
	}
}

// ListPendingTasks returns the pending tasks of a queue in the order of execution.
//
// All lists have the first 30 tasks by default, see Page and PageSize. Up to 200 tasks of a page
// are read at one moment; different pages are read at different moments. A page is shorter if the
// queue has dangling IDs. If the message of a task cannot be decoded, only ID, Queue, State, Group,
// Result and NextProcessAt are set. It returns ErrQueueNotFound (errors.Is) if the queue does not
// exist.
func (i *Inspector) ListPendingTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStatePending, "", opts)
}

// ListActiveTasks returns the active tasks of a queue, oldest first.
func (i *Inspector) ListActiveTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateActive, "", opts)
}

// ListScheduledTasks returns the scheduled tasks of a queue by NextProcessAt.
func (i *Inspector) ListScheduledTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateScheduled, "", opts)
}

// ListRetryTasks returns the tasks in retry of a queue by NextProcessAt.
func (i *Inspector) ListRetryTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateRetry, "", opts)
}

// ListArchivedTasks returns the archived tasks of a queue, oldest first, or newest first with
// NewestFirst.
func (i *Inspector) ListArchivedTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateArchived, "", opts)
}

// ListCompletedTasks returns the completed tasks of a queue by expiry (CompletedAt plus Retention),
// or in reverse with NewestFirst.
func (i *Inspector) ListCompletedTasks(queue string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateCompleted, "", opts)
}

// ListAggregatingTasks returns the tasks of a group, oldest first, without those that are being
// aggregated.
func (i *Inspector) ListAggregatingTasks(queue, group string, opts ...ListOption) ([]*TaskInfo, error) {
	return i.listTasks(queue, TaskStateAggregating, group, opts)
}

func (i *Inspector) listTasks(queue string, state TaskState, group string, opts []ListOption) ([]*TaskInfo, error) {
	if err := validQueue(queue, queueNotFoundText); err != nil {
		return nil, err
	}
	w := windowOf(opts)
	var found []*inspect.TaskInfo
	var err error
	if w.all {
		found, err = i.inspector.ListAllTasks(i.ctx, queue, wire.State(state), group, w.newest)
	} else {
		found, err = i.inspector.ListTasks(i.ctx, queue, wire.State(state), group, w.offset, w.limit, w.newest)
	}
	if err == nil && len(found) == 0 {
		return nil, i.mustExist(i.ctx, queue, queueNotFoundText)
	}
	return converted(found, err, listedTask)
}
