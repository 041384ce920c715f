// Package search searches queues and states for tasks, in short parts that each continue where the
// previous one ended.
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

// Search specifies the tasks to search for.
type Search struct {
	Queues []string          // empty: all
	States []asynq.TaskState // empty: all
	Group  string            // only for aggregating tasks; empty: all
	Filter *filter.Filter

	// Seen returns a task as the filter may see it, such as redacted. It must not modify the task.
	// If nil, the filter sees the task itself.
	Seen func(*asynq.TaskInfo) *asynq.TaskInfo
}

// Part is the result of one call.
type Part struct {
	Tasks   []*asynq.TaskInfo // nil from Each
	Found   int               // matching tasks
	Next    string            // cursor of the next part; empty: this is the last part
	Scanned int               // tasks scanned for this part
	Total   int               // tasks to scan in all parts, as of now
	Errors  []QueueError
}

// QueueError is the error of a queue that could not be searched.
type QueueError struct {
	Queue string
	Err   error
}

// Bounds are the limits of one part. A part ends when it reaches the first of them, but may exceed
// it by the tasks of one call to Redis.
type Bounds struct {
	Found   int           // matching tasks
	Scanned int           // scanned tasks
	Time    time.Duration // 0: no limit
}

// stride is the number of tasks scanned between checks of the time.
const stride = 1000

// held bounds the tasks returned by one call to Redis, since each may have a payload of megabytes.
const held = 50

// spot is a decoded cursor.
type spot struct {
	Of    uint64 `json:"o"` // a hash of the search
	Queue []byte `json:"q"`
	State int    `json:"s"`
	After string `json:"a"` // the cursor within the queue and state
}

func (s *Search) hash() uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q %v %q %q", s.Queues, s.States, s.Group, s.Filter.String()) // writing to a hash cannot fail
	return h.Sum64()
}

func (p spot) String() string {
	text, _ := json.Marshal(p) // cannot fail: strings and numbers
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

// TaskFilter returns the filter for tasks in a state, for the Inspector.
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

// Place is a queue and a state to scan.
type Place struct {
	Queue string
	State asynq.TaskState
	N     int // number of tasks, as of now
}

// Places returns the places that may have matching tasks: by queue in the order of infos, then by
// state.
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

// Part continues the search from a cursor like Each, and returns the matching tasks.
func (s *Search) Part(ctx context.Context, i *asynq.Inspector, cursor string, most Bounds) (*Part, error) {
	var tasks []*asynq.TaskInfo
	part, err := s.Each(ctx, i, cursor, most, func(t *asynq.TaskInfo) { tasks = append(tasks, t) })
	if err != nil {
		return nil, err
	}
	part.Tasks = tasks
	return part, nil
}

// Each continues the search from a cursor, or starts it if the cursor is empty, and calls do with
// each matching task. The error is asynq.ErrCursor if the cursor is not from this search, or an
// error of Redis. If only some queues could not be read, the part has their errors.
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
		if !resumed { // the place is empty now: continue with the next one
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
			late := most.Time > 0 && part.Scanned > 0 && time.Since(began) > most.Time
			if part.Found >= most.Found || part.Scanned >= most.Scanned || late {
				part.Next = spot{Of: s.hash(), Queue: []byte(p.Queue), State: int(p.State), After: after}.String()
				return part, nil
			}
			f := s.TaskFilter(p.State)
			f.MaxScan = min(stride, most.Scanned-part.Scanned)
			asked, n := 0, min(most.Found-part.Found, held)
			if match := f.Match; match != nil {
				f.Match = func(t *asynq.TaskInfo) bool { asked++; return match(t) }
			}
			page, err := i.ListTasks(ctx, p.Queue, p.State, asynq.ListTasksOptions{Filter: f, Cursor: after, Limit: n})
			switch {
			case errors.Is(err, asynq.ErrQueueNotFound): // the queue was deleted in the meantime
				more = false
			case errors.Is(err, asynq.ErrCursor) || ctx.Err() != nil:
				return nil, err
			case err != nil:
				part.Errors = append(part.Errors, QueueError{p.Queue, err})
				more = false
			default:
				scanned := page.Scanned
				if len(page.Tasks) == n && !s.Filter.ByAge() { // the tasks after the last returned one are scanned again
					scanned = max(asked, n)
				}
				for _, t := range page.Tasks {
					do(t)
				}
				part.Found, part.Scanned = part.Found+len(page.Tasks), part.Scanned+scanned
				after, more = page.Next, page.Next != ""
			}
		}
	}
	return part, nil
}

// CountOf returns the number of tasks of a queue in a state.
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
