package flow

import (
	"slices"

	"github.com/asynq-go/asynq/internal/wire"
)

// Flow is a plan with its record. Its methods are pure: they neither read the clock nor call Redis.
type Flow struct {
	Plan   *wire.FlowPlan
	Record *wire.FlowRecord
}

// New returns a flow that has not started, created at a time in Unix milliseconds.
func New(plan *wire.FlowPlan, now int64) *Flow {
	r := &wire.FlowRecord{
		Version: 1, Run: plan.Run, Status: wire.FlowRunning, Created: now, Changed: now,
		Nodes: make(map[string]*wire.FlowNode, len(plan.Nodes)),
	}
	for _, p := range plan.Nodes {
		r.Nodes[p.Name] = &wire.FlowNode{Status: wire.FlowWaiting, Open: p.Open}
	}
	return &Flow{Plan: plan, Record: r}
}

// Part returns the name of the parts of a node.
func (f *Flow) Part(node string) wire.FlowPart {
	return wire.FlowPart{Run: f.Record.Run, Node: node, Flow: f.Plan.ID}
}

// planned returns a node of the plan, nil if there is none.
func (f *Flow) planned(name string) *wire.FlowPlanNode {
	for i := range f.Plan.Nodes {
		if f.Plan.Nodes[i].Name == name {
			return &f.Plan.Nodes[i]
		}
	}
	return nil
}

// Counts are the sums of the counters of a node over all its parts.
type Counts struct {
	Planned                          int64 // tasks of the plan that were created
	Made, Succeeded, Failed, Deleted int64
	Open                             int64 // members that have not ended
}

// Count sets the counters of a node to what its parts have. It returns false if the node has none.
func (f *Flow) Count(name string, c Counts, now int64) bool {
	n, p := f.Record.Nodes[name], f.planned(name)
	if n == nil || p == nil || n.Status == wire.FlowWaiting {
		return false
	}
	n.Made, n.Succeeded, n.Failed, n.Deleted = c.Made, c.Succeeded, c.Failed, c.Deleted
	if n.Failed+n.Deleted > 0 {
		n.HasFailed = true
	}
	if n.Status != wire.FlowRunning && n.Status != wire.FlowHasFailed {
		return true
	}
	before := n.Status
	switch {
	case n.Open || c.Planned < int64(len(p.Tasks)) || c.Open > 0:
		n.Status = wire.FlowRunning
	case c.Failed+c.Deleted > 0 && f.Record.Canceled:
		n.Status = wire.FlowCanceled
	case c.Failed+c.Deleted > 0:
		n.Status = wire.FlowHasFailed
	default:
		n.Status = wire.FlowSucceeded
	}
	if n.Status == wire.FlowRunning {
		n.Ended = 0
	} else if n.Status != before {
		n.Ended = now
	}
	return true
}

// edge is what a dependency means for a node that waits for it.
type edge int

const (
	edgeWaits  edge = iota
	edgeMet         // the node may start
	edgeBlocks      // it has failed, and the node waits until it succeeds after all
	edgeOmits       // what the node waits for did not happen
	edgeBreaks      // it has failed, and the node must not run
)

// look returns the state of a dependency.
func (f *Flow) look(p *wire.FlowPlanNode, e wire.FlowEdge) edge {
	n := f.Record.Nodes[e.Node]
	switch e.On {
	case wire.FlowFailure:
		switch {
		case n.HasFailed:
			return edgeMet
		case n.Status.Ended():
			return edgeOmits
		}
		return edgeWaits
	case wire.FlowEnd:
		if n.Status.Ended() {
			return edgeMet
		}
		return edgeWaits
	}
	switch n.Status {
	case wire.FlowSucceeded, wire.FlowSkipped:
		return edgeMet
	case wire.FlowOmitted:
		if p.Policy == wire.FlowIgnore {
			return edgeMet
		}
		return edgeOmits
	case wire.FlowCanceled:
		if p.Policy == wire.FlowIgnore {
			return edgeMet
		}
		return edgeBreaks
	case wire.FlowHasFailed:
		switch p.Policy {
		case wire.FlowIgnore:
			return edgeMet
		case wire.FlowCancel:
			return edgeBreaks
		}
		return edgeBlocks
	case wire.FlowWaiting, wire.FlowRunning, wire.FlowBlocked:
	}
	return edgeWaits
}

