package apiv2

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
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

// search is where tasks are looked for.
type search struct {
	queues []string // empty: all
	states []asynq.TaskState
	group  string
	filter *filter.Filter
}

// search reads the parameters filter, queue, state and group.
func (c *call) search() (*search, error) {
	s := &search{states: filter.AllStates}
	var err error
	if s.filter, err = filter.Parse(c.query.Get("filter")); err != nil {
		return nil, badParam("filter", "%v", err)
	}
	if q := c.queue(); q != "" {
		s.queues = []string{q}
	} else if slices.ContainsFunc(c.route.params, func(p param) bool { return p.name == "queue" }) {
		s.queues = slices.Compact(slices.Sorted(slices.Values(c.strs("queue"))))
	}
	if names := c.strs("state"); len(names) > 0 {
		s.states = nil
		for _, state := range filter.AllStates {
			if slices.Contains(names, state.String()) {
				s.states = append(s.states, state)
			}
		}
	}
	if slices.ContainsFunc(c.route.params, func(p param) bool { return p.name == "group" }) {
		if s.group = c.query.Get("group"); s.group != "" {
			if c.has("state") && !slices.Equal(s.states, []asynq.TaskState{asynq.TaskStateAggregating}) {
				return nil, badParam("group", "only aggregating tasks are in a group: leave state out")
			}
			s.states = []asynq.TaskState{asynq.TaskStateAggregating}
		}
	}
	return s, nil
}

// spot is where a search goes on.
type spot struct {
	Of    uint64 `json:"o"` // a hash of what is searched for
	Queue []byte `json:"q"`
	State int    `json:"s"`
	After string `json:"a"` // the cursor within the queue and state
}

func (s *search) hash() uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q %v %q %q", s.queues, s.states, s.group, s.filter.String())
	return h.Sum64()
}

func (p spot) String() string {
	text, _ := json.Marshal(p) // there is nothing in it that could fail
	return base64.RawURLEncoding.EncodeToString(text)
}

func (s *search) spot(cursor string) (p spot, err error) {
	if cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil || p.Of != s.hash() || !slices.Contains(s.states, asynq.TaskState(p.State)) {
		return p, asynq.ErrCursor
	}
	return p, nil
}

func countOf(info *asynq.QueueInfo, state asynq.TaskState) int {
	switch state {
	case asynq.TaskStateActive:
		return info.Active
	case asynq.TaskStatePending:
		return info.Pending
	case asynq.TaskStateScheduled:
		return info.Scheduled
	case asynq.TaskStateRetry:
		return info.Retry
	case asynq.TaskStateArchived:
		return info.Archived
	case asynq.TaskStateCompleted:
		return info.Completed
	default:
		return info.Aggregating
	}
}

// chunk bounds the tasks that are held at once: each may have a payload of megabytes.
const chunk = 50

// part looks at up to scan tasks from the cursor on, and calls take with up to n that the filter admits.
func (s *search) part(
	ctx context.Context, i *asynq.Inspector, cursor string, n, scan int, take func(*asynq.TaskInfo),
) (list *TaskList, err error) {
	at, err := s.spot(cursor)
	if err != nil {
		return nil, err
	}
	list = &TaskList{Items: []*Task{}, Errors: []QueueError{}}
	infos, err := i.WithMemorySamples(0).QueueInfos(ctx, s.queues...)
	if err != nil {
		return nil, err
	}
	found := 0
	next := func(queue string, state asynq.TaskState, after string) {
		text := spot{Of: s.hash(), Queue: []byte(queue), State: int(state), After: after}.String()
		list.Next = &text
	}
	for _, q := range infos {
		if q.Queue < string(at.Queue) || !s.filter.MayMatch(q.Queue, 0) {
			continue
		}
		resumed := cursor != "" && q.Queue == string(at.Queue)
		if q.Err != nil {
			list.Errors = append(list.Errors, QueueError{q.Queue, q.Err.Error()})
			continue
		}
		for _, state := range s.states {
			after := ""
			if resumed {
				if state != asynq.TaskState(at.State) {
					continue
				}
				after, resumed = at.After, false
			}
			if countOf(q.Info, state) == 0 || !s.filter.MayMatch(q.Queue, state) {
				continue
			}
			for more := true; more; {
				if found == n || list.Looked >= scan {
					next(q.Queue, state, after)
					return list, nil
				}
				f := s.filter.TaskFilter()
				f.MaxScan = scan - list.Looked
				if state == asynq.TaskStateAggregating {
					f.Group = s.group
				}
				page, err := i.TasksAfter(ctx, q.Queue, state, f, after, min(n-found, chunk))
				switch {
				case errors.Is(err, asynq.ErrQueueNotFound):
					more = false
				case errors.Is(err, asynq.ErrCursor) || ctx.Err() != nil:
					return nil, err
				case err != nil:
					list.Errors = append(list.Errors, QueueError{q.Queue, err.Error()})
					more = false
				default:
					for _, t := range page.Tasks {
						take(t)
					}
					found, list.Looked = found+len(page.Tasks), list.Looked+page.Looked
					after, more = page.Next, page.Next != ""
				}
			}
		}
	}
	list.Complete = true
	return list, nil
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
	items := []*Task{}
	list, err := s.part(c.r.Context(), c.api.Inspector, c.query.Get("cursor"), c.num("limit"), c.num("max_scan"), func(t *asynq.TaskInfo) {
		items = append(items, c.newTask(t, true))
	})
	if err != nil {
		return nil, err
	}
	if c.queue() != "" && len(list.Errors) > 0 {
		_, err := c.inspect().WithMemorySamples(0).GetQueueInfo(c.queue())
		if err == nil {
			err = errors.New(list.Errors[0].Detail)
		}
		return nil, err
	}
	list.Items = items
	return list, nil
}
