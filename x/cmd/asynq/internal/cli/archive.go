package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

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
	cmd := &cobra.Command{
		Use:   "archive ID...",
		Short: "Archive pending, scheduled, retry or aggregating tasks",
		RunE:  func(cmd *cobra.Command, args []string) error { return a.archiveTasks(cmd, args) },
	}
	cmd.Long = cmd.Short + ".\n\n" + archiveLimit
	addDiscard(cmd)
	addTaskID(a, cmd)
	return cmd
}

func (a *app) archiveTasks(cmd *cobra.Command, args []string) error {
	var tasks []asynq.TaskRef
	room := map[string]int{}
	notFound := a.eachTask(cmd, args, func(i *asynq.Inspector, t asynq.TaskRef) (err error) {
		if _, known := room[t.Queue]; !known {
			if room[t.Queue], err = i.ArchiveRoom(cmd.Context(), t.Queue); err != nil {
				return inQueue(t.Queue, err)
			}
		}
		tasks = append(tasks, t)
		return nil
	})
	if len(tasks) == 0 {
		return notFound
	}
	i, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	for _, queue := range slices.Sorted(maps.Keys(room)) {
		of := slices.DeleteFunc(slices.Clone(tasks), func(t asynq.TaskRef) bool { return t.Queue != queue })
		if len(of) > room[queue] && !mayDiscard(cmd) {
			if n := archivable(cmd.Context(), i, of); n > room[queue] {
				return discardRefused(fmt.Sprintf("archive %s and %s of queue %q, oldest first", counted(n), discardText(n-room[queue]), queue))
			}
		}
	}
	archived := map[string]int{}
	next := 0
	err = a.eachArg(idsOf(tasks), func(string) error {
		t := tasks[next]
		next++
		err := i.ArchiveTask(t.Queue, t.ID)
		if err == nil {
			archived[t.Queue]++
			a.printErrf("task %q of queue %q archived", t.ID, t.Queue)
		}
		return err
	})
	for _, queue := range slices.Sorted(maps.Keys(room)) {
		if n := archived[queue] - room[queue]; n > 0 {
			a.printErrf("%s deleted from the archive of queue %q, oldest first", counted(n), queue)
		}
	}
	return worseOf(err, notFound)
}

// worseOf returns the error of two with the exit code that matters more: a failure outweighs a
// missing item.
func worseOf(a, b error) error {
	var x, y exitError
	if b != nil && (a == nil || errors.As(a, &x) && errors.As(b, &y) && y.code < x.code) {
		return b
	}
	return a
}

// archivable counts the tasks that can be archived. It ignores errors: archiving reports them.
func archivable(ctx context.Context, i *asynq.Inspector, tasks []asynq.TaskRef) int {
	seen := make(map[asynq.TaskRef]bool, len(tasks))
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t asynq.TaskRef) bool {
		twice := seen[t]
		seen[t] = true
		return twice
	})
	n := 0
	for _, t := range i.TaskStates(ctx, tasks...) {
		switch t.State {
		case asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateAggregating:
			n++
		}
	}
	return n
}
