package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/find"
)

// findingTasks is the help text about the IDs of tasks.
const findingTasks = `Without --queue, a task is found by its ID in any queue. The beginning of an ID, at least 4 characters,
is enough if only one task has it; a command that changes tasks then asks for confirmation, and
accepts it only on a terminal. The argument - reads IDs from standard input, one per line, as task
ls --ids prints them.`

// addTaskID adds the flags that name tasks. Task IDs may also be arguments.
func addTaskID(a *app, cmd *cobra.Command) {
	cmd.Flags().StringP("queue", "q", "", "queue of the tasks (default: the queue that has a task with the ID)")
	cmd.Flags().StringSliceP("id", "i", nil, "IDs of the tasks; they may also be arguments")
	_ = cmd.RegisterFlagCompletionFunc("queue", a.queueNames)
	_ = cmd.RegisterFlagCompletionFunc("id", a.taskNames)
	cmd.ValidArgsFunction = a.taskNames
	if cmd.Long == "" {
		cmd.Long = cmd.Short + "."
	}
	cmd.Long += "\n\n" + findingTasks
}

// maxIDs is the maximum number of IDs that a command reads from standard input.
const maxIDs = 1_000_000

// taskIDs returns the task IDs of the command line. The argument - stands for standard input.
func (a *app) taskIDs(cmd *cobra.Command, args []string) ([]string, error) {
	ids, _ := cmd.Flags().GetStringSlice("id")
	ids = append(slices.Clone(args), ids...)
	if len(ids) == 0 {
		return nil, usage("missing task ID: usage: %s ID...", cmd.CommandPath())
	}
	at := slices.Index(ids, "-")
	if at < 0 {
		return ids, nil
	}
	if value, err := cmd.Flags().GetString("payload"); err == nil && value == "-" {
		return nil, usage("IDs and the payload cannot both be read from standard input")
	}
	var read []string
	for line, err := range linesOf(cmd.Context(), a.In) {
		if err != nil {
			return nil, fmt.Errorf("reading IDs: %w", err)
		}
		id := string(line.text)
		if strings.HasPrefix(id, `"`) {
			if id, err = strconv.Unquote(id); err != nil {
				return nil, usage("standard input, line %d: %s is not a quoted ID", line.number, line.text)
			}
		}
		if read = append(read, id); len(read) > maxIDs {
			return nil, usage("more than %d IDs on standard input", maxIDs)
		}
	}
	a.InIsTerminal = false // it has been read
	return append(append(ids[:at:at], read...), slices.DeleteFunc(ids[at+1:], func(id string) bool { return id == "-" })...), nil
}

// task finds the task with an ID, or with the beginning of an ID. A command that changes tasks asks
// for confirmation of the latter.
func (a *app) task(cmd *cobra.Command, i *asynq.Inspector, id string) (asynq.TaskRef, error) {
	queue, _ := cmd.Flags().GetString("queue")
	var queues []string
	if queue != "" {
		queues = []string{queue}
	}
	changes := a.changes(cmd)
	r, err := find.ByID(cmd.Context(), i, queues, id, !changes || a.InIsTerminal)
	if err != nil {
		return asynq.TaskRef{}, err
	}
	if len(r.Tasks) == 0 && queue != "" {
		return asynq.TaskRef{Queue: queue, ID: id}, nil // the command returns the error
	}
	t, err := r.Only(id)
	missing, ambiguous := (*find.NotFoundError)(nil), (*find.AmbiguousError)(nil)
	switch {
	case errors.As(err, &missing):
		return asynq.TaskRef{}, exitError{fmt.Errorf("%w (%v)", err, a.config.Target()), ExitNotFound}
	case errors.As(err, &ambiguous):
		return asynq.TaskRef{}, exitError{err, ExitUsage}
	case err != nil || r.Exact:
		return asynq.TaskRef{Queue: t.Queue, ID: t.ID}, err
	case changes:
		answer, err := a.ask(cmd, fmt.Sprintf("no task has the ID %q: %s task %q of queue %q%s? [y/N] ", id, cmd.Name(), t.ID, t.Queue, a.where()))
		if err != nil {
			return asynq.TaskRef{}, err
		}
		if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
			return asynq.TaskRef{}, errCanceled
		}
	default:
		a.printErrf("found task %q of queue %q", t.ID, t.Queue)
	}
	return asynq.TaskRef{Queue: t.Queue, ID: t.ID}, nil
}

// eachTask calls do for each task of the command line, and continues after errors as eachArg does.
func (a *app) eachTask(cmd *cobra.Command, args []string, do func(*asynq.Inspector, asynq.TaskRef) error) error {
	ids, err := a.taskIDs(cmd, args)
	if err != nil {
		return err
	}
	i, err := a.inspector(cmd)
	if err != nil {
		return err
	}
	return a.eachArg(ids, func(id string) error {
		ref, err := a.task(cmd, i, id)
		if err != nil {
			return err
		}
		return do(i, ref)
	})
}
