package cli

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/nodes"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// flowDetails is a flow with its nodes in machine-readable output.
type flowDetails struct {
	*flowRow

	NodeList  []*nodeRow `json:"nodes"`
	BlockedBy []blocker  `json:"blocked_by"` // empty unless the flow is blocked
}

// nodeRow is a node of a flow in machine-readable output.
type nodeRow struct {
	Name      string      `json:"name"`
	Status    flow.Status `json:"status"`
	Batch     bool        `json:"batch"`
	Open      bool        `json:"open"` // members can be added from outside
	Tasks     int         `json:"tasks"`
	Succeeded int         `json:"succeeded"`
	Failed    int         `json:"failed"`
	Deleted   int         `json:"deleted"`
	Pending   int         `json:"pending"`
	WaitsFor  []string    `json:"waits_for"`
	Queues    []string    `json:"queues"`
	TaskIDs   []string    `json:"task_ids"` // of nodes that are not batches
	StartedAt *time.Time  `json:"started_at"`
	EndedAt   *time.Time  `json:"ended_at"`
}

// blocker is a node that has failed, and for which others wait.
type blocker struct {
	Node    string   `json:"node"`
	Failed  int      `json:"failed"`
	Deleted int      `json:"deleted"`
	Waiting []string `json:"waiting"`

	queues []string
	taskID string // of the only task, if it is archived
}

func newFlowDetails(f *flow.Info) *flowDetails {
	d := &flowDetails{flowRow: newFlowRow(f), NodeList: []*nodeRow{}, BlockedBy: blockers(f)}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		row := &nodeRow{
			Name: n.Name, Status: n.Status, Batch: n.Batch, Tasks: n.Total, Succeeded: n.Succeeded, Failed: n.Failed, Deleted: n.Deleted,
			WaitsFor: nodes.WaitsFor(f, n), Queues: append([]string{}, n.Queues...), TaskIDs: append([]string{}, n.TaskIDs...),
			StartedAt: moment(n.Started), EndedAt: moment(n.Ended),
		}
		if !nodes.Ended(n) {
			row.Open, row.Pending = n.Open, n.Pending()
		}
		d.NodeList = append(d.NodeList, row)
	}
	return d
}

// blockers returns the nodes because of which a flow is blocked.
func blockers(f *flow.Info) []blocker {
	found := []blocker{}
	for _, d := range f.Blockers() {
		b := blocker{Node: d.Name, Failed: d.Failed, Deleted: d.Deleted, Waiting: []string{}, queues: d.Queues}
		if len(d.TaskIDs) == 1 && len(d.Queues) == 1 && d.Failed == 1 {
			b.taskID = d.TaskIDs[0]
		}
		for w := range f.Nodes {
			if n := &f.Nodes[w]; n.Status == flow.Waiting && slices.Contains(n.After, d.Name) && !nodes.Met(n, d) {
				b.Waiting = append(b.Waiting, n.Name)
			}
		}
		found = append(found, b)
	}
	return found
}

func newFlowInspect(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inspect ID…",
		Aliases: []string{"get", "show"},
		Short:   "Show flows with their nodes",
		Long: `Show flows with the status and the tasks of each node, and what it waits for. The command says why a flow is
blocked, and which commands let it continue.`,
		Example:           "  asynq flow inspect order-42\n  asynq flow inspect order-42 --watch",
		Args:              argsFrom(1, -1),
		ValidArgsFunction: a.flowIDs,
		RunE: func(cmd *cobra.Command, ids []string) error {
			i, err := a.inspector(cmd)
			if err != nil {
				return err
			}
			return listBlocks(a, cmd, func() iter.Seq2[*flowDetails, error] {
				return rowsOf(a, ids, func(id string) ([]*flowDetails, error) {
					f, err := flow.Inspect(i).Get(cmd.Context(), id)
					if err != nil {
						return nil, inFlow(id, "", err)
					}
					return []*flowDetails{newFlowDetails(f)}, nil
				})
			}, writeFlow)
		},
	}
	addOutput(cmd)
	addWatch(cmd)
	return cmd
}

