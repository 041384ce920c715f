// Package search looks for tasks through queues and states, in short parts that go on where the one before ended.
package search

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

// Search is where tasks are looked for, and which.
type Search struct {
	Queues []string          // empty: all
	States []asynq.TaskState // empty: all
	Group  string            // only of aggregating tasks; empty: all
	Filter *filter.Filter

	// Seen is the task as the filter sees it; nil: as it is. It must not change the task.
	Seen func(*asynq.TaskInfo) *asynq.TaskInfo
}

// Part is what one call has found.
type Part struct {
	Tasks  []*asynq.TaskInfo // nil from Each
	Found  int               // tasks found
	Next   string            // where the next part goes on; empty: there is nothing behind this one
	Looked int               // tasks looked at for this part
	Total  int               // tasks that there are to look at in all parts, as of now
	Errors []QueueError
}

// QueueError says that a queue could not be searched.
type QueueError struct {
	Queue string
	Err   error
}

// Bounds are those of one part. A part ends at the first that is reached, but for what one call of Redis brings.
type Bounds struct {
	Found  int           // tasks found
	Looked int           // tasks looked at
	Time   time.Duration // 0: no bound
}

// stride is how many tasks are looked at before the clock is.
const stride = 1000

// held bounds the tasks that one call returns: each may have a payload of megabytes.
const held = 50

// spot is where a search goes on.
type spot struct {
	Of    uint64 `json:"o"` // a hash of what is searched for
	Queue []byte `json:"q"`
	State int    `json:"s"`
	After string `json:"a"` // the cursor within the queue and state
}

func (s *Search) hash() uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q %v %q %q", s.Queues, s.States, s.Group, s.Filter.String()) // a hash takes all
	return h.Sum64()
}

func (p spot) String() string {
	text, _ := json.Marshal(p) // there is nothing in it that could fail
	return base64.RawURLEncoding.EncodeToString(text)
}

func (s *Search) spot(cursor string) (p spot, err error) {
	if cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil || p.Of != s.hash() || !slices.Contains(s.states(), asynq.TaskState(p.State)) {
		return p, asynq.ErrCursor
	}
	return p, nil
}

func (s *Search) states() []asynq.TaskState {
	if len(s.States) == 0 {
		return filter.AllStates
	}
	return s.States
}

// TaskFilter is the filter for tasks in a state, as the Inspector takes it.
func (s *Search) TaskFilter(state asynq.TaskState) asynq.TaskFilter {
	f := s.Filter.TaskFilter()
	if state == asynq.TaskStateAggregating {
		f.Group = s.Group
	}
	if match := f.Match; match != nil && s.Seen != nil {
		f.Match = func(t *asynq.TaskInfo) bool { return match(s.Seen(t)) }
	}
	return f
}

// Place is a queue and a state to look at.
type Place struct {
	Queue string
	State asynq.TaskState
	N     int // tasks that are there, as of now
}

// Places are those that may hold what is searched for: queue by queue in the order of infos, and state by state.
func (s *Search) Places(infos []asynq.QueueInfoResult) (places []Place, broken []QueueError) {
	for _, q := range infos {
		switch {
		case !s.Filter.MayMatch(q.Queue, 0):
			continue
		case q.Err != nil:
			broken = append(broken, QueueError{q.Queue, q.Err})
			continue
		}
		for _, state := range s.states() {
			if n := CountOf(q.Info, state); n > 0 && s.Filter.MayMatch(q.Queue, state) {
				places = append(places, Place{q.Queue, state, n})
			}
		}
	}
	return places, broken
}

// Part searches on from a cursor, as Each does, and returns the tasks that it finds.
func (s *Search) Part(ctx context.Context, i *asynq.Inspector, cursor string, most Bounds) (*Part, error) {
	var tasks []*asynq.TaskInfo
	part, err := s.Each(ctx, i, cursor, most, func(t *asynq.TaskInfo) { tasks = append(tasks, t) })
	if err != nil {
		return nil, err
	}
	part.Tasks = tasks
	return part, nil
}

// Each searches on from a cursor, and calls do with each task that it finds; an empty cursor is the beginning. The error is asynq.ErrCursor if the cursor is not one of this search, or
// what Redis said; where only some queues cannot be searched, the part tells.
func (s *Search) Each(ctx context.Context, i *asynq.Inspector, cursor string, most Bounds, do func(*asynq.TaskInfo)) (*Part, error) {
	at, err := s.spot(cursor)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	infos, err := i.WithMemorySamples(0).QueueInfos(ctx, s.Queues...)
	if err != nil {
		return nil, err
	}
	places, broken := s.Places(infos)
	part := &Part{Errors: broken}
	for _, p := range places {
		part.Total += p.N
	}
	resumed := cursor == ""
	for _, p := range places {
		after := ""
		if !resumed { // the place may be empty by now: then those behind it are next
			order := slices.Index(s.states(), p.State) - slices.Index(s.states(), asynq.TaskState(at.State))
			if p.Queue < string(at.Queue) || p.Queue == string(at.Queue) && order < 0 {
				continue
			}
			if p.Queue == string(at.Queue) && order == 0 {
				after = at.After
			}
			resumed = true
		}
		for more := true; more; {
			late := most.Time > 0 && part.Looked > 0 && time.Since(began) > most.Time
			if part.Found >= most.Found || part.Looked >= most.Looked || late {
				part.Next = spot{Of: s.hash(), Queue: []byte(p.Queue), State: int(p.State), After: after}.String()
				return part, nil
			}
			f := s.TaskFilter(p.State)
			f.MaxScan = min(stride, most.Looked-part.Looked)
			asked, n := 0, min(most.Found-part.Found, held)
			if match := f.Match; match != nil {
				f.Match = func(t *asynq.TaskInfo) bool { asked++; return match(t) }
			}
			page, err := i.TasksAfter(ctx, p.Queue, p.State, f, after, n)
			switch {
			case errors.Is(err, asynq.ErrQueueNotFound): // it has gone meanwhile
				more = false
			case errors.Is(err, asynq.ErrCursor) || ctx.Err() != nil:
				return nil, err
			case err != nil:
				part.Errors = append(part.Errors, QueueError{p.Queue, err})
				more = false
			default:
				looked := page.Looked
				if len(page.Tasks) == n && !s.Filter.ByAge() { // those behind the last one are looked at again
					looked = max(asked, n)
				}
				for _, t := range page.Tasks {
					do(t)
				}
				part.Found, part.Looked = part.Found+len(page.Tasks), part.Looked+looked
				after, more = page.Next, page.Next != ""
			}
		}
	}
	return part, nil
}

// CountOf is how many tasks of a queue are in a state.
func CountOf(q *asynq.QueueInfo, state asynq.TaskState) int {
	switch state {
	case asynq.TaskStateActive:
		return q.Active
	case asynq.TaskStatePending:
		return q.Pending
	case asynq.TaskStateScheduled:
		return q.Scheduled
	case asynq.TaskStateRetry:
		return q.Retry
	case asynq.TaskStateArchived:
		return q.Archived
	case asynq.TaskStateCompleted:
		return q.Completed
	default:
		return q.Aggregating
	}
}
