package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/failures"
	"github.com/asynq-go/asynq/x/filter"
)

// newErrorsChange returns a command that changes all tasks of a kind of error.
func newErrorsChange(a *app, b bulk) *cobra.Command {
	states := slices.DeleteFunc(slices.Clone(failures.States), func(s asynq.TaskState) bool { return !slices.Contains(b.states, s) })
	cmd := &cobra.Command{
		Use:   b.verb + " KIND-ID",
		Short: strings.ToUpper(b.verb[:1]) + b.verb[1:] + " all tasks of a kind of error",
		Long: fmt.Sprintf(`%s all tasks (%s) of a kind of error, of all types and queues or those of --queue. KIND-ID is from
asynq errors; the first characters are enough if they are unique, except with --yes.

The command works in short calls to Redis, so servers keep running. After an interruption, repeat the
command to process the remaining tasks.`,
			strings.ToUpper(b.verb[:1])+b.verb[1:], stateNames(states)),
		Example: "  asynq errors " + b.verb + " 46fd0c5f --dry-run",
		Args:    argsFrom(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			scan, err := failedTasks(cmd)
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			kinds, scanErr := a.kinds(cmd.Context(), i, scan, 1)
			k, err := findKind(kinds, args[0])
			if err != nil {
				if scanErr != nil {
					return scanErr
				}
				return err
			}
			if yes, _ := cmd.Flags().GetBool("yes"); yes && k.ID != args[0] {
				return usage("--yes requires the whole ID of the kind: %s", k.ID)
			}
			scan.States = states
			return a.changeKind(cmd, i, b, scan, k, scanErr)
		},
		ValidArgsFunction: a.kindIDs,
	}
	addErrorScope(a, cmd)
	addBulk(cmd)
	if b.archives {
		cmd.Long += "\n\n" + archiveLimit
		addDiscard(cmd)
	}
	return cmd
}

func stateNames(states []asynq.TaskState) string {
	names := make([]string, len(states))
	for n, s := range states {
		names[n] = s.String()
	}
	return strings.Join(names, ", ")
}

// changeKind changes the tasks of a kind of error in the queues that have some. scanErr is the
// error of the search: some tasks were not counted, and their queues are not changed.
func (a *app) changeKind(cmd *cobra.Command, i *asynq.Inspector, b bulk, scan filter.Scan, k *failures.Kind, scanErr error) error {
	n := k.Count
	if len(scan.States) == 1 {
		n = k.Retry()
	}
	if n == 0 {
		a.printErrf("0 tasks %s: all tasks with this error are archived", b.done)
		return scanErr
	}
	queues := make([]string, 0, len(k.Queues))
	for _, q := range failures.Top(k.Queues) {
		queues = append(queues, q.Name)
	}
	slices.Sort(queues)
	what := fmt.Sprintf("%s %s (%s) of queue %s with the error %q", b.verb, counted(n), stateNames(scan.States), queueNames(queues), k.Text)
	if scanErr != nil {
		what = fmt.Sprintf("%s at least %s (%s) of queue %s with the error %q", b.verb, counted(n), stateNames(scan.States), queueNames(queues), k.Text)
	}
	if b.archives {
		byQueue, err := a.countKind(cmd.Context(), i, scan, queues, k.ID)
		if err != nil {
			return err
		}
		discarded, err := discards(cmd.Context(), i, byQueue)
		switch {
		case err != nil:
			return err
		case discarded == 0:
		case !mayDiscard(cmd) && !a.dryRun(cmd):
			return discardRefused(fmt.Sprintf("%s and %s, oldest first", what, discardText(discarded)))
		default:
			what += fmt.Sprintf(" and %s, oldest first", discardText(discarded))
		}
	}
	if do, err := a.confirm(cmd, "%s", what); !do {
		return err
	}
	p := a.progress(b.doing)
	defer p.end()
	var total changed
	match := failures.Match(k.ID)
	for _, queue := range queues {
		for _, state := range scan.States {
			before := total.n
			done, err := b.change(i, cmd.Context(), queue, state, asynq.TaskFilter{
				Match:   match,
				Scanned: func(int) { p.at(before, n, queue) },
			})
			total.n += done.n
			total.discarded += done.discarded
			if err != nil {
				p.end()
				a.printErrf("%s before this error", total.text(b))
				return inQueue(queue, err)
			}
			p.at(total.n, n, queue)
		}
	}
	p.end()
	a.printErrf("%s", total.text(b))
	return scanErr
}

// countKind counts the tasks of a kind of error by queue, as far as they would be changed.
func (a *app) countKind(ctx context.Context, i *asynq.Inspector, scan filter.Scan, queues []string, id string) (map[string]int, error) {
	match, byQueue := failures.Match(id), make(map[string]int)
	for _, queue := range queues {
		for _, state := range scan.States {
			for _, err := range i.Tasks(ctx, queue, state, asynq.TaskFilter{Match: match}) {
				if err != nil {
					return nil, inQueue(queue, err)
				}
				byQueue[queue]++
			}
		}
	}
	return byQueue, nil
}
