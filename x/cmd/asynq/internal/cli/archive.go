package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
)

// archiveLimit is the help text about the size of the archive.
var archiveLimit = fmt.Sprintf(`The archive of a queue keeps the newest tasks, %d unless its servers configure another limit. If
archiving would delete older tasks from it, the command changes nothing and fails unless --discard-oldest is given.`, asynq.ArchiveMaxTasks)

func addDiscard(cmd *cobra.Command) {
	cmd.Flags().Bool("discard-oldest", false, "allow deleting the oldest tasks of a full archive")
}

// mayDiscard reports whether --discard-oldest is set.
func mayDiscard(cmd *cobra.Command) bool {
	may, _ := cmd.Flags().GetBool("discard-oldest")
	return may
}

// discardRefused returns the error of a command that would delete tasks from an archive.
func discardRefused(what string) error {
	return usage("this would %s: nothing was changed; use --discard-oldest to allow it", what)
}

// discardText describes how many tasks are deleted from archives.
func discardText(n int) string { return fmt.Sprintf("delete %s from the archive", counted(n)) }

// discards counts the tasks that are deleted from archives if the given number of tasks per queue
// is archived.
func discards(ctx context.Context, i *asynq.Inspector, tasks map[string]int) (int, error) {
	total := 0
	for queue, n := range tasks {
		if n == 0 {
			continue
		}
		room, err := i.ArchiveRoom(ctx, queue)
		if err != nil {
			return 0, inQueue(queue, err)
		}
		total += max(n-room, 0)
	}
	return total, nil
}

// archiveLimits returns the limits of the archives of queues as text: "10000 tasks".
func archiveLimits(ctx context.Context, i *asynq.Inspector, queues []string) (string, error) {
	least, most := 0, 0
	for _, queue := range queues {
		limits, err := i.ArchiveLimits(ctx, queue)
		if err != nil {
			return "", inQueue(queue, err)
		}
		if n := limits.MaxTasks; least == 0 || n < least {
			least = n
		}
		most = max(most, limits.MaxTasks)
	}
	if least == most {
		return counted(most), nil
	}
	return fmt.Sprintf("%d to %s", least, counted(most)), nil
}

func newTaskArchive(a *app) *cobra.Command {
	archived := 0
	cmd := newTaskChange(a, "archive", "Archive pending, scheduled, retry or aggregating tasks", "archived",
		func(_ *cobra.Command, i *asynq.Inspector, queue, id string) error {
			err := i.ArchiveTask(queue, id)
			if err == nil {
				archived++
			}
			return err
		})
	cmd.Long = cmd.Short + ".\n\n" + archiveLimit
	addDiscard(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := taskIDs(cmd, args)
		if err != nil {
			return err
		}
		queue, _ := cmd.Flags().GetString("queue")
		i, err := a.inspector(cmd)
		if err != nil {
			return err
		}
		room, err := i.ArchiveRoom(cmd.Context(), queue)
		if err != nil {
			return inQueue(queue, err)
		}
		if len(ids) > room && !mayDiscard(cmd) {
			if n := archivable(cmd.Context(), i, queue, ids); n > room {
				return discardRefused(fmt.Sprintf("archive %s and %s of queue %q, oldest first", counted(n), discardText(n-room), queue))
			}
		}
		err = run(cmd, args)
		if archived > room {
			a.printErrf("%s deleted from the archive of queue %q, oldest first", counted(archived-room), queue)
		}
		return err
	}
	return cmd
}

// archivable counts the tasks that can be archived. It ignores errors: archiving reports them.
func archivable(ctx context.Context, i *asynq.Inspector, queue string, ids []string) int {
	seen := make(map[string]bool, len(ids))
	var refs []asynq.TaskRef
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			refs = append(refs, asynq.TaskRef{Queue: queue, ID: id})
		}
	}
	n := 0
	for _, t := range i.TaskStates(ctx, refs...) {
		switch t.State {
		case asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateAggregating:
			n++
		}
	}
	return n
}