var nodeColumns = []out.Column[*nodeRow]{
	{Head: "NODE", Shrink: 12, Cell: func(n *nodeRow) string { return n.Name }},
	{Head: "STATUS", Cell: func(n *nodeRow) string { return string(n.Status) }, Style: func(n *nodeRow) out.Style { return statusStyle(n.Status) }},
	count("TASKS", out.Plain, func(n *nodeRow) int { return n.Tasks }),
	count("SUCCEEDED", out.Good, func(n *nodeRow) int { return n.Succeeded }),
	count("FAILED", out.Bad, func(n *nodeRow) int { return n.Failed }),
	count("DELETED", out.Bad, func(n *nodeRow) int { return n.Deleted }),
	{Head: "WAITS FOR", Shrink: 20, Cell: func(n *nodeRow) string { return orHyphen(n.WaitsFor) }},
	{Head: "QUEUES", Wide: true, Cell: func(n *nodeRow) string { return orHyphen(n.Queues) }},
	{Head: "TASK ID", Wide: true, Cell: func(n *nodeRow) string { return orHyphen(n.TaskIDs) }},
	{Head: "STARTED", Wide: true, Cell: func(n *nodeRow) string { return momentText(n.StartedAt) }},
	{Head: "ENDED", Wide: true, Cell: func(n *nodeRow) string { return momentText(n.EndedAt) }},
}

func orHyphen(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ", ")
}

// writeFlow writes a flow as text.
func writeFlow(w io.Writer, o out.Options, f *flowDetails) error {
	since := func(t time.Time) string {
		return fmt.Sprintf("%s (%s ago)", out.Time(t), max(time.Since(t), 0).Round(time.Second))
	}
	fields := []out.Field{
		{Name: "Flow", Value: f.ID},
		{Name: "Status", Value: f.Status, Style: statusStyle(f.Status)},
		{Name: "Created", Value: since(f.CreatedAt)},
		{Name: "Changed", Value: since(f.ChangedAt)},
	}
	if f.EndedAt != nil {
		fields = append(fields, out.Field{Name: "Ended", Value: since(*f.EndedAt)})
	}
	if err := out.Fields(w, o, append(fields, out.Field{})); err != nil {
		return err
	}
	if err := out.List(w, o, nodeColumns, all(f.NodeList)); err != nil {
		return err
	}
	_, err := io.WriteString(w, f.advice())
	return err
}

// advice says why a flow is blocked, and what lets it continue.
func (f *flowDetails) advice() string {
	if len(f.BlockedBy) == 0 {
		return ""
	}
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(out.Clean(fmt.Sprintf(format, args...)) + "\n") }
	command := func(purpose, command string) { line("%-39s %s", purpose+":", command) }
	archived := false
	for _, by := range f.BlockedBy {
		var ended []string
		if by.Failed > 0 {
			archived, ended = true, append(ended, fmt.Sprintf("%s archived", plural(by.Failed, "task")))
		}
		if by.Deleted > 0 {
			ended = append(ended, fmt.Sprintf("%s deleted", plural(by.Deleted, "task")))
		}
		line("")
		line("Blocked: %s for the success of %q, which has failed: %s.", waiting(by.Waiting), by.Node, strings.Join(ended, ", "))
		switch {
		case by.taskID != "":
			command("See its error", commandLine("task inspect --queue="+quotedWord(by.queues[0]), by.taskID))
		case by.Failed > 0:
			for _, queue := range by.queues {
				only := filterTerm("flow", f.ID) + " " + filterTerm("node", by.Node)
				command("See their errors", commandLine("task ls --queue="+quotedWord(queue)+" --state=archived --filter="+quotedWord(only)))
			}
		}
	}
	line("")
	if archived {
		command("Run the archived tasks again", commandLine("flow retry", f.ID))
	}
	for _, by := range f.BlockedBy {
		command("Continue as if the node had succeeded", commandLine("flow skip", f.ID, by.Node))
	}
	return b.String()
}

// filterTerm returns a term of the filter language that selects tasks by the whole text of a field.
func filterTerm(field, text string) string {
	if strings.ContainsAny(text, ` "\()`) {
		text = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
	}
	return field + "=" + text
}

// waiting names the nodes that wait.
func waiting(nodes []string) string {
	if len(nodes) == 1 {
		return fmt.Sprintf("node %q waits", nodes[0])
	}
	const most = 5
	if len(nodes) > most {
		return fmt.Sprintf("%d nodes wait", len(nodes))
	}
	return "nodes " + quotedNames(nodes) + " wait"
}
