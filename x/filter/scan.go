package filter

import (
	"context"
	"errors"
	"iter"

	"github.com/asynq-go/asynq"
)

// AllStates are the states of a task, in the order in which a task may go through them.
var AllStates = []asynq.TaskState{
	asynq.TaskStateScheduled, asynq.TaskStateAggregating, asynq.TaskStatePending, asynq.TaskStateActive,
	asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted,
}

// Scan is a search through queues and states.
type Scan struct {
	Filter *Filter
	Queues []string          // empty: all that there are
	States []asynq.TaskState // empty: AllStates
	Group  string            // only of aggregating tasks; empty: all groups

	// MaxScan bounds how many tasks are looked at in all. Zero means no bound.
	MaxScan int

	// Progress is called, if it is set, after each call of Redis.
	Progress func(Progress)
}

// Progress is how far a search has come.
type Progress struct {
	Queue  string
	State  asynq.TaskState
	Looked int // tasks looked at so far, in all queues and states
	Found  int // those of them that the filter admits
}

// Tasks searches, and yields what the filter admits, queue by queue and state by state; which of these cannot hold such a task it
// does not look at. It needs 10 to 20 bytes of memory for each pending, active or aggregating task of one queue.
//
// An error is yielded without a task. That of one queue does not end the search in others; ErrScanLimit (errors.Is) and the end of ctx
// do. A queue that goes meanwhile is passed over.
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
		for _, queue := range queues {
			for _, state := range s.states() {
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
				break // the other states of the queue would meet the same error
			}
		}
	}
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

// errStopped says that the caller has had enough.
var errStopped = errors.New("stopped")

// one searches in one queue and state.
func (s Scan) one(ctx context.Context, inspector *asynq.Inspector, p *Progress, yield func(*asynq.TaskInfo) bool) error {
	f := s.Filter.TaskFilter()
	if p.State == asynq.TaskStateAggregating {
		f.Group = s.Group
	}
	before := p.Looked
	if s.MaxScan > 0 {
		if f.MaxScan = s.MaxScan - before; f.MaxScan <= 0 {
			return asynq.ErrScanLimit
		}
	}
	f.Looked = func(n int) {
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
