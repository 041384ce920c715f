package apiv2

import (
	"slices"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/search"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// TaskList is a page of tasks.
type TaskList struct {
	Items    []*Task      `json:"items"`
	Next     *string      `json:"next" doc:"The cursor of the next page. null: there are no more tasks. A page may have a cursor and no items if the scan limit was reached."`
	Scanned  int          `json:"looked" doc:"The number of tasks scanned for this page."`
	Complete bool         `json:"complete" doc:"This is the last page."`
	Errors   []QueueError `json:"errors" doc:"The queues that could not be read."`
}

// QueueError is the error of a queue that could not be read.
type QueueError struct {
	Queue  string `json:"queue"`
	Detail string `json:"detail"`
}

// search parses the parameters filter, queue, state and group.
func (c *call) search() (*search.Search, error) {
	s := &search.Search{States: filter.AllStates, Seen: c.api.Redact.Task}
	var err error
	if s.Filter, err = filter.Parse(c.query.Get("filter")); err != nil {
		return nil, badParam("filter", "%v", err)
	}
	if q := c.queue(); q != "" {
		s.Queues = []string{q}
	} else if slices.ContainsFunc(c.route.params, func(p param) bool { return p.name == "queue" }) {
		s.Queues = slices.Compact(slices.Sorted(slices.Values(c.strs("queue"))))
	}
	if names := c.strs("state"); len(names) > 0 {
		s.States = nil
		for _, state := range filter.AllStates {
			if slices.Contains(names, state.String()) {
				s.States = append(s.States, state)
			}
		}
	}
	if slices.ContainsFunc(c.route.params, func(p param) bool { return p.name == "group" }) {
		if s.Group = c.query.Get("group"); s.Group != "" {
			if c.has("state") && !slices.Equal(s.States, []asynq.TaskState{asynq.TaskStateAggregating}) {
				return nil, badParam("group", "only aggregating tasks have a group: omit state")
			}
			s.States = []asynq.TaskState{asynq.TaskStateAggregating}
		}
	}
	return s, nil
}

func (c *call) listTasks() (any, error) {
	queues := c.query["queue"]
	if c.queue() != "" {
		queues = []string{c.queue()}
	}
	if err := c.viewQueues(queues); err != nil {
		return nil, err
	}
	s, err := c.search()
	if err != nil {
		return nil, err
	}
	list := TaskList{Items: []*Task{}}
	most := search.Bounds{Found: c.num("limit"), Scanned: c.num("max_scan")}
	part, err := s.Each(c.r.Context(), c.api.Inspector, c.query.Get("cursor"), most, func(t *asynq.TaskInfo) {
		list.Items = append(list.Items, c.newTask(t, true))
	})
	if err != nil {
		return nil, err
	}
	if c.queue() != "" && len(part.Errors) > 0 {
		return nil, part.Errors[0].Err
	}
	list.Scanned, list.Complete, list.Errors = part.Scanned, part.Next == "", queueErrors(part)
	if part.Next != "" {
		list.Next = &part.Next
	}
	return list, nil
}

// queueErrors returns the queues that could not be searched.
func queueErrors(part *search.Part) []QueueError {
	list := make([]QueueError, len(part.Errors))
	for n, e := range part.Errors {
		list[n] = QueueError{e.Queue, show.RedisError(e.Err)}
	}
	return list
}
