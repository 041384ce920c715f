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

	// Err says why there is none. It is ErrTaskNotFound (errors.Is) if there is no such task, or no such queue.
	Err error
}

// TaskStates tells the states of tasks, of one queue or of several, in the order of the names. It is for those who wait for the ends of
// many tasks: 500 of them cost one round trip and as many of the cheapest commands, without payloads and results, which GetTaskInfo
// tells. On a Cluster each node is asked for its own. One task's error leaves the others alone.
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
