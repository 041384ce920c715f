package apiv2

import (
	"slices"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/search"
)

// TaskList is a part of what a search finds.
type TaskList struct {
	Items    []*Task      `json:"items"`
	Next     *string      `json:"next" doc:"The cursor of the next part; null where there is none. It goes on although items is empty: this call has looked at as many tasks as it may."`
	Looked   int          `json:"looked" doc:"How many tasks were looked at for this part."`
	Complete bool         `json:"complete" doc:"There is nothing behind this part."`
	Errors   []QueueError `json:"errors" doc:"Queues that could not be searched."`
}

// QueueError says that a queue could not be asked.
type QueueError struct {
	Queue  string `json:"queue"`
	Detail string `json:"detail"`
}

// search reads the parameters filter, queue, state and group.
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
				return nil, badParam("group", "only aggregating tasks are in a group: leave state out")
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
	most := search.Bounds{Found: c.num("limit"), Looked: c.num("max_scan")}
	part, err := s.Each(c.r.Context(), c.api.Inspector, c.query.Get("cursor"), most, func(t *asynq.TaskInfo) {
		list.Items = append(list.Items, c.newTask(t, true))
	})
	if err != nil {
		return nil, err
	}
	if c.queue() != "" && len(part.Errors) > 0 {
		return nil, part.Errors[0].Err
	}
	list.Looked, list.Complete, list.Errors = part.Looked, part.Next == "", queueErrors(part)
	if part.Next != "" {
		list.Next = &part.Next
	}
	return list, nil
}

// queueErrors are the queues that could not be searched.
func queueErrors(part *search.Part) []QueueError {
	list := make([]QueueError, len(part.Errors))
	for n, e := range part.Errors {
		list[n] = QueueError{e.Queue, e.Err.Error()}
	}
	return list
}
