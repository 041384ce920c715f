package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/nodes"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/filter"
)

func newFlow(a *app) *cobra.Command {
	return group("flow", "Inspect and manage flows: tasks that depend on each other",
		newFlowLs(a),
		newFlowInspect(a),
		newFlowCancel(a),
		newFlowRetry(a),
		newFlowSkip(a),
	)
}

// flowRow is a flow in machine-readable output. The counters are sums over its nodes.
type flowRow struct {
	ID         string      `json:"id"`
	Status     flow.Status `json:"status"`
	CreatedAt  time.Time   `json:"created_at"`
	ChangedAt  time.Time   `json:"changed_at"` // when the flow or a node of it last changed its status
	EndedAt    *time.Time  `json:"ended_at"`   // null if it has not
	Nodes      int         `json:"nodes_total"`
	NodesEnded int         `json:"nodes_ended"`
	Tasks      int         `json:"tasks"` // also those that will be created
	Succeeded  int         `json:"succeeded"`
	Failed     int         `json:"failed"`  // archived
	Deleted    int         `json:"deleted"` // before they succeeded
}

func newFlowRow(f *flow.Info) *flowRow {
	row := &flowRow{ID: f.ID, Status: f.Status, CreatedAt: f.Created.UTC(), EndedAt: moment(f.Ended), Nodes: len(f.Nodes)}
	changed := f.Changed
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for _, t := range []time.Time{n.Started, n.Ended} {
			if t.After(changed) {
				changed = t
			}
		}
		if nodes.Ended(n) {
			row.NodesEnded++
		}
		row.Tasks += n.Total
		row.Succeeded += n.Succeeded
		row.Failed += n.Failed
		row.Deleted += n.Deleted
	}
	row.ChangedAt = changed.UTC()
	return row
}

// statusStyle returns the style of the status of a flow or node.
func statusStyle(s flow.Status) out.Style {
	switch s {
	case flow.Succeeded:
		return out.Good
	case flow.Blocked, flow.Failed:
		return out.Bad
	case flow.Canceled:
		return out.Warn
	case flow.Waiting, flow.Omitted, flow.Skipped:
		return out.Faint
	case flow.Running:
	}
	return out.Plain
}

var flowColumns = []out.Column[*flowRow]{
	{Head: "FLOW", Shrink: 16, Cell: func(f *flowRow) string { return f.ID }},
	{Head: "STATUS", Cell: func(f *flowRow) string { return string(f.Status) }, Style: func(f *flowRow) out.Style { return statusStyle(f.Status) }},
	{Head: "NODES", Right: true, Cell: func(f *flowRow) string { return fmt.Sprintf("%d/%d", f.NodesEnded, f.Nodes) }},
	count("TASKS", out.Plain, func(f *flowRow) int { return f.Tasks }),
	count("SUCCEEDED", out.Good, func(f *flowRow) int { return f.Succeeded }),
	count("FAILED", out.Bad, func(f *flowRow) int { return f.Failed }),
	count("DELETED", out.Bad, func(f *flowRow) int { return f.Deleted }),
	{Head: "CREATED", Rank: 1, Cell: func(f *flowRow) string { return out.Time(f.CreatedAt) }},
	{Head: "CHANGED", Rank: 2, Cell: func(f *flowRow) string { return out.Time(f.ChangedAt) }},
	{Head: "ENDED", Wide: true, Cell: func(f *flowRow) string { return momentText(f.EndedAt) }},
}

func newFlowLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List flows, newest first",
		Long: `List flows, newest first: one page, or all of them with --all. NODES are those that have ended, and all. With
--filter or --sort, the command reads all flows.`,
		Example: "  asynq flow ls --filter status:blocked\n  asynq flow ls --all --sort=-failed -o csv",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, size, err := paging(cmd)
			if err != nil {
				return err
			}
			f, err := filter.ParseRows(a.filter(cmd))
			if err != nil {
				return badFilter(err)
			}
			by, _ := cmd.Flags().GetString("sort")
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			total, skip := 0, (page-1)*size
			load := func(ctx context.Context) iter.Seq2[*flowRow, error] {
				if f.Empty() && by == "" {
					return firstRows(size, flows(ctx, flow.Inspect(i), skip, size, &total))
				}
				rows := out.Sorted(by, out.Filtered(f, flows(ctx, flow.Inspect(i), 0, 0, &total)))
				return firstRows(size, withoutFirst(skip, rows))
			}
			return listThen(a, cmd, flowColumns, load, func(n int) { a.printFlowRange(f, page, size, n, total) })
		},
	}
	addListing(cmd)
	cmd.Flags().Int("page", 1, "page number, starting at 1")
	cmd.Flags().Int("size", 30, "flows per page")
	cmd.Flags().Bool("all", false, "list all flows instead of one page")
	return cmd
}

