package asynq

import (
	"context"
	"errors"
	"fmt"

	"github.com/asynq-go/asynq/internal/rdb"
)

// TaskRef names a task: IDs are unique in a queue only.
type TaskRef struct{ Queue, ID string }

// TaskStateResult is what TaskStates tells of one task: either State or Err is set.
type TaskStateResult struct {
	// State is the state of the task.
	State TaskState

	// Err says why there is none: ErrTaskNotFound (errors.Is) if there is no such task, or no such queue; else the error of
	// Redis, or of the ctx.
	Err error
}

// TaskStates tells the states of any number of tasks, of one queue or of several: one result for each name, in the order of the names. It
// is for those who wait for the ends of many tasks: each costs Redis one HGET, and 500 of them one round trip (on a Cluster, one for
// each node). GetTaskInfo tells the rest of a task. What is wrong with one task leaves the others alone.
//
// It returns when ctx ends; no state is known then, and all errors are that of ctx.
func (i *Inspector) TaskStates(ctx context.Context, tasks ...TaskRef) []TaskStateResult {
	type answer struct {
		states []TaskState
		errs   []error
	}
	results := make([]TaskStateResult, len(tasks))
	if ctx == nil {
		for n := range results {
			results[n].Err = errNilContext
		}
		return results
	}
	a, err := until(ctx, func() (a answer, _ error) {
		names := make([]rdb.TaskName, len(tasks))
		for n, t := range tasks {
			names[n] = rdb.TaskName(t)
		}
		states, errs := i.broker.TaskStates(ctx, names)
		a = answer{make([]TaskState, len(tasks)), errs}
		for n, s := range states {
			a.states[n] = TaskState(s)
		}
		return a, nil
	})
	for n, t := range tasks {
		switch {
		case err != nil:
			results[n].Err = err
		case errors.Is(a.errs[n], rdb.ErrTaskGone):
			results[n].Err = fmt.Errorf("asynq: %w: %q in queue %q", ErrTaskNotFound, t.ID, t.Queue)
		case a.errs[n] != nil:
			results[n].Err = brokerError(a.errs[n])
		default:
			results[n].State = a.states[n]
		}
	}
	return results
}
