package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
)

func newQueuePause(a *app) *cobra.Command {
	return newQueueSwitch(a, "pause QUEUE…", "Let no server take tasks of the queues", "is paused already", true, (*asynq.Inspector).PauseQueue)
}

func newQueueResume(a *app) *cobra.Command {
	cmd := newQueueSwitch(a, "resume QUEUE…", "Let servers take tasks of the queues again", "is not paused", false, (*asynq.Inspector).UnpauseQueue)
	cmd.Aliases = []string{"unpause"}
	return cmd
}

// newQueueSwitch makes a command that pauses queues, or ends that. That a queue is so already is no error: a script may be run twice. A
// name of no queue is one, as it is likely to be mistyped.
func newQueueSwitch(a *app, use, short, already string, pause bool, set func(*asynq.Inspector, string) error) *cobra.Command {
	return &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.queueNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return a.eachArg(args, func(queue string) error {
				q, err := i.WithMemorySamples(0).GetQueueInfo(queue)
				switch {
				case err != nil:
					return inQueue(queue, err)
				case q.Paused == pause:
					a.say("queue %q %s", queue, already)
					return nil
				}
				if err := set(i, queue); err != nil {
					return err
				}
				if pause {
					a.say("queue %q paused", queue)
				} else {
					a.say("queue %q resumed", queue)
				}
				return nil
			})
		},
	}
}

func newQueueRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "remove QUEUE…",
		Aliases:           []string{"rm", "delete"},
		Short:             "Remove queues with all that is kept of them",
		Long:              "Remove queues with all that is kept of them. A queue that holds tasks is removed only with --force, after a question.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.queueNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			force, _ := cmd.Flags().GetBool("force")
			return a.eachArg(args, func(queue string) error { return a.removeQueue(cmd, i, queue, force) })
		},
	}
	cmd.Flags().BoolP("force", "f", false, "remove the queues with the tasks that they hold")
	addBulk(cmd)
	return cmd
}

func (a *app) removeQueue(cmd *cobra.Command, i *asynq.Inspector, queue string, force bool) error {
	q, err := i.WithMemorySamples(0).GetQueueInfo(queue)
	if err != nil {
		return inQueue(queue, err)
	}
	tasks := q.Size + q.Completed
	if tasks > 0 && !force {
		return fmt.Errorf("%w: %q holds %s: --force removes them as well", asynq.ErrQueueNotEmpty, queue, plural(tasks, "task"))
	}
	if tasks > 0 || a.dryRun(cmd) { // an empty queue is no loss
		ok, err := a.confirm(cmd, "remove queue %q and %s", queue, plural(tasks, "task"))
		if !ok || err != nil {
			return err
		}
	}
	if err := i.DeleteQueue(queue, force); err != nil {
		if errors.Is(err, asynq.ErrQueueNotEmpty) && !force {
			return fmt.Errorf("%w: tasks have come meanwhile", err)
		}
		return inQueue(queue, err)
	}
	a.say("queue %q removed, with %s", queue, plural(tasks, "task"))
	return nil
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