// printFlowRange prints which flows a table shows, on a terminal, or why it is empty.
func (a *app) printFlowRange(f *filter.Rows, page, size, n, total int) {
	from := (page - 1) * size
	switch {
	case n == 0 && total == 0:
		a.printErrf("no flows%s", a.where())
	case n == 0 && from > 0:
		a.printErrf("no flows on page %d%s", page, a.where())
	case n == 0:
		a.printErrf("no match: --filter selects none of %s%s", plural(total, "flow"), a.where())
	case !a.OutIsTerminal:
	case !f.Empty():
		text := fmt.Sprintf("%s–%s", out.Number(from+1), out.Number(from+n))
		if size > 0 && n == size {
			text += fmt.Sprintf("; --page %d may have more", page+1)
		}
		a.printErrf("%s", text)
	default:
		text := fmt.Sprintf("%s–%s of %s", out.Number(from+1), out.Number(from+n), out.Number(max(total, from+n)))
		if size > 0 && total > from+n {
			text += fmt.Sprintf("; --page %d shows more, --all all", page+1)
		}
		a.printErrf("%s", text)
	}
}

// flowPage is the number of flows that one call lists.
const flowPage = 100

// flows yields flows after skipping some: a page of size, or all if it is 0. It sets the number of
// all flows.
func flows(ctx context.Context, i *flow.Inspector, skip, size int, total *int) iter.Seq2[*flowRow, error] {
	return func(yield func(*flowRow, error) bool) {
		seen := make(map[string]bool) // flows that start meanwhile move others to the next call
		for {
			n := flowPage
			if size > 0 {
				n = min(n, size-len(seen))
			}
			infos, all, err := i.List(ctx, skip, n)
			if err != nil {
				yield(nil, err)
				return
			}
			*total = all
			for _, f := range infos {
				if seen[f.ID] {
					continue
				}
				seen[f.ID] = true
				if !yield(newFlowRow(f), nil) {
					return
				}
			}
			if skip += len(infos); len(infos) < n || size > 0 && len(seen) >= size {
				return
			}
		}
	}
}

// withoutFirst yields all rows but the first n.
func withoutFirst[T any](n int, rows iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			if err == nil && n > 0 {
				n--
				continue
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// inFlow returns an error of a call for a flow, and of a node unless its name is empty.
func inFlow(id, node string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, flow.ErrNotFound):
		return notFound("flow not found: %q", id)
	case errors.Is(err, flow.ErrNoNode):
		return notFound("flow %q has no node %q", id, node)
	case errors.Is(err, flow.ErrRunning):
		return fmt.Errorf("node %q of flow %q runs or has succeeded", node, id)
	case errors.Is(err, flow.ErrCanceled):
		return fmt.Errorf("flow %q was canceled", id)
	case errors.Is(err, flow.ErrEnded):
		return fmt.Errorf("flow %q has ended", id)
	}
	return fmt.Errorf("flow %q: %w", id, err)
}

// changeFlows returns a command that changes flows after confirmation. before returns the question
// in the infinitive; change makes the change and prints what it has done.
func changeFlows(
	a *app, use, short string, before func(*flow.Info) (string, error), change func(context.Context, *flow.Inspector, string) error,
) *cobra.Command {
	cmd := &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.flowIDs,
		RunE: func(cmd *cobra.Command, ids []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return a.eachArg(ids, func(id string) error {
				f, err := flow.Inspect(i).Get(cmd.Context(), id)
				if err != nil {
					return inFlow(id, "", err)
				}
				question, err := before(f)
				if err != nil {
					return inFlow(id, "", err)
				}
				if ok, err := a.confirm(cmd, "%s", question); !ok || err != nil {
					return err
				}
				return inFlow(id, "", change(cmd.Context(), flow.Inspect(i), id))
			})
		},
	}
	addBulk(cmd)
	return cmd
}

func newFlowCancel(a *app) *cobra.Command {
	cmd := changeFlows(a, "cancel ID…", "Cancel flows: delete their waiting tasks, and cancel active ones",
		func(f *flow.Info) (string, error) {
			if f.Status == flow.Succeeded || f.Status == flow.Failed {
				return "", flow.ErrEnded
			}
			left := 0
			for i := range f.Nodes {
				if f.Nodes[i].Status == flow.Running {
					left += f.Nodes[i].Pending()
				}
			}
			return fmt.Sprintf("cancel flow %q, and delete or cancel %s of it", f.ID, plural(left, "task")), nil
		},
		func(ctx context.Context, i *flow.Inspector, id string) error {
			f, err := i.Cancel(ctx, id)
			if err != nil {
				return err
			}
			text := ""
			if f.Status == flow.Running {
				text = ": it ends when its active tasks have"
			}
			a.printErrf("flow %q canceled%s", id, text)
			return nil
		})
	cmd.Long = `Cancel flows: no further node starts, tasks that wait are deleted, and active ones are canceled, and deleted if
their handlers then return an error. A canceled flow cannot be continued.`
	cmd.Example = "  asynq flow cancel order-42"
	return cmd
}

