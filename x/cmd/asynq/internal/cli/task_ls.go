package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

func newTaskLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List tasks",
		Long: `List tasks of the given queues and states (default all), one page or all of them with --all.

The order within a queue and state is always the same:
  pending              next to run first
  active               longest running first
  scheduled, retry     next due first
  aggregating          oldest first
  archived, completed  newest first
--reverse reverses the whole list.

With a filter, the command scans Redis in short calls until the page is full. If --max-scan ends the
scan early, the exit code is 1.`,
		Example: `  asynq task ls -q mail -s retry --page 2
  asynq task ls --filter 'type:email:* error:"timed out" age>10m' --all -o ndjson`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, size, err := paging(cmd)
			if err != nil {
				return err
			}
			scan, err := a.scope(cmd)
			if err != nil {
				return err
			}
			scan.Reverse, _ = cmd.Flags().GetBool("reverse")
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			if ids, _ := cmd.Flags().GetBool("ids"); ids {
				return a.idsOnly(cmd, a.tasks(cmd.Context(), i, scan, page, size))
			}
			columns := taskColumns(scan.States, len(scan.Queues))
			load := func(ctx context.Context) iter.Seq2[*taskRow, error] {
				return withWorkers(i, a.tasks(ctx, i, scan, page, size))
			}
			return listThen(a, cmd, columns, load, func(n int) { a.printTaskRange(cmd, i, scan, page, size, n) })
		},
	}
	addScope(a, cmd, true)
	addOutput(cmd)
	addWatch(cmd)
	cmd.Flags().Int("page", 1, "page number, starting at 1")
	cmd.Flags().Int("size", 30, "tasks per page")
	cmd.Flags().Bool("ids", false, "print only the IDs, one per line, for the standard input of other commands")
	cmd.Flags().Bool("all", false, "list all tasks instead of one page")
	cmd.Flags().Bool("reverse", false, "reverse the order")
	return cmd
}

// paging reads --page, --size and --all. A size of 0 means all.
func paging(cmd *cobra.Command) (page, size int, err error) {
	page, _ = cmd.Flags().GetInt("page")
	size, _ = cmd.Flags().GetInt("size")
	all, _ := cmd.Flags().GetBool("all")
	switch {
	case page < 1 || size < 1:
		return 0, 0, usage("--page and --size must be at least 1")
	case page > 1<<30/size:
		return 0, 0, usage("--page %d is out of range", page)
	case all && cmd.Flags().Changed("page"):
		return 0, 0, usage("--all and --page are mutually exclusive")
	case all:
		return 1, 0, nil
	}
	return page, size, nil
}

// tasks lists a page of tasks.
func (a *app) tasks(ctx context.Context, i *asynq.Inspector, scan filter.Scan, page, size int) iter.Seq2[*taskRow, error] {
	if size > 0 && !scan.Reverse && len(scan.Queues) == 1 && len(scan.States) == 1 && scan.Filter.Empty() &&
		(scan.States[0] != asynq.TaskStateAggregating || scan.Group != "") {
		return onePage(i, scan, page, size)
	}
	return a.search(ctx, i, scan, (page-1)*size, size)
}

// idsOnly prints IDs, one per line.
func (a *app) idsOnly(cmd *cobra.Command, tasks iter.Seq2[*taskRow, error]) error {
	return a.watched(cmd, out.Options{}, func(w io.Writer) error {
		for t, err := range tasks {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, out.Name(t.ID)); err != nil {
				return err
			}
		}
		return nil
	})
}

