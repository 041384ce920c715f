package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

// bulk is a change of all selected tasks.
type bulk struct {
	use, verb, doing, done string
	states                 []asynq.TaskState
	change                 func(*asynq.Inspector, context.Context, string, asynq.TaskState, asynq.TaskFilter) (changed, error)
	archives               bool
}

// changed counts tasks.
type changed struct {
	n         int
	discarded int // deleted from a full archive
}

// changes adapts a change that returns only the number of changed tasks.
func changes(
	change func(*asynq.Inspector, context.Context, string, asynq.TaskState, asynq.TaskFilter) (int, error),
) func(*asynq.Inspector, context.Context, string, asynq.TaskState, asynq.TaskFilter) (changed, error) {
	return func(i *asynq.Inspector, ctx context.Context, queue string, state asynq.TaskState, f asynq.TaskFilter) (changed, error) {
		n, err := change(i, ctx, queue, state, f)
		return changed{n: n}, err
	}
}

var (
	runAll = bulk{
		use: "runall", verb: "run", doing: "moving", done: "moved to pending", states: []asynq.TaskState{
			asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted, asynq.TaskStateAggregating,
		}, change: changes((*asynq.Inspector).RunTasks),
	}
	archiveAll = bulk{
		use: "archiveall", verb: "archive", doing: "archiving", done: "archived", states: []asynq.TaskState{
			asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateAggregating,
		}, archives: true,
		change: func(i *asynq.Inspector, ctx context.Context, queue string, state asynq.TaskState, f asynq.TaskFilter) (changed, error) {
			r, err := i.ArchiveTasks(ctx, queue, state, f)
			return changed{n: r.Archived, discarded: r.Discarded}, err
		},
	}
	deleteAll = bulk{
		use: "deleteall", verb: "delete", doing: "deleting", done: "deleted", states: []asynq.TaskState{
			asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted,
			asynq.TaskStateAggregating,
		}, change: changes((*asynq.Inspector).DeleteTasks),
	}
)

