// Package nodes describes nodes of flows, for the commands and the dashboard.
package nodes

import (
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// Ended reports whether a node neither waits nor runs.
func Ended(n *flow.NodeInfo) bool { return n.Status != flow.Waiting && n.Status != flow.Running }

// WaitsFor describes what a node waits for before it starts or ends.
func WaitsFor(f *flow.Info, n *flow.NodeInfo) []string {
	waits := []string{}
	switch n.Status {
	case flow.Waiting:
		for _, name := range n.After {
			if d := f.Node(name); d != nil && !Met(n, d) {
				waits = append(waits, "success of "+name)
			}
		}
		for _, name := range n.AfterFailure {
			if d := f.Node(name); d != nil && !Ended(d) && d.Failed+d.Deleted == 0 {
				waits = append(waits, "failure of "+name)
			}
		}
		for _, name := range n.AfterEnd {
			if d := f.Node(name); d != nil && !Ended(d) {
				waits = append(waits, "end of "+name)
			}
		}
	case flow.Running:
		switch left := n.Pending(); {
		case left == 1:
			waits = append(waits, "1 task")
		case left > 1:
			waits = append(waits, out.Number(left)+" tasks")
		}
		if n.Open {
			waits = append(waits, "the batch to be closed")
		}
	}
	return waits
}

// Met reports whether a node that runs after the success of d need not wait for it.
func Met(n, d *flow.NodeInfo) bool {
	return d.Status == flow.Succeeded || d.Status == flow.Skipped || Ended(d) && n.OnDependencyFailure == flow.Ignore
}
