package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/clone"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newTaskMove(a *app) *cobra.Command {
	cmd := newTaskChange(a, "move", "Move waiting or archived tasks to another queue", "moved",
		func(cmd *cobra.Command, i *asynq.Inspector, queue, id string) error {
			to, _ := cmd.Flags().GetString("to")
			_, err := i.UpdateTask(cmd.Context(), queue, id, nil, asynq.Queue(to))
			return err
		})
	cmd.Long = `Move tasks that are pending, scheduled, in retry, archived or in a group to another queue, behind its
tasks, with their uniqueness locks. A task keeps its ID and state. It is not possible on a Redis
Cluster: use task copy and task delete there.

` + findingTasks
	cmd.Flags().String("to", "", "queue to move the tasks to")
	_ = cmd.MarkFlagRequired("to")
	_ = cmd.RegisterFlagCompletionFunc("to", a.queueNames)
	return cmd
}

func newTaskCopy(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "copy ID...",
		Short: "Enqueue copies of tasks with new IDs",
		Long: `Enqueue copies of tasks, in any state, with new IDs, and print the IDs to standard output. A copy has
the type, payload, headers, maximum number of retries, timeout and retention of the task, its
deadline unless that has passed, and no uniqueness lock, group or expiry.`,
		Example: "  asynq task copy 4f3c… --to debug\n  asynq task copy 4f3c… --process-in 1h",
		RunE: func(cmd *cobra.Command, args []string) error {
			at, later, err := processAt(cmd)
			if err != nil {
				return err
			}
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			return a.eachTask(cmd, args, func(i *asynq.Inspector, ref asynq.TaskRef) error {
				t, err := i.GetTaskInfo(ref.Queue, ref.ID)
				if err != nil {
					return err
				}
				var opts []asynq.Option
				if to, _ := cmd.Flags().GetString("to"); to != "" {
					opts = append(opts, asynq.Queue(to))
				}
				if later {
					opts = append(opts, asynq.ProcessAt(at))
				}
				info, err := clone.Enqueue(cmd.Context(), c, t, opts...)
				if err != nil {
					return err
				}
				a.printErrf("task %q of queue %q copied to queue %q, %v", t.ID, t.Queue, info.Queue, info.State)
				_, err = fmt.Fprintln(a.Out, out.Name(info.ID))
				return err
			})
		},
	}
	addTaskID(a, cmd)
	cmd.Flags().String("to", "", "queue of the copies (default the queue of the task)")
	_ = cmd.RegisterFlagCompletionFunc("to", a.queueNames)
	addProcessAt(cmd)
	return cmd
}
