package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newTaskWait(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait ID...",
		Short: "Wait until tasks finish",
		Long: `Wait until tasks finish: until each is completed, archived or gone. The command prints a row for each
task as it finishes. A task is gone if it was deleted while the command waited: a task without
retention is deleted when it succeeds, and users can delete tasks too.

Exit codes: 0 all tasks completed or gone; 1 a task was archived, or the timeout expired; 3 a task did
not exist at the start.`,
		Example: "  asynq task wait -q mail 4f3c… --timeout 5m -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			every, _ := cmd.Flags().GetDuration("interval")
			limit, _ := cmd.Flags().GetDuration("timeout")
			if every < 10*time.Millisecond || limit < 0 {
				return usage("--interval must be at least 10ms, and --timeout must not be negative")
			}
			ids, err := a.taskIDs(cmd, args)
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			tasks := make([]asynq.TaskRef, len(ids))
			for n, id := range ids {
				if tasks[n], err = a.task(cmd, i, id); err != nil {
					return err
				}
			}
			return listAll(a, cmd, waitColumns, func(ctx context.Context) iter.Seq2[*waitRow, error] {
				return waitFor(ctx, i, tasks, every, limit)
			})
		},
	}
	addTaskID(a, cmd)
	addOutput(cmd)
	cmd.Flags().Duration("timeout", 0, "give up after this time (default never)")
	cmd.Flags().Duration("interval", 500*time.Millisecond, "poll interval")
	return cmd
}

// waitRow is a task that has finished.
type waitRow struct {
	ID           string `json:"id"`
	Queue        string `json:"queue"`
	State        string `json:"state"` // completed, archived or gone
	ErrorMessage string `json:"error_message"`
	Result       string `json:"result"`
	ResultBase64 string `json:"result_base64"`

	result []byte
}

var waitColumns = []out.Column[*waitRow]{
	{Head: "ID", Cell: func(r *waitRow) string { return r.ID }},
	{Head: "STATE", Cell: func(r *waitRow) string { return r.State }},
	{Head: "RESULT", Cell: func(r *waitRow) string { return clipped(brief(r.result)) }},
	{Head: "ERROR", Cell: func(r *waitRow) string { return clipped(r.ErrorMessage) }},
}

// waitFor yields tasks as they finish. It ends with an error if tasks were archived or the timeout
// expired.
func waitFor(ctx context.Context, i *asynq.Inspector, tasks []asynq.TaskRef, every, limit time.Duration) iter.Seq2[*waitRow, error] {
	return func(yield func(*waitRow, error) bool) {
		var over <-chan time.Time
		if limit > 0 {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			over = timer.C
		}
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		archived := 0
		seen := make(map[asynq.TaskRef]bool, len(tasks))
		for {
			var left []asynq.TaskRef
			for _, t := range tasks {
				row, err := ended(i, t, seen)
				switch {
				case err != nil:
					yield(nil, err)
					return
				case row == nil:
					left = append(left, t)
					continue
				case row.State == asynq.TaskStateArchived.String():
					archived++
				}
				if !yield(row, nil) {
					return
				}
			}
			if tasks = left; len(tasks) == 0 {
				if archived > 0 {
					yield(nil, fmt.Errorf("%s archived", counted(archived)))
				}
				return
			}
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case <-over:
				yield(nil, fmt.Errorf("%s not finished after %v: %q", counted(len(tasks)), limit, idsOf(tasks)))
				return
			case <-ticker.C:
			}
		}
	}
}

// ended returns the row of a finished task, or nil if the task has not finished.
func ended(i *asynq.Inspector, ref asynq.TaskRef, seen map[asynq.TaskRef]bool) (*waitRow, error) {
	t, err := i.GetTaskInfo(ref.Queue, ref.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) && seen[ref] {
		return &waitRow{ID: ref.ID, Queue: ref.Queue, State: "gone"}, nil
	}
	if err != nil {
		return nil, err
	}
	seen[ref] = true
	if t.State != asynq.TaskStateCompleted && t.State != asynq.TaskStateArchived {
		return nil, nil
	}
	row := &waitRow{ID: ref.ID, Queue: ref.Queue, State: t.State.String(), result: t.Result}
	if t.State == asynq.TaskStateArchived {
		row.ErrorMessage = t.LastErr
	}
	row.Result, row.ResultBase64 = textOrBase64(t.Result)
	return row, nil
}

func idsOf(tasks []asynq.TaskRef) []string {
	ids := make([]string, len(tasks))
	for n, t := range tasks {
		ids[n] = t.ID
	}
	return ids
}
