package dash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/nodes"
)

// flowsPerPage is the number of flows on a page.
const flowsPerPage = 100

// listFlows reads a page of flows, the newest first.
func (f fetcher) listFlows(q query) (body, error) {
	found, total, err := f.flows.List(f.ctx, q.number*flowsPerPage, flowsPerPage)
	return body{flows: found, flowCount: total}, err
}

// openFlows shows the flows.
func (m *model) openFlows() {
	switch p := m.page(); p.view {
	case viewFlows:
	case viewFlow: // above the flows
		m.stack = m.stack[:len(m.stack)-1]
	default:
		m.push(page{view: viewFlows})
	}
}

// turnFlows shows the previous or the next page of flows.
func (m *model) turnFlows(key string) {
	p := m.page()
	b, ok, err := m.body()
	switch {
	case key == "<" && p.number > 0:
		p.number--
	case key == ">" && ok && err == nil && (p.number+1)*flowsPerPage < b.flowCount:
		p.number++
	default:
		return
	}
	m.move(0)
}

// flowTone returns the tone of the status of a flow or node.
func flowTone(s flow.Status) tone {
	switch s {
	case flow.Running:
		return accentTone
	case flow.Succeeded:
		return goodTone
	case flow.Blocked, flow.Failed:
		return badTone
	case flow.Canceled:
		return warnTone
	case flow.Waiting, flow.Omitted, flow.Skipped:
		return dimTone
	}
	return plainTone
}

// listFlows shows the flows.
func (m *model) listFlows() listing {
	l := listing{crumb: m.theme.paint(strongTone, "Flows"), empty: "Loading …"}
	b, ok, err := m.body()
	switch {
	case err != nil:
		l.empty = cleanLine(err.Error())
	case ok:
		l.empty = "There are no flows."
	}
	l.cols = []column{
		{title: "FLOW", minWidth: 10, maxWidth: 60}, {title: "STATUS"}, {title: "DONE %", right: true}, {title: "", rank: 3},
		{title: "NODES", right: true}, {title: "TASKS", right: true}, {title: "FAILED", right: true}, {title: "AGE", right: true, rank: 1},
		{title: "CHANGED", right: true, rank: 2},
	}
	for _, f := range b.flows {
		l.rows = append(l.rows, m.flowRow(f))
	}
	if ok && err == nil && len(b.flows) > 0 {
		from := m.page().number * flowsPerPage
		l.info = fmt.Sprintf("%s–%s of %s", number(from+1), number(from+len(b.flows)), number(max(b.flowCount, from+len(b.flows))))
	}
	return l
}

func (m *model) flowRow(f *flow.Info) row {
	ended, tasks, done, failed := 0, 0, 0, 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		tasks, failed = tasks+n.Total, failed+n.Failed+n.Deleted
		if nodes.Ended(n) {
			ended, done = ended+1, done+n.Total
		} else {
			done += n.Total - n.Pending()
		}
	}
	of := tasks
	if of == 0 { // open batches without members
		of, done = len(f.Nodes), ended
	}
	percent := 100.0
	if of > 0 {
		percent = float64(100*done) / float64(of)
	}
	part := text(fmt.Sprintf("%d/%d", ended, len(f.Nodes)))
	part.value = float64(ended)
	return row{key: f.ID, ref: ref{kind: refFlow, id: f.ID}, cells: []cell{
		toned(cleanLine(f.ID), strongTone), toned(string(f.Status), flowTone(f.Status)), {text: fmt.Sprintf("%.0f", percent), value: percent},
		toned(bar(done, of, 8), accentTone), part, count0(tasks, plainTone), count0(failed, badTone),
		m.since(f.Created), m.since(f.Changed),
	}}
}

// since returns a cell with the time since t.
func (m *model) since(t time.Time) cell {
	return cell{text: ago(t, m.now()), value: max(0, m.now().Sub(t))}
}

// flow returns the flow of the page, nil if it is not known.
func (m *model) flow() *flow.Info {
	if b, ok, err := m.body(); ok && err == nil && m.page().view == viewFlow && len(b.flows) == 1 {
		return b.flows[0]
	}
	return nil
}

