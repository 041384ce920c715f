package ui

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/graph"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

const flowsAPage = 50

type flowsBody struct {
	Rows  []flowRow
	Pages pager
}

// flowRow is a flow in a table, or on its page.
type flowRow struct{ *flow.Info }

// Tasks returns the counts of the tasks of all nodes.
func (f flowRow) Tasks() (n flow.NodeInfo) {
	for _, node := range f.Nodes {
		n.Total, n.Succeeded = n.Total+node.Total, n.Succeeded+node.Succeeded
		n.Failed, n.Deleted = n.Failed+node.Failed, n.Deleted+node.Deleted
	}
	return n
}

// Why returns why a blocked flow does not continue, and what to do.
func (f flowRow) Why() string {
	if f.Status != flow.Blocked {
		return ""
	}
	const most = 3
	var nodes []string
	archived := 0
	blockers := f.Blockers()
	for _, n := range blockers[:min(len(blockers), most)] {
		failed := strings.ToLower(show.Plural(int64(n.Failed+n.Deleted), "task"))
		nodes = append(nodes, fmt.Sprintf("%s of %s failed", failed, show.Clip(n.Name, 60)))
		archived += n.Failed
	}
	if more := len(blockers) - most; more > 0 {
		nodes = append(nodes, fmt.Sprintf("%d other nodes failed", more))
	}
	text := strings.Join(nodes, ", ") + ", and other nodes wait for this."
	if archived == 0 {
		return text + " Deleted tasks cannot run again: skip their node."
	}
	return text + " Correct the cause and retry the flow, or skip the node."
}

// nodeState returns the task state whose color the status of a node or flow has.
func nodeState(s flow.Status) string {
	switch s {
	case flow.Running:
		return "active"
	case flow.Succeeded, flow.Skipped:
		return "completed"
	case flow.Failed, flow.Blocked:
		return "archived"
	case flow.Waiting:
		return "pending"
	case flow.Canceled, flow.Omitted:
	}
	return "scheduled"
}

// flows is the page with all flows, the newest first.
func (u *UI) flows(r *http.Request) (*view, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	from, err := pageStart(r, "page", flowsAPage)
	if err != nil {
		return nil, err
	}
	infos, total, err := u.inspect.List(ctx, from, flowsAPage)
	if err != nil {
		return nil, err
	}
	var body flowsBody
	for _, info := range infos {
		body.Rows = append(body.Rows, flowRow{info})
	}
	body.Pages = u.pager(r, "page", from, from+len(infos), max(total, from+len(infos)), flowsAPage)
	return &view{Template: "flows", Title: "Flows", Nav: "/flows", Body: body}, nil
}

type flowBody struct {
	flowRow
	Graph template.HTML
	Nodes []flowNodeRow
}

// flowNodeRow is a node in the table of its flow.
type flowNodeRow struct {
	flow.NodeInfo
	CanSkip bool
}

// Task returns the ID of the only task of the node, or "": while the node waits, it does not exist.
func (n flowNodeRow) Task() string {
	if len(n.TaskIDs) != 1 || len(n.Queues) != 1 || n.Started.IsZero() {
		return ""
	}
	return n.TaskIDs[0]
}

