package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

func newQueuePause(a *app) *cobra.Command {
	return newQueueSwitch(a, "pause QUEUE…", "Pause queues: servers stop taking their tasks", "is already paused", true, (*asynq.Inspector).PauseQueue)
}

func newQueueResume(a *app) *cobra.Command {
	cmd := newQueueSwitch(a, "resume QUEUE…", "Resume paused queues", "is not paused", false, (*asynq.Inspector).UnpauseQueue)
	cmd.Aliases = []string{"unpause"}
	return cmd
}

// newQueueSwitch returns a command that pauses or resumes queues. It is idempotent: a queue that is
// already in the desired state is not an error. An unknown queue is one, since its name is probably
// mistyped.
func newQueueSwitch(a *app, use, short, already string, pause bool, set func(*asynq.Inspector, string) error) *cobra.Command {
	return &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              argsFrom(1, -1),
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
					a.printErrf("queue %q %s", queue, already)
					return nil
				}
				if err := set(i, queue); err != nil {
					return err
				}
				if pause {
					a.printErrf("queue %q paused", queue)
				} else {
					a.printErrf("queue %q resumed", queue)
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
		Short:             "Remove queues and all their data",
		Long:              "Remove queues and all their data. A queue that has tasks is removed only with --force, after confirmation.",
		Args:              argsFrom(1, -1),
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
	cmd.Flags().BoolP("force", "f", false, "remove the queues even if they have tasks")
	addBulk(cmd)
	return cmd
}

func (a *app) removeQueue(cmd *cobra.Command, i *asynq.Inspector, queue string, force bool) error {
	q, err := i.WithMemorySamples(0).GetQueueInfo(queue)
	if err != nil {
		return inQueue(queue, err)
	}
	tasks := q.Size
	if tasks > 0 && !force {
		return fmt.Errorf("%w: %q has %s: use --force to remove them too", asynq.ErrQueueNotEmpty, queue, plural(tasks, "task"))
	}
	if tasks > 0 || a.dryRun(cmd) || a.protected() { // removing an empty queue needs no confirmation
		ok, err := a.confirm(cmd, "remove queue %q and its %s", queue, plural(tasks, "task"))
		if !ok || err != nil {
			return err
		}
	}
	if err := i.DeleteQueue(queue, force); err != nil {
		if errors.Is(err, asynq.ErrQueueNotEmpty) && !force {
			return fmt.Errorf("%w: tasks were enqueued in the meantime", err)
		}
		return inQueue(queue, err)
	}
	a.printErrf("queue %q and its %s removed", queue, plural(tasks, "task"))
	return nil
}

// plural formats a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%s %ss", out.Number(n), thing)
}
