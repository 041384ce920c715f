package filter

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/asynq-go/asynq"
)

// AllStates are the states of a task, in the order of a task's life.
var AllStates = []asynq.TaskState{
	asynq.TaskStateScheduled, asynq.TaskStateAggregating, asynq.TaskStatePending, asynq.TaskStateActive,
	asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted,
}

// Scan is a search in queues and states.
type Scan struct {
	Filter *Filter
	Queues []string          // empty: all queues
	States []asynq.TaskState // empty: AllStates
	Group  string            // only for aggregating tasks; empty: all groups

	// Reverse reverses the order of the queues, of the states, and of the tasks in each of them
	// (TaskFilter.Reverse).
	Reverse bool

	// MaxScan limits the total number of scanned tasks. Zero means no limit.
	MaxScan int

	// Progress is called after each call to Redis, if it is set.
	Progress func(Progress)
}

// Progress is the progress of a Scan.
type Progress struct {
	Queue  string
	State  asynq.TaskState
	Looked int // tasks scanned, in all queues and states
	Found  int // of these, tasks that the filter matches
}

// Tasks yields the tasks that match, queue by queue and state by state, each in the order of
// Inspector.Tasks. It skips queues and states that cannot have such tasks. It needs 10 to 20 bytes
// of memory for each pending, active or aggregating task of one queue.
//
// An error is yielded without a task. The error of a queue does not end the search in others;
// ErrScanLimit (use errors.Is) and the end of ctx do. A queue that is deleted during the search is
// skipped.
func (s Scan) Tasks(ctx context.Context, inspector *asynq.Inspector) iter.Seq2[*asynq.TaskInfo, error] {
	return func(yield func(*asynq.TaskInfo, error) bool) {
		queues, given := s.Queues, len(s.Queues) > 0
		if !given {
			var err error
			if queues, err = inspector.WithContext(ctx).Queues(); err != nil {
				yield(nil, err)
				return
			}
		}
		var p Progress
		for _, queue := range inOrder(queues, s.Reverse) {
			for _, state := range inOrder(s.states(), s.Reverse) {
				if !s.Filter.MayMatch(queue, state) {
					continue
				}
				p.Queue, p.State = queue, state
				err := s.one(ctx, inspector, &p, func(t *asynq.TaskInfo) bool { return yield(t, nil) })
				switch {
				case err == nil:
					continue
				case errors.Is(err, errStopped):
					return
				case errors.Is(err, asynq.ErrQueueNotFound) && !given:
				case ctx.Err() != nil || errors.Is(err, asynq.ErrScanLimit):
					yield(nil, err)
					return
				case !yield(nil, err):
					return
				}
				break // the other states of the queue would have the same error
			}
		}
	}
}

// inOrder yields the items in their order, or in reverse.
func inOrder[T any](items []T, reverse bool) []T {
	if reverse {
		items = slices.Clone(items)
		slices.Reverse(items)
	}
	return items
}

func (s Scan) states() []asynq.TaskState {
	if len(s.States) > 0 {
		return s.States
	}
	if s.Group != "" {
		return []asynq.TaskState{asynq.TaskStateAggregating}
	}
	return AllStates
}

// errStopped is the error after the caller stopped the iteration.
var errStopped = errors.New("stopped")

// one searches one queue and state.
func (s Scan) one(ctx context.Context, inspector *asynq.Inspector, p *Progress, yield func(*asynq.TaskInfo) bool) error {
	f := s.Filter.TaskFilter()
	if p.State == asynq.TaskStateAggregating {
		f.Group = s.Group
	}
	f.Reverse = s.Reverse
	before := p.Looked
	if s.MaxScan > 0 {
		if f.MaxScan = s.MaxScan - before; f.MaxScan <= 0 {
			return asynq.ErrScanLimit
		}
	}
	f.Scanned = func(n int) {
		p.Looked = before + n
		if s.Progress != nil {
			s.Progress(*p)
		}
	}
	for t, err := range inspector.Tasks(ctx, p.Queue, p.State, f) {
		if err != nil {
			return err
		}
		p.Found++
		if !yield(t) {
			return errStopped
		}
	}
	return nil
}
