package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
)

// newTaskChange returns a command that changes tasks by ID.
func newTaskChange(a *app, use, short, done string, change func(cmd *cobra.Command, i *asynq.Inspector, queue, id string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use + " ID...",
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachTask(cmd, args, func(i *asynq.Inspector, t asynq.TaskRef) error {
				err := change(cmd, i, t.Queue, t.ID)
				if err == nil {
					a.printErrf("task %q of queue %q %s", t.ID, t.Queue, done)
				}
				return err
			})
		},
	}
	addTaskID(a, cmd)
	return cmd
}

func newTaskRun(a *app) *cobra.Command {
	return newTaskChange(a, "run", "Run scheduled, retry, archived, completed or aggregating tasks now", "moved to pending",
		func(_ *cobra.Command, i *asynq.Inspector, queue, id string) error { return i.RunTask(queue, id) })
}

func newTaskDelete(a *app) *cobra.Command {
	cmd := newTaskChange(a, "delete", "Delete tasks that are not active", "deleted",
		func(_ *cobra.Command, i *asynq.Inspector, queue, id string) error { return i.DeleteTask(queue, id) })
	cmd.Aliases = []string{"rm", "remove"}
	return cmd
}

func newTaskReschedule(a *app) *cobra.Command {
	cmd := newTaskChange(a, "reschedule", "Change the time at which inactive tasks run", "rescheduled",
		func(cmd *cobra.Command, i *asynq.Inspector, queue, id string) error {
			at, ok, err := processAt(cmd)
			if err != nil {
				return err
			}
			if !ok {
				return usage("missing time: use --process-in or --process-at")
			}
			return i.RescheduleTask(cmd.Context(), queue, id, at)
		})
	addProcessAt(cmd)
	return cmd
}

func newTaskUpdatePayload(a *app) *cobra.Command {
	var payload []byte
	cmd := newTaskChange(a, "update-payload", "Replace the payload of a scheduled task", "updated",
		func(_ *cobra.Command, i *asynq.Inspector, queue, id string) error {
			return i.UpdateTaskPayload(queue, id, payload)
		})
	cmd.Flags().StringP("payload", "l", "", "new payload: text, @FILE, or - for standard input")
	_ = cmd.MarkFlagRequired("payload")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		value, _ := cmd.Flags().GetString("payload")
		if payload, err = a.readPayload(value); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

func newTaskCancel(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID...",
		Short: "Cancel active tasks",
		Long: `Cancel active tasks: send a cancellation to all servers, which cancel the context of the handler. A
canceled task is retried, unless --archive or --delete is given.

With --queue, the command fails if a task is not active in that queue. Without it, the command cannot
check whether the task exists.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := a.taskIDs(cmd, args)
			if err != nil {
				return err
			}
			archive, _ := cmd.Flags().GetBool("archive")
			remove, _ := cmd.Flags().GetBool("delete")
			if archive && remove {
				return usage("--archive and --delete are mutually exclusive")
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			cancel := func(_ context.Context, id string) error { return i.CancelProcessing(id) }
			if archive {
				cancel = i.CancelAndArchive
			} else if remove {
				cancel = i.CancelAndDelete
			}
			return a.eachArg(ids, func(id string) error {
				if cmd.Flags().Changed("queue") {
					queue, _ := cmd.Flags().GetString("queue")
					t, err := i.GetTaskInfo(queue, id)
					if err != nil {
						return err
					}
					if t.State != asynq.TaskStateActive {
						return fmt.Errorf("cannot cancel task %q of queue %q: it is %v, not active", id, queue, t.State)
					}
				}
				if err := cancel(cmd.Context(), id); err != nil {
					return err
				}
				a.printErrf("cancellation of task %q sent to all servers", id)
				return nil
			})
		},
	}
	cmd.Flags().StringP("queue", "q", "", "queue of the tasks")
	cmd.Flags().StringSliceP("id", "i", nil, "IDs of the tasks; they may also be arguments, or - for standard input")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
	cmd.ValidArgsFunction = a.taskNames
	cmd.Flags().Bool("archive", false, "archive the task once its handler returns an error")
	cmd.Flags().Bool("delete", false, "delete the task once its handler returns an error")
	return cmd
}

// addProcessAt adds the flags for the time at which a task runs.
func addProcessAt(cmd *cobra.Command) {
	cmd.Flags().Duration("process-in", 0, "delay before the task runs, for example 90s or 1h30m")
	cmd.Flags().String("process-at", "", "time at which the task runs: 2026-01-31T15:00:00Z, '2026-01-31 15:00:00' (local time), or Unix seconds")
}

// processAt reads the flags of addProcessAt. It returns false if neither is set.
func processAt(cmd *cobra.Command) (at time.Time, ok bool, err error) {
	in, then := cmd.Flags().Changed("process-in"), cmd.Flags().Changed("process-at")
	switch {
	case in && then:
		return at, false, usage("--process-in and --process-at are mutually exclusive")
	case in:
		d, _ := cmd.Flags().GetDuration("process-in")
		return time.Now().Add(d), true, nil
	case then:
		text, _ := cmd.Flags().GetString("process-at")
		if at, err = parseTime(text); err != nil {
			return at, false, usage("--process-at: %w", err)
		}
		return at, true, nil
	}
	return at, false, nil
}

// parseTime parses a time in one of several common formats.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	if t, err := time.Parse(time.UnixDate, text); err == nil {
		return t, nil
	}
	var seconds int64
	if n, err := fmt.Sscanf(text+"\n", "%d\n", &seconds); n == 1 && err == nil {
		return time.Unix(seconds, 0), nil
	}
	return time.Time{}, errors.New("invalid time: use 2026-01-31T15:00:00Z, '2026-01-31 15:00:00' (local time), or Unix seconds")
}