func newTaskAll(a *app, b bulk) *cobra.Command {
	names := make([]string, len(b.states))
	for n, s := range b.states {
		names[n] = s.String()
	}
	cmd := &cobra.Command{
		Use:   b.use,
		Short: strings.ToUpper(b.verb[:1]) + b.verb[1:] + " all tasks of the given queues and states, or those that match a filter",
		Long: fmt.Sprintf(`%s all tasks of the given queues and states, or those that match a filter.
States: %s.

The command works in short calls to Redis, so servers keep running. After an interruption, repeat the
command to process the remaining tasks.`,
			strings.ToUpper(b.verb[:1])+b.verb[1:], strings.Join(names, ", ")),
		Example: fmt.Sprintf("  asynq task %s -q mail -s retry --filter 'error:\"no such user\"' --dry-run", b.use),
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scan, err := a.scope(cmd)
			if err != nil {
				return err
			}
			if len(scan.Queues) == 0 || len(scan.States) == 0 {
				return usage("missing queues or states: use --queue and --state")
			}
			for _, s := range scan.States {
				if !slices.Contains(b.states, s) {
					return usage("cannot %s %v tasks: --state must be one of %s", b.verb, s, strings.Join(names, ", "))
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
	if b.archives {
		cmd.Long += "\n\n" + archiveLimit
		addDiscard(cmd)
	}
	return cmd
}

func (a *app) doBulk(cmd *cobra.Command, i *asynq.Inspector, b bulk, scan filter.Scan) error {
	plan, err := a.planBulk(cmd, i, b, scan)
	if err != nil {
		return err
	}
	if plan.n == 0 {
		a.printErrf("0 tasks %s: no tasks match", b.done)
		return nil
	}
	what := fmt.Sprintf("%s %s %s", b.verb, counted(plan.n), scopeText(scan))
	if plan.discards > 0 {
		what += fmt.Sprintf(" and %s, oldest first", discardText(plan.discards))
		switch {
		case !mayDiscard(cmd) && !a.dryRun(cmd):
			return discardRefused(what)
		case !mayDiscard(cmd):
			what += " (requires --discard-oldest)"
		default:
			limits, err := archiveLimits(cmd.Context(), i, scan.Queues)
			if err != nil {
				return err
			}
			what += " (limit: " + limits + ")"
		}
	}
	if do, err := a.confirm(cmd, "%s", what); !do {
		return err
	}
	p := a.progress(b.doing)
	defer p.end()
	scanned, total := 0, changed{}
	left := scan.MaxScan
	for _, queue := range scan.Queues {
		for _, state := range scan.States {
			if !scan.Filter.MayMatch(queue, state) {
				continue
			}
			f := scan.Filter.TaskFilter()
			f.Group, f.MaxScan = scan.Group, left
			here := 0
			f.Scanned = func(n int) {
				here = n
				p.at(scanned+n, plan.all, "")
			}
			done, err := b.change(i, cmd.Context(), queue, state, f)
			total.n += done.n
			total.discarded += done.discarded
			scanned += here
			if err != nil {
				p.end()
				a.printErrf("%s before this error", total.text(b))
				return inQueue(queue, scanLimit(err))
			}
			if scan.MaxScan > 0 {
				if left = scan.MaxScan - scanned; left <= 0 {
					break
				}
			}
		}
	}
	p.end()
	a.printErrf("%s", total.text(b))
	return nil
}

// text formats the result of a change.
func (c changed) text(b bulk) string {
	text := fmt.Sprintf("%s %s", counted(c.n), b.done)
	if c.discarded > 0 {
		text += fmt.Sprintf(", %s deleted from the archive", counted(c.discarded))
	}
	return text
}

// bulkPlan is the number of tasks that a command will change.
type bulkPlan struct {
	taskCount

	discards int // tasks to delete from archives
}

// planBulk counts the tasks that the command would change. It applies the filter only if the exact
// number matters.
func (a *app) planBulk(cmd *cobra.Command, i *asynq.Inspector, b bulk, scan filter.Scan) (plan bulkPlan, err error) {
	yes, _ := cmd.Flags().GetBool("yes")
	exact := !yes || a.dryRun(cmd)
	if plan.taskCount, err = a.countTasks(cmd.Context(), i, scan, exact); err != nil || !b.archives {
		return plan, err
	}
	plan.discards, err = discards(cmd.Context(), i, plan.byQueue)
	if err != nil || exact || plan.discards == 0 || mayDiscard(cmd) {
		return plan, err
	}
	if plan.taskCount, err = a.countTasks(cmd.Context(), i, scan, true); err != nil {
		return plan, err
	}
	plan.discards, err = discards(cmd.Context(), i, plan.byQueue)
	return plan, err
}

// scanLimit explains that --max-scan ended a scan.
func scanLimit(err error) error {
	if errors.Is(err, asynq.ErrScanLimit) {
		return errors.New("--max-scan reached: some tasks were not scanned")
	}
	return err
}

func counted(n int) string {
	if n == 1 {
		return "1 task"
	}
	return out.Number(n) + " tasks"
}

// scopeText describes the selected tasks.
func scopeText(s filter.Scan) string {
	names := make([]string, len(s.States))
	for n, state := range s.States {
		names[n] = state.String()
	}
	text := fmt.Sprintf("(%s) of queue %s", strings.Join(names, ", "), quotedNames(s.Queues))
	if s.Group != "" {
		text += fmt.Sprintf(", group %q", s.Group)
	}
	if !s.Filter.Empty() {
		text += fmt.Sprintf(", filter %s", s.Filter)
	}
	return text
}

func quotedNames(names []string) string {
	quoted := make([]string, len(names))
	for n, name := range names {
		quoted[n] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

// taskCount is the number of selected tasks.
type taskCount struct {
	n, all  int // all includes tasks that do not match the filter
	byQueue map[string]int
}

// countTasks counts the selected tasks. If exact is false, it ignores the filter.
func (a *app) countTasks(ctx context.Context, i *asynq.Inspector, s filter.Scan, exact bool) (taskCount, error) {
	c := taskCount{byQueue: make(map[string]int)}
	for _, queue := range s.Queues {
		q, err := i.WithMemorySamples(0).GetQueueInfo(queue)
		if err != nil {
			return c, inQueue(queue, err)
		}
		for _, state := range s.States {
			if s.Filter.MayMatch(queue, state) {
				c.byQueue[queue] += sizeOf(q, state)
				c.all += sizeOf(q, state)
			}
		}
	}
	c.n = c.all
	if !exact || s.Filter.Empty() && s.Group == "" && s.MaxScan == 0 {
		return c, nil
	}
	c.n = 0
	clear(c.byQueue)
	p := a.progress("scanned")
	defer p.end()
	s.Progress = func(at filter.Progress) { p.at(at.Looked, c.all, fmt.Sprintf("found %d", at.Found)) }
	for t, err := range s.Tasks(ctx, i) {
		if errors.Is(err, asynq.ErrScanLimit) {
			break
		}
		if err != nil {
			return c, err
		}
		c.n++
		c.byQueue[t.Queue]++
	}
	return c, nil
}

func sizeOf(q *asynq.QueueInfo, state asynq.TaskState) int {
	return map[asynq.TaskState]int{
		asynq.TaskStateActive: q.Active, asynq.TaskStatePending: q.Pending, asynq.TaskStateScheduled: q.Scheduled,
		asynq.TaskStateRetry: q.Retry, asynq.TaskStateArchived: q.Archived, asynq.TaskStateCompleted: q.Completed,
		asynq.TaskStateAggregating: q.Aggregating,
	}[state]
}
