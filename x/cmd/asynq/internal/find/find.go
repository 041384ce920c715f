// Package find finds tasks by ID, or by the beginning of an ID, in any queue.
package find

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

// The limits of a search by prefix.
const (
	// MinPrefix is the minimum length of a prefix, in bytes.
	MinPrefix = 4
	// MaxScan is the maximum number of tasks that a search scans.
	MaxScan = 20_000
	// MaxCandidates is the maximum number of tasks that a search finds.
	MaxCandidates = 10
)

// Task is a task that was found.
type Task struct {
	Queue, ID string
	State     asynq.TaskState
}

// Result is the result of a search.
type Result struct {
	Tasks   []Task
	Exact   bool // the tasks have the ID, not only its beginning; they are in different queues
	Partial bool // a search by prefix that reached a limit: there may be more tasks
	Queues  int  // number of queues searched
}

// ByID finds the tasks with an ID in the queues, or in all queues if none is given. If there are
// none and prefix is set, it finds tasks whose ID begins with the text, if that has at least
// MinPrefix bytes.
func ByID(ctx context.Context, i *asynq.Inspector, queues []string, id string, prefix bool) (Result, error) {
	if len(queues) == 0 {
		var err error
		if queues, err = i.WithContext(ctx).Queues(); err != nil {
			return Result{}, err
		}
	}
	r := Result{Queues: len(queues), Exact: true}
	refs := make([]asynq.TaskRef, len(queues))
	for n, queue := range queues {
		refs[n] = asynq.TaskRef{Queue: queue, ID: id}
	}
	for n, s := range i.TaskStates(ctx, refs...) {
		switch {
		case s.Err == nil:
			r.Tasks = append(r.Tasks, Task{queues[n], id, s.State})
		case !errors.Is(s.Err, asynq.ErrTaskNotFound):
			return r, s.Err
		}
	}
	if len(r.Tasks) > 0 || !prefix || len(id) < MinPrefix {
		return r, nil
	}
	r.Exact = false
	err := r.scan(ctx, i, queues, id)
	return r, err
}

// scan adds the tasks whose ID begins with a prefix.
func (r *Result) scan(ctx context.Context, i *asynq.Inspector, queues []string, prefix string) error {
	scanned := 0
	for _, queue := range queues {
		for _, state := range filter.AllStates {
			if scanned >= MaxScan {
				r.Partial = true
				return nil
			}
			here := 0
			search := asynq.TaskFilter{
				MaxScan: MaxScan - scanned,
				Match:   func(t *asynq.TaskInfo) bool { return strings.HasPrefix(t.ID, prefix) },
				Scanned: func(n int) { here = n },
			}
			for t, err := range i.Tasks(ctx, queue, state, search) {
				switch {
				case errors.Is(err, asynq.ErrScanLimit):
					r.Partial = true
					return nil
				case errors.Is(err, asynq.ErrQueueNotFound):
				case err != nil:
					return err
				case len(r.Tasks) == MaxCandidates:
					r.Partial = true
					return nil
				default:
					r.add(Task{queue, t.ID, state})
				}
			}
			scanned += here
		}
	}
	return nil
}

// add adds a task, unless it has changed its state during the search.
func (r *Result) add(t Task) {
	for _, seen := range r.Tasks {
		if seen.Queue == t.Queue && seen.ID == t.ID {
			return
		}
	}
	r.Tasks = append(r.Tasks, t)
}

// Only returns the only task of the result. Otherwise it returns an error that says why there is
// none: a NotFoundError or an AmbiguousError.
func (r *Result) Only(id string) (Task, error) {
	switch {
	case len(r.Tasks) == 1 && !r.Partial:
		return r.Tasks[0], nil
	case len(r.Tasks) == 0:
		return Task{}, &NotFoundError{ID: id, Result: *r}
	}
	return Task{}, &AmbiguousError{ID: id, Result: *r}
}

// NotFoundError means that no task was found.
type NotFoundError struct {
	ID string
	Result
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("no task %q in %d queues", e.ID, e.Queues)
	if e.Queues == 1 {
		text = fmt.Sprintf("no task %q in 1 queue", e.ID)
	}
	switch {
	case e.Partial:
		text += fmt.Sprintf(", and none of the first %d tasks has an ID that begins with it", MaxScan)
	case !e.Exact:
		text += ", and no ID begins with it"
	}
	return text
}

// AmbiguousError means that several tasks were found, or that there may be more than one.
type AmbiguousError struct {
	ID string
	Result
}

func (e *AmbiguousError) Error() string {
	var b strings.Builder
	switch {
	case e.Exact:
		fmt.Fprintf(&b, "%d queues have a task %q: name the queue:", len(e.Tasks), e.ID)
	case len(e.Tasks) == 1:
		fmt.Fprintf(&b, "the search for IDs that begin with %q stopped after %d tasks: use the whole ID:", e.ID, MaxScan)
	default:
		fmt.Fprintf(&b, "several IDs begin with %q: use the whole ID:", e.ID)
	}
	for _, t := range e.Tasks {
		fmt.Fprintf(&b, "\n  %q of queue %q, %v", t.ID, t.Queue, t.State)
	}
	if e.Partial && len(e.Tasks) > 1 {
		b.WriteString("\n  and possibly more")
	}
	return b.String()
}