func newFlowRetry(a *app) *cobra.Command {
	cmd := changeFlows(a, "retry ID…", "Run the archived tasks of flows again",
		func(f *flow.Info) (string, error) {
			if f.Status == flow.Canceled {
				return "", flow.ErrCanceled
			}
			return fmt.Sprintf("run %s of flow %q again", plural(newFlowRow(f).Failed, "archived task"), f.ID), nil
		},
		func(ctx context.Context, i *flow.Inspector, id string) error {
			n, f, err := i.Retry(ctx, id)
			if n > 0 || err == nil {
				a.printErrf("%s of flow %q run again", plural(n, "archived task"), id)
			}
			if err != nil {
				return err
			}
			for _, by := range blockers(f) {
				if by.Deleted > 0 {
					a.printErrf("node %q has %s, which cannot run again: see %s", by.Node, plural(by.Deleted, "deleted task"),
						commandLine("flow skip", id, by.Node))
				}
			}
			return nil
		})
	cmd.Long = `Run the archived tasks of flows again, and let nodes wait again that were canceled because of them. If the tasks
succeed, the flows continue. Deleted tasks cannot run again: see flow skip.`
	cmd.Example = "  asynq flow retry order-42"
	return cmd
}

func newFlowSkip(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skip ID NODE…",
		Short: "Let nodes of a flow count as succeeded",
		Long: `Let nodes of a flow count as succeeded that have failed, wait, or were canceled or omitted, so that the nodes
after them start. Archived tasks of the nodes stay archived.`,
		Example:           "  asynq flow skip order-42 pack",
		Args:              argsFrom(2, -1),
		ValidArgsFunction: a.flowNodes,
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			id := args[0]
			f, err := flow.Inspect(i).Get(cmd.Context(), id)
			if err != nil {
				return inFlow(id, "", err)
			}
			return a.eachArg(args[1:], func(node string) error {
				n := f.Node(node)
				switch {
				case f.Status == flow.Canceled:
					return inFlow(id, node, flow.ErrCanceled)
				case n == nil:
					return inFlow(id, node, flow.ErrNoNode)
				case n.Status == flow.Skipped:
					a.printErrf("node %q of flow %q is already skipped", node, id)
					return nil
				case !n.Skippable():
					return inFlow(id, node, flow.ErrRunning)
				}
				if ok, err := a.confirm(cmd, "let node %q of flow %q, which is %s, count as succeeded", node, id, n.Status); !ok || err != nil {
					return err
				}
				if _, err := flow.Inspect(i).Skip(cmd.Context(), id, node); err != nil {
					return inFlow(id, node, err)
				}
				a.printErrf("node %q of flow %q skipped", node, id)
				return nil
			})
		},
	}
	addBulk(cmd)
	return cmd
}

// commandLine returns a command of this program with arguments, for a shell.
func commandLine(command string, args ...string) string {
	line := "asynq " + command
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
		line += " --"
	}
	for _, arg := range args {
		line += " " + quotedWord(arg)
	}
	return line
}

// flowIDs completes arguments with the IDs of flows, newest first.
func (a *app) flowIDs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) (ids []string, err error) {
		var total int
		for f, err := range flows(cmd.Context(), flow.Inspect(i), 0, maxCompletions, &total) {
			if err != nil {
				break // those that were found in time
			}
			if !slices.Contains(args, f.ID) {
				ids = append(ids, f.ID)
			}
		}
		return ids, nil
	})
}

// flowNodes completes with the ID of a flow, and then with its nodes that can be skipped.
func (a *app) flowNodes(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.flowIDs(cmd, nil, begun)
	}
	return a.completeFromRedis(cmd, begun, func(i *asynq.Inspector) (names []string, err error) {
		f, err := flow.Inspect(i).Get(cmd.Context(), args[0])
		if err != nil {
			return nil, err
		}
		for n := range f.Nodes {
			if name := f.Nodes[n].Name; f.Nodes[n].Skippable() && !slices.Contains(args[1:], name) {
				names = append(names, name)
			}
		}
		return names, nil
	})
}