// withWorkers sets the servers of active tasks. It reads them once, when the first one is needed;
// without permission, they stay unknown.
func withWorkers(i *asynq.Inspector, tasks iter.Seq2[*taskRow, error]) iter.Seq2[*taskRow, error] {
	workers := sync.OnceValue(func() map[taskKey]*taskWorker {
		found, err := workersOf(i)
		if err != nil {
			return nil
		}
		return found
	})
	return func(yield func(*taskRow, error) bool) {
		for t, err := range tasks {
			if err == nil && t.info.State == asynq.TaskStateActive {
				t.setWorker(workers()[taskKey{t.Queue, t.ID}])
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// printTaskRange prints which tasks a table shows, on a terminal, or which ones an empty table is
// about.
func (a *app) printTaskRange(cmd *cobra.Command, i *asynq.Inspector, scan filter.Scan, page, size, n int) {
	from := (page - 1) * size
	switch {
	case n == 0:
		what := "no tasks"
		if from > 0 {
			what = fmt.Sprintf("no tasks on page %d", page)
		}
		a.printErrf("%s%s%s", what, selectionText(scan), a.where())
	case !a.OutIsTerminal:
	case !scan.Filter.Empty() || scan.Group != "":
		text := fmt.Sprintf("%s–%s%s", out.Number(from+1), out.Number(from+n), selectionText(scan))
		if size > 0 && n == size {
			text += fmt.Sprintf("; --page %d may have more", page+1)
		}
		a.printErrf("%s", text)
	default:
		text := fmt.Sprintf("%s–%s", out.Number(from+1), out.Number(from+n))
		if total, err := a.total(cmd.Context(), i, scan); err == nil {
			text += " of " + out.Number(max(total, from+n))
			if size > 0 && total > from+n {
				text += fmt.Sprintf("; --page %d shows more, --all all", page+1)
			}
		}
		a.printErrf("%s", text)
	}
}

// total counts the tasks of the selected queues and states.
func (a *app) total(ctx context.Context, i *asynq.Inspector, scan filter.Scan) (n int, err error) {
	infos, err := i.WithMemorySamples(0).QueueInfos(ctx, scan.Queues...)
	states := scan.States
	if len(states) == 0 {
		states = filter.AllStates
	}
	for _, q := range infos {
		if q.Err != nil {
			return 0, q.Err
		}
		for _, state := range states {
			n += sizeOf(q.Info, state)
		}
	}
	return n, err
}

// selectionText describes the selected tasks, as scopeText, where no queue and no state means all.
func selectionText(s filter.Scan) string {
	text := ""
	if len(s.States) > 0 {
		names := make([]string, len(s.States))
		for n, state := range s.States {
			names[n] = state.String()
		}
		text += fmt.Sprintf(" (%s)", strings.Join(names, ", "))
	}
	if len(s.Queues) > 0 {
		text += " of queue " + quotedNames(s.Queues)
	} else {
		text += " of all queues"
	}
	if s.Group != "" {
		text += fmt.Sprintf(", group %q", s.Group)
	}
	if !s.Filter.Empty() {
		text += fmt.Sprintf(", filter %s", s.Filter)
	}
	return text
}

// onePage lists with the Inspector: the cost does not depend on the page number.
func onePage(i *asynq.Inspector, s filter.Scan, page, size int) iter.Seq2[*taskRow, error] {
	list := map[asynq.TaskState]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		asynq.TaskStateActive: i.ListActiveTasks, asynq.TaskStatePending: i.ListPendingTasks, asynq.TaskStateScheduled: i.ListScheduledTasks,
		asynq.TaskStateRetry: i.ListRetryTasks, asynq.TaskStateArchived: i.ListArchivedTasks, asynq.TaskStateCompleted: i.ListCompletedTasks,
		asynq.TaskStateAggregating: func(queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
			return i.ListAggregatingTasks(queue, s.Group, opts...)
		},
	}[s.States[0]]
	return func(yield func(*taskRow, error) bool) {
		tasks, err := list(s.Queues[0], asynq.Page(page), asynq.PageSize(size), asynq.NewestFirst())
		if err != nil {
			yield(nil, err)
			return
		}
		for _, t := range tasks {
			if !yield(newTaskRow(t), nil) {
				return
			}
		}
	}
}

// search yields size tasks that match, after skipping the first ones. A size of 0 means all.
func (a *app) search(ctx context.Context, i *asynq.Inspector, scan filter.Scan, skip, size int) iter.Seq2[*taskRow, error] {
	return func(yield func(*taskRow, error) bool) {
		p := a.progress("scanned")
		defer p.end()
		scan.Progress = func(at filter.Progress) { p.at(at.Looked, 0, fmt.Sprintf("found %d", at.Found)) }
		n := 0
		for t, err := range scan.Tasks(ctx, i) {
			if err != nil {
				yield(nil, scanLimit(err))
				return
			}
			if n++; n <= skip {
				continue
			}
			if !yield(newTaskRow(t), nil) || size > 0 && n == skip+size {
				return
			}
		}
	}
}