// Advance decides which waiting nodes start, are canceled or omitted, and sets the status of the
// flow. It returns the nodes that have started: their tasks must be created.
func (f *Flow) Advance(now int64) (started []string) {
	r := f.Record
	for i := range f.Plan.Nodes { // in the order of their dependencies, so one pass is enough
		p := &f.Plan.Nodes[i]
		n := r.Nodes[p.Name]
		if n.Status != wire.FlowWaiting {
			continue
		}
		var all []edge
		for _, e := range p.After {
			all = append(all, f.look(p, e))
		}
		switch {
		case r.Canceled:
			n.Status, n.Ended = wire.FlowCanceled, now
		case slices.Contains(all, edgeWaits): // so that the result does not depend on the order of the ends
		case slices.Contains(all, edgeBreaks):
			n.Status, n.Ended = wire.FlowCanceled, now
		case slices.Contains(all, edgeOmits):
			n.Status, n.Ended = wire.FlowOmitted, now
		case slices.Contains(all, edgeBlocks):
		case len(p.Tasks) == 0 && !n.Open:
			n.Status, n.Started, n.Ended, n.Created = wire.FlowSucceeded, now, now, true
		default:
			n.Status, n.Started = wire.FlowRunning, now
			for _, t := range p.Tasks {
				if !slices.Contains(n.Queues, t.Queue) {
					n.Queues = append(n.Queues, t.Queue)
				}
			}
			started = append(started, p.Name)
		}
	}
	f.setStatus(now)
	return started
}

// setStatus sets the status of the flow from that of its nodes.
func (f *Flow) setStatus(now int64) {
	r := f.Record
	count := make(map[wire.FlowStatus]int)
	for _, n := range r.Nodes {
		count[n.Status]++
	}
	before := r.Status
	switch {
	case count[wire.FlowRunning] > 0:
		r.Status = wire.FlowRunning
	case count[wire.FlowWaiting] > 0:
		r.Status = wire.FlowBlocked
	case r.Canceled:
		r.Status = wire.FlowCanceled
	case count[wire.FlowHasFailed]+count[wire.FlowCanceled] > 0:
		r.Status = wire.FlowHasFailed
	default:
		r.Status = wire.FlowSucceeded
	}
	if r.Status != before {
		r.Changed = now
	}
	if !r.Status.Ended() {
		r.Ended = 0
	} else if r.Ended == 0 {
		r.Ended = now
	}
}

// Stop cancels the flow: no further node starts. Nodes that run end once their members have.
func (f *Flow) Stop(now int64) {
	f.Record.Canceled, f.Record.Changed = true, now
	for _, n := range f.Record.Nodes {
		n.Open = false
	}
}

// Skip makes a node count as succeeded. It returns false if the node runs, or has succeeded or was
// skipped before.
func (f *Flow) Skip(name string, now int64) bool {
	n := f.Record.Nodes[name]
	if n == nil || n.Status == wire.FlowRunning || n.Status == wire.FlowSucceeded || n.Status == wire.FlowSkipped {
		return false
	}
	n.Status, n.Ended, f.Record.Changed = wire.FlowSkipped, now, now
	return true
}

// Revive makes nodes wait again that were canceled or omitted because of others. It returns their
// names. A flow that was canceled on request stays canceled.
func (f *Flow) Revive(now int64) (revived []string) {
	if f.Record.Canceled {
		return nil
	}
	for i := range f.Plan.Nodes {
		p := &f.Plan.Nodes[i]
		if n := f.Record.Nodes[p.Name]; n.Status == wire.FlowCanceled {
			*n = wire.FlowNode{Status: wire.FlowWaiting, Open: p.Open}
			revived = append(revived, p.Name)
		}
	}
	if len(revived) > 0 {
		f.Record.Changed = now
	}
	return revived
}
