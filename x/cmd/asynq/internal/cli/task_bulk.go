package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

// bulk is a change of all tasks that a command is for.
type bulk struct {
	use, verb, doing, done string
	states                 []asynq.TaskState
	change                 func(*asynq.Inspector, context.Context, string, asynq.TaskState, asynq.TaskFilter) (int, error)
}

var (
	runAll = bulk{
		"runall", "run", "moving", "moved to run now", []asynq.TaskState{
			asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted, asynq.TaskStateAggregating,
		}, (*asynq.Inspector).RunTasks,
	}
	archiveAll = bulk{
		"archiveall", "archive", "archiving", "archived", []asynq.TaskState{
			asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateAggregating,
		}, (*asynq.Inspector).ArchiveTasks,
	}
	deleteAll = bulk{
		"deleteall", "delete", "deleting", "deleted", []asynq.TaskState{
			asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted,
			asynq.TaskStateAggregating,
		}, (*asynq.Inspector).DeleteTasks,
	}
)

func newTaskAll(a *app, b bulk) *cobra.Command {
	names := make([]string, len(b.states))
	for n, s := range b.states {
		names[n] = s.String()
	}
	cmd := &cobra.Command{
		Use:   b.use,
		Short: strings.ToUpper(b.verb[:1]) + b.verb[1:] + " all tasks of some queues and states, or those that a filter admits",
		Long: fmt.Sprintf(`%s all tasks of some queues and states (%s), or those that a filter admits.

It is done in short calls, so servers go on working. An interrupted command has done a part, and can be given again.`,
			strings.ToUpper(b.verb[:1])+b.verb[1:], strings.Join(names, ", ")),
		Example: fmt.Sprintf("  asynq task %s -q mail -s retry --filter 'error:\"no such user\"' --dry-run", b.use),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scan, err := a.scope(cmd)
			if err != nil {
				return err
			}
			if len(scan.Queues) == 0 || len(scan.States) == 0 {
				return usage("of which queues and states? Say --queue and --state")
			}
			for _, s := range scan.States {
				if !slices.Contains(b.states, s) {
					return usage("cannot %s tasks that are %v: --state may be %s", b.verb, s, strings.Join(names, ", "))
				}
			}
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return a.doBulk(cmd, i, b, scan)
		},
	}
	addScope(a, cmd, true)
	addBulk(cmd)
	return cmd
}

func (a *app) doBulk(cmd *cobra.Command, i *asynq.Inspector, b bulk, scan filter.Scan) error {
	yes, _ := cmd.Flags().GetBool("yes")
	n, all, err := a.countTasks(cmd.Context(), i, scan, !yes || a.dryRun(cmd))
	if err != nil {
		return err
	}
	if n == 0 {
		a.say("0 tasks %s: there are none", b.done)
		return nil
	}
	if do, err := a.confirm(cmd, "%s %s %s", b.verb, counted(n), scopeText(scan)); !do {
		return err
	}
	p := a.progress(b.doing)
	defer p.end()
	looked, changed := 0, 0
	left := scan.MaxScan
	for _, queue := range scan.Queues {
		for _, state := range scan.States {
			if !scan.Filter.MayMatch(queue, state) {
				continue
			}
			f := scan.Filter.TaskFilter()
			f.Group, f.MaxScan = scan.Group, left
			here := 0
			f.Looked = func(n int) {
				here = n
				p.at(looked+n, all, "")
			}
			n, err := b.change(i, cmd.Context(), queue, state, f)
			changed += n
			looked += here
			if err != nil {
				p.end()
				a.say("%s %s before this error", counted(changed), b.done)
				return inQueue(queue, scanLimit(err))
			}
			if scan.MaxScan > 0 {
				if left = scan.MaxScan - looked; left <= 0 {
					break
				}
			}
		}
	}
	p.end()
	a.say("%s %s", counted(changed), b.done)
	return nil
}

// scanLimit says what to do where --max-scan ended a search.
func scanLimit(err error) error {
	if errors.Is(err, asynq.ErrScanLimit) {
		return errors.New("there are more tasks than --max-scan allows to look at")
	}
	return err
}

func counted(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// scopeText says which tasks a command is for.
func scopeText(s filter.Scan) string {
	names := make([]string, len(s.States))
	for n, state := range s.States {
		names[n] = state.String()
	}
	text := fmt.Sprintf("(%s) of %s", strings.Join(names, ", "), strings.Join(s.Queues, ", "))
	if s.Group != "" {
		text += fmt.Sprintf(", group %q", s.Group)
	}
	if !s.Filter.Empty() {
		text += fmt.Sprintf(", filter %s", s.Filter)
	}
	return text
}

// countTasks counts the tasks that a command is for, and all that have to be looked at for that. If it need not be exact, a filter is
// not asked.
func (a *app) countTasks(ctx context.Context, i *asynq.Inspector, s filter.Scan, exact bool) (n, all int, err error) {
	for _, queue := range s.Queues {
		q, err := i.WithMemorySamples(0).GetQueueInfo(queue)
		if err != nil {
			return 0, 0, inQueue(queue, err)
		}
		for _, state := range s.States {
			if s.Filter.MayMatch(queue, state) {
				all += sizeOf(q, state)
			}
		}
	}
	if !exact || s.Filter.Empty() && s.Group == "" && s.MaxScan == 0 {
		return all, all, nil
	}
	p := a.progress("looked at")
	defer p.end()
	s.Progress = func(at filter.Progress) { p.at(at.Looked, all, fmt.Sprintf("found %d", at.Found)) }
	for _, err := range s.Tasks(ctx, i) {
		if errors.Is(err, asynq.ErrScanLimit) {
			break
		}
		if err != nil {
			return 0, 0, err
		}
		n++
	}
	return n, all, nil
}

func sizeOf(q *asynq.QueueInfo, state asynq.TaskState) int {
	return map[asynq.TaskState]int{
		asynq.TaskStateActive: q.Active, asynq.TaskStatePending: q.Pending, asynq.TaskStateScheduled: q.Scheduled,
		asynq.TaskStateRetry: q.Retry, asynq.TaskStateArchived: q.Archived, asynq.TaskStateCompleted: q.Completed,
		asynq.TaskStateAggregating: q.Aggregating,
	}[state]
}