// showFlow shows the nodes of a flow.
func (m *model) showFlow() listing {
	p := m.page()
	l := listing{crumb: m.theme.paint(dimTone, "Flows › ") + m.theme.paint(strongTone, cleanLine(p.id)), empty: "Loading …"}
	switch _, _, err := m.body(); {
	case errors.Is(err, flow.ErrNotFound):
		l.empty = "This flow no longer exists."
	case err != nil:
		l.empty = cleanLine(err.Error())
	}
	l.cols = []column{
		{title: "NODE", minWidth: 10, maxWidth: 40}, {title: "STATUS"}, {title: "TASKS", right: true}, {title: "SUCCEEDED", right: true},
		{title: "FAILED", right: true}, {title: "DELETED", right: true, rank: 1}, {title: "WAITS FOR", minWidth: 20, maxWidth: 60, shrink: 1},
		{title: "STARTED", right: true, rank: 2}, {title: "QUEUES", rank: 3, maxWidth: 30},
	}
	f := m.flow()
	if f == nil {
		return l
	}
	ended := 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if nodes.Ended(n) {
			ended++
		}
		l.rows = append(l.rows, m.nodeRow(f, n))
	}
	l.info = fmt.Sprintf("%s · %d of %s ended · %s old", f.Status, ended, plural(len(f.Nodes), "node"), ago(f.Created, m.now()))
	return l
}

func (m *model) nodeRow(f *flow.Info, n *flow.NodeInfo) row {
	r := ref{kind: refNode, id: f.ID, group: n.Name}
	if len(n.TaskIDs) == 1 && len(n.Queues) == 1 && !n.Started.IsZero() {
		r.kind, r.queue, r.task = refNodeTask, n.Queues[0], n.TaskIDs[0]
	}
	waits, started := toned("–", dimTone), toned("–", dimTone)
	if w := nodes.WaitsFor(f, n); len(w) > 0 {
		waits = text(cleanLine(strings.Join(w, ", ")))
	}
	if !n.Started.IsZero() {
		started = m.since(n.Started)
	}
	return row{key: n.Name, ref: r, cells: []cell{
		toned(cleanLine(n.Name), strongTone), toned(string(n.Status), flowTone(n.Status)), count0(n.Total, plainTone),
		count0(n.Succeeded, goodTone), count0(n.Failed, badTone), count0(n.Deleted, badTone), waits, started, text(cleanLine(strings.Join(n.Queues, ", "))),
	}}
}

// isFlow reports whether the item is a flow or a node of one.
func (r *ref) isFlow() bool { return r.kind == refFlow || r.kind == refNode || r.kind == refNodeTask }

// flowVerbs names the actions of keys on flows.
var flowVerbs = map[string]string{"r": "retry", "c": "cancel", "x": "skip"}

// flowOf returns a flow on the page, nil if it is not there.
func (m *model) flowOf(id string) *flow.Info {
	b, _, _ := m.body()
	for _, f := range b.flows {
		if f != nil && f.ID == id {
			return f
		}
	}
	return nil
}

// actionFlow returns the action of a key on a flow or a node, or nil if there is none.
func (m *model) actionFlow(key string, r *ref) (*action, error) {
	f := m.flowOf(r.id)
	if f == nil {
		return nil, nil
	}
	insp, id, name := m.insp, r.id, "flow "+r.id
	switch key {
	case "r":
		failed := 0
		for i := range f.Nodes {
			failed += f.Nodes[i].Failed
		}
		a := &action{verb: "Run again", of: plural(failed, "archived task") + " of " + name, all: true, do: func(ctx context.Context) (string, error) {
			n, _, err := flow.Inspect(insp).Retry(ctx, id)
			if n == 0 && err != nil {
				return "", flowError(err)
			}
			return plural(n, "archived task") + " of " + name + " run again", flowError(err)
		}}
		return a, cmp.Or(require(f.Status != flow.Canceled, "a canceled flow cannot be retried"), require(failed > 0, "no task of the flow is archived"))
	case "c":
		a := &action{verb: "Cancel", of: name, risky: true, all: true, do: func(ctx context.Context) (string, error) {
			_, err := flow.Inspect(insp).Cancel(ctx, id)
			if err != nil {
				return "", flowError(err)
			}
			return "canceled " + name, nil
		}}
		return a, require(f.Status == flow.Running || f.Status == flow.Blocked, "the flow has ended")
	case "x":
		n := f.Node(r.group)
		if r.kind == refFlow || n == nil {
			return nil, nil
		}
		of := "node " + n.Name + " of " + name
		a := &action{verb: "Skip", of: of + ", which is " + string(n.Status), risky: true, do: func(ctx context.Context) (string, error) {
			_, err := flow.Inspect(insp).Skip(ctx, id, n.Name)
			return "skipped " + of, flowError(err)
		}}
		return a, cmp.Or(require(f.Status != flow.Canceled, "nodes of a canceled flow cannot be skipped"),
			require(n.Skippable(), "a node that is "+string(n.Status)+" cannot be skipped"))
	}
	return nil, nil
}

// flowError returns the error of a change without its prefix.
func flowError(err error) error {
	for _, known := range []error{flow.ErrEnded, flow.ErrRunning, flow.ErrCanceled, flow.ErrNoNode, flow.ErrNotFound} {
		if errors.Is(err, known) {
			return errors.New(strings.TrimPrefix(known.Error(), "flow: "))
		}
	}
	return err
}
