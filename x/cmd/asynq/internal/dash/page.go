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
	tabs // the views from here on are opened from another one

	viewTask = tabs + iota
	viewEntry
	viewError
)

var tabNames = [tabs]string{"Queues", "Tasks", "Groups", "Servers", "Schedulers", "Errors"}

// page is a view of something, with what the user did to it.
type page struct {
	view  view
	queue string
	state asynq.TaskState
	group string
	// id of the task or the scheduler's entry, or the key of the error group.
	id string
	// number of the page in a list of tasks, from 0 on.
	number int
	filter string

	// key and row are where the cursor is: on the row with the key as long as there is one, else on that number.
	key string
	row int
	// top is the first row or line that is shown.
	top int
}

// want is what of Redis a page needs.
type want struct {
	view   view
	queue  string
	state  asynq.TaskState
	group  string
	id     string
	number int
	filter string
}

func (p *page) want() want {
	w := want{view: p.view, queue: p.queue, state: p.state, group: p.group, id: p.id, number: p.number}
	switch p.view {
	case viewTasks:
		w.filter = p.filter // others are filtered on the screen
	case viewError:
		w.view, w.id = viewErrors, ""
	}
	return w
}

// states are the states of tasks in the order of the screen.
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