// Waits returns what the node depends on.
func (n flowNodeRow) Waits() string {
	var parts []string
	for _, kind := range []struct {
		names []string
		text  string
	}{{n.After, "success of "}, {n.AfterFailure, "failure in "}, {n.AfterEnd, "end of "}} {
		if len(kind.names) > 0 {
			parts = append(parts, kind.text+strings.Join(kind.names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// flow is the page of one flow.
func (u *UI) flow(r *http.Request) (*view, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	info, err := u.inspect.Get(ctx, r.URL.Query().Get("id"))
	if err != nil {
		return nil, flowError(err)
	}
	body := flowBody{flowRow: flowRow{info}, Graph: flowGraph(info)}
	for _, n := range info.Nodes {
		continues := info.Status != flow.Canceled && info.Status != flow.Succeeded // a failed one does if a node is skipped
		body.Nodes = append(body.Nodes, flowNodeRow{n, continues && n.Skippable()})
	}
	return &view{Template: "flow", Title: info.ID, Nav: "/flows", Body: body}, nil
}

// flowError returns the error page of an error of package flow.
func flowError(err error) error {
	switch {
	case errors.Is(err, flow.ErrNotFound):
		return notFound("There is no flow with this ID: it was never started, or its retention is over.")
	case errors.Is(err, flow.ErrNoNode):
		return notFound("The flow has no such node.")
	case errors.Is(err, flow.ErrEnded), errors.Is(err, flow.ErrRunning), errors.Is(err, flow.ErrCanceled):
		return &httpError{http.StatusConflict, sentence(strings.TrimPrefix(err.Error(), "flow: "))}
	}
	return err
}

// nodeName is the longest name in a box, in characters.
const nodeName = 22

// flowGraph draws the nodes of a flow.
func flowGraph(info *flow.Info) template.HTML {
	at := make(map[string]int, len(info.Nodes))
	for i, n := range info.Nodes {
		at[n.Name] = i
	}
	var edges []graph.Edge
	var classes []string
	for i, n := range info.Nodes {
		for _, kind := range []struct {
			names []string
			class string
		}{{n.After, ""}, {n.AfterFailure, " after-failure"}, {n.AfterEnd, " after-end"}} {
			for _, name := range kind.names {
				edges, classes = append(edges, graph.Edge{From: at[name], To: i}), append(classes, kind.class)
			}
		}
	}
	d := graph.Layout(len(info.Nodes), edges)
	var b strings.Builder
	const margin = 2
	fmt.Fprintf(&b, `<svg class="graph" role="group" aria-label="Graph of the nodes" width="%d" height="%d" viewBox="%d %d %d %d">`,
		d.Width+2*margin, d.Height+2*margin, -margin, -margin, d.Width+2*margin, d.Height+2*margin)
	b.WriteString(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 .8 7 4 0 7.2z"/></marker></defs>`)
	for i, line := range d.Lines {
		fmt.Fprintf(&b, `<path class="edge%s" marker-end="url(#arrow)" d="%s"/>`, classes[i], curve(line))
	}
	for i, n := range info.Nodes {
		p := d.Boxes[i]
		name, status := template.HTMLEscapeString(show.Clip(n.Name, nodeName)), nodeText(&n)
		fmt.Fprintf(&b, `<a class="node state-%s" href="#node-%d"><rect x="%d" y="%d" width="%d" height="%d" rx="7"/>`,
			nodeState(n.Status), i, p.X, p.Y, graph.BoxWidth, graph.BoxHeight)
		if n.Total > 0 && n.Status != flow.Waiting {
			done := float64(n.Total-n.Pending()) / float64(n.Total)
			fmt.Fprintf(&b, `<rect class="done" x="%d" y="%d" width="%.1f" height="4"/>`,
				p.X+1, p.Y+graph.BoxHeight-5, done*(graph.BoxWidth-2))
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d"><tspan class="name">%s</tspan> <tspan x="%d" dy="18">%s</tspan></text></a>`,
			p.X+12, p.Y+22, name, p.X+12, status)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) // names are escaped; the rest are numbers and statuses
}

// nodeText returns the status of a node in a few words.
func nodeText(n *flow.NodeInfo) string {
	text := string(n.Status)
	if n.Total > 1 {
		text += fmt.Sprintf(" · %s of %s", show.Number(int64(n.Succeeded)), show.Number(int64(n.Total)))
	}
	if failed := n.Failed + n.Deleted; failed > 0 && n.Total > 1 {
		text += fmt.Sprintf(", %s failed", show.Number(int64(failed)))
	}
	return text
}

// curve returns the path of a line: straight where it passes a layer, and curved between layers.
func curve(line []graph.Point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %d", line[0].X, line[0].Y)
	for i, p := range line[1:] {
		from := line[i]
		if i%2 == 1 {
			fmt.Fprintf(&b, "L%d %d", p.X, p.Y)
			continue
		}
		middle := (from.X + p.X) / 2
		fmt.Fprintf(&b, "C%d %d %d %d %d %d", middle, from.Y, middle, p.Y, p.X, p.Y)
	}
	return b.String()
}

// changeFlow cancels or retries a flow, or skips a node.
func (u *UI) changeFlow(w http.ResponseWriter, r *http.Request) (*view, error) {
	form := r.PostForm
	id, node := form.Get("id"), form.Get("node")
	action := access.Action{Verb: access.FlowChange, Flow: id}
	var ask question // without a Title, the change needs no confirmation
	var do func(ctx context.Context, i *flow.Inspector) (said string, err error)
	switch what := form.Get("do"); what {
	case "retry":
		do = func(ctx context.Context, i *flow.Inspector) (string, error) {
			n, _, err := i.Retry(ctx, id)
			if n == 0 {
				return "No task of the flow is archived: nothing to run again.", err
			}
			return show.Plural(int64(n), "task") + " will run again.", err
		}
	case "cancel":
		ask = question{
			Title: "Cancel the flow " + show.Clip(id, 80) + "?", Button: "Cancel the flow", Harm: true,
			Text: []string{"No further node starts. Tasks that wait are deleted, and active ones are canceled. This cannot be undone."},
		}
		do = func(ctx context.Context, i *flow.Inspector) (string, error) {
			_, err := i.Cancel(ctx, id)
			return "Flow canceled.", err
		}
	case "skip":
		action.Node = node
		ask = question{
			Title: "Skip the node " + show.Clip(node, 80) + "?", Button: "Skip the node", Harm: true,
			Text: []string{"It counts as succeeded, and nodes that wait for its success may start. Its archived tasks stay archived. This cannot be undone."},
		}
		do = func(ctx context.Context, i *flow.Inspector) (string, error) {
			_, err := i.Skip(ctx, id, node)
			return "Node skipped.", err
		}
	default:
		return nil, invalid("Unknown action %q: a flow can be canceled and retried, and its nodes skipped.", what)
	}
	if !u.Gate.Allow(w, r, action) {
		return nil, nil
	}
	if ask.Title != "" && form.Get("confirm") != "yes" {
		ask.Action = "/flow"
		ask.Fields = []field{{"do", form.Get("do")}, {"id", id}, {"node", node}, {"back", form.Get("back")}}
		return u.ask(r, ask)
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	said, err := do(ctx, u.inspect)
	u.report(w, r, action, flowError(err), said)
	return nil, nil
}
