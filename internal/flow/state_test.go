package flow_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/asynq-go/asynq/internal/flow"
	"github.com/asynq-go/asynq/internal/wire"
)

// randomPlan returns a plan of nodes with random dependencies, policies and numbers of tasks.
func randomPlan(r *rand.Rand, nodes int) *wire.FlowPlan {
	p := &wire.FlowPlan{ID: "f", Run: "r", Retention: 60}
	for i := range nodes {
		n := wire.FlowPlanNode{
			Name: fmt.Sprint(i), Policy: []string{wire.FlowBlock, wire.FlowBlock, wire.FlowCancel, wire.FlowIgnore}[r.IntN(4)],
			Tasks: make([]wire.FlowTask, []int{0, 1, 1, 1, 1, 3}[r.IntN(6)]),
		}
		for t := range n.Tasks {
			n.Tasks[t] = wire.FlowTask{Queue: fmt.Sprint("q", r.IntN(3)), ID: fmt.Sprint(i, "-", t)}
		}
		for _, dep := range r.Perm(i)[:min(i, r.IntN(4))] {
			on := []string{wire.FlowSuccess, wire.FlowSuccess, wire.FlowSuccess, wire.FlowFailure, wire.FlowEnd}[r.IntN(5)]
			n.After = append(n.After, wire.FlowEdge{Node: fmt.Sprint(dep), On: on})
		}
		p.Nodes = append(p.Nodes, n)
	}
	return p
}

// interpret returns the statuses that the nodes of a plan end with, given the tasks that fail.
func interpret(p *wire.FlowPlan, fails map[string]bool) map[string]wire.FlowStatus {
	status := make(map[string]wire.FlowStatus)
	for _, n := range p.Nodes {
		waits, cancels, omits, blocks := false, false, false, false
		for _, e := range n.After {
			switch dep := status[e.Node]; {
			case dep == wire.FlowWaiting:
				waits = true
			case e.On == wire.FlowEnd:
			case e.On == wire.FlowFailure:
				omits = omits || dep != wire.FlowHasFailed
			case dep == wire.FlowSucceeded || n.Policy == wire.FlowIgnore:
			case dep == wire.FlowOmitted:
				omits = true
			case dep == wire.FlowCanceled || n.Policy == wire.FlowCancel:
				cancels = true
			default:
				blocks = true
			}
		}
		switch {
		case waits:
			status[n.Name] = wire.FlowWaiting
		case cancels:
			status[n.Name] = wire.FlowCanceled
		case omits:
			status[n.Name] = wire.FlowOmitted
		case blocks:
			status[n.Name] = wire.FlowWaiting
		case slices.ContainsFunc(n.Tasks, func(t wire.FlowTask) bool { return fails[t.ID] }):
			status[n.Name] = wire.FlowHasFailed
		default:
			status[n.Name] = wire.FlowSucceeded
		}
	}
	return status
}

// Random flows, whose tasks end in random orders, end as an interpreter says, and start each node
// once, after those that it depends on.
func TestRandomFlows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := randomPlan(r, 1+r.IntN(12))
		fails := make(map[string]bool)
		for _, n := range p.Nodes {
			for _, task := range n.Tasks {
				fails[task.ID] = r.IntN(5) == 0
			}
		}
		f := flow.New(p, 1)
		counts := make(map[string]*flow.Counts)
		var running []wire.FlowTask
		nodeOf := make(map[string]string)
		start := func(names []string) {
			for _, name := range names {
				if counts[name] != nil {
					t.Fatalf("seed %d: node %s started twice", seed, name)
				}
				counts[name] = &flow.Counts{}
				for _, n := range p.Nodes {
					if n.Name != name {
						continue
					}
					for _, e := range n.After {
						if s := f.Record.Nodes[e.Node].Status; s == wire.FlowWaiting || e.On != wire.FlowFailure && s == wire.FlowRunning {
							t.Fatalf("seed %d: node %s started while %s is %s", seed, name, e.Node, s)
						}
					}
					for _, task := range n.Tasks {
						nodeOf[task.ID] = name
						running = append(running, task)
						counts[name].Planned++
						counts[name].Made++
						counts[name].Open++
					}
				}
			}
		}
		now := int64(1)
		for start(f.Advance(now)); len(running) > 0; start(f.Advance(now)) {
			now++
			i := r.IntN(len(running))
			id := running[i].ID
			running = slices.Delete(running, i, i+1)
			c := counts[nodeOf[id]]
			c.Open--
			if fails[id] {
				c.Failed++
			} else {
				c.Succeeded++
			}
			f.Count(nodeOf[id], *c, now)
		}
		got := make(map[string]wire.FlowStatus)
		for name, n := range f.Record.Nodes {
			got[name] = n.Status
		}
		if want := interpret(p, fails); !maps.Equal(got, want) {
			t.Fatalf("seed %d: nodes are %v, want %v", seed, got, want)
		}
		wantEnded(t, seed, f)
	}
}

// wantEnded requires that the status of a flow fits to those of its nodes.
func wantEnded(t *testing.T, seed uint64, f *flow.Flow) {
	t.Helper()
	want := wire.FlowSucceeded
	for _, n := range f.Record.Nodes {
		switch {
		case n.Status == wire.FlowWaiting:
			want = wire.FlowBlocked
		case want != wire.FlowBlocked && (n.Status == wire.FlowHasFailed || n.Status == wire.FlowCanceled):
			want = wire.FlowHasFailed
		}
		if n.Status.Ended() != (n.Ended > 0) {
			t.Fatalf("seed %d: a node is %s and ended at %d", seed, n.Status, n.Ended)
		}
	}
	if f.Record.Status != want || (f.Record.Ended > 0) != (want != wire.FlowBlocked) {
		t.Fatalf("seed %d: the flow is %s, ended at %d, want %s", seed, f.Record.Status, f.Record.Ended, want)
	}
}

// Tasks that failed and succeed later continue the flow: it ends as if they had not failed, but for
// the branches of the failure.
func TestFailedTasksSucceedLater(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := randomPlan(r, 1+r.IntN(12))
		for i := range p.Nodes {
			n := &p.Nodes[i]
			n.Policy = wire.FlowBlock
			for e := range n.After {
				n.After[e].On = wire.FlowSuccess
			}
		}
		f := flow.New(p, 1)
		counts := make(map[string]*flow.Counts)
		for step := int64(2); ; step++ {
			for _, name := range f.Advance(step) {
				counts[name] = &flow.Counts{}
				for _, n := range p.Nodes {
					if n.Name == name {
						size := int64(len(n.Tasks))
						*counts[name] = flow.Counts{Planned: size, Made: size, Open: size}
					}
				}
			}
			var open []string
			for name, c := range counts {
				if c.Open+c.Failed > 0 {
					open = append(open, name)
				}
			}
			if len(open) == 0 {
				break
			}
			slices.Sort(open)
			name := open[r.IntN(len(open))]
			switch c := counts[name]; {
			case c.Open > 0 && r.IntN(3) == 0:
				c.Open, c.Failed = c.Open-1, c.Failed+1
			case c.Open > 0:
				c.Open, c.Succeeded = c.Open-1, c.Succeeded+1
			default:
				c.Failed, c.Succeeded = c.Failed-1, c.Succeeded+1
			}
			f.Count(name, *counts[name], step)
		}
		if f.Record.Status != wire.FlowSucceeded {
			t.Fatalf("seed %d: the flow is %s", seed, f.Record.Status)
		}
	}
}
