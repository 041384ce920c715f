package dash

import "github.com/asynq-go/asynq"

// view is a kind of page.
type view int

const (
	viewQueues view = iota
	viewTasks
	viewGroups
	viewServers
	viewSchedulers
	viewErrors
	tabs // the following views are opened from other views

	viewTask = tabs + iota
	viewEntry
	viewError
	viewCause
	viewHistory
	viewPartitions
	viewFlows
	viewFlow
)

var tabNames = [tabs]string{"Queues", "Tasks", "Groups", "Servers", "Schedulers", "Errors"}

// page is a view with its subject and its UI state.
type page struct {
	view  view
	queue string
	state asynq.TaskState
	group string
	// id is the ID of the task, the scheduler entry, the kind of error, the cause or the flow.
	id string
	// typename is the task type of a history; nil means all types.
	typename *string
	span     int // of a history, an index of historySpans
	// number is the page number in a list of tasks or flows, starting at 0.
	number int
	filter string
	// reverse lists tasks in the opposite order.
	reverse bool

	// sortBy is the title of the column that sorts the rows; "" means the order of the page.
	sortBy  string
	falling bool

	// key and row are the position of the cursor: the row with the key if it exists, otherwise the
	// row with this index.
	key string
	row int
	// top is the first visible row or line.
	top int
}

// query describes the data that a page needs.
type query struct {
	view   view
	queue  string
	state  asynq.TaskState
	group  string
	id     string
	number int
	filter string

	reverse bool // of tasks

	// The following fields are of a history.
	ofType   bool
	typename string
	span     int
}

func (p *page) query() query {
	q := query{view: p.view, queue: p.queue, state: p.state, group: p.group, id: p.id, number: p.number}
	switch p.view {
	case viewTasks:
		q.filter, q.reverse = p.filter, p.reverse // other views are filtered on the screen
	case viewError:
		q.view, q.id = viewErrors, ""
	case viewHistory:
		q.span = p.span
		if p.typename != nil {
			q.ofType, q.typename = true, *p.typename
		}
	}
	return q
}

// states are the task states in display order.
var states = []asynq.TaskState{
	asynq.TaskStatePending, asynq.TaskStateActive, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived,
	asynq.TaskStateCompleted, asynq.TaskStateAggregating,
}

func count(q *asynq.QueueInfo, s asynq.TaskState) int {
	switch s {
	case asynq.TaskStatePending:
		return q.Pending
	case asynq.TaskStateActive:
		return q.Active
	case asynq.TaskStateScheduled:
		return q.Scheduled
	case asynq.TaskStateRetry:
		return q.Retry
	case asynq.TaskStateArchived:
		return q.Archived
	case asynq.TaskStateCompleted:
		return q.Completed
	case asynq.TaskStateAggregating:
		return q.Aggregating
	default:
		return 0
	}
}
