package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/access"
	"github.com/asynq-go/asynq/internal/flow"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Inspector reads and changes flows. It is safe for concurrent use.
type Inspector struct {
	broker *rdb.Broker
	engine *flow.Engine
}

// Inspect returns an Inspector that uses the connection of i. It panics if i is nil.
func Inspect(i *asynq.Inspector) *Inspector {
	if i == nil {
		panic("flow: nil Inspector")
	}
	broker, tasks := access.Inspector(i)
	return &Inspector{broker, &flow.Engine{Broker: broker, Tasks: tasks}}
}

// Get returns the state of a flow. It returns ErrNotFound if there is none with the ID.
func (i *Inspector) Get(ctx context.Context, id string) (*Info, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	f, err := i.engine.Read(ctx, id)
	return newInfo(f), public(err)
}

// Result returns the result of a node that was added with Flow.Add, as Member.Result does.
func (i *Inspector) Result(ctx context.Context, id, node string) ([]byte, error) {
	return result(ctx, i.broker, id, "", node)
}

// List returns flows, the newest first: at most n, from 1 to 1,000, after skipping some. total is
// the number of all flows; it may count some that are no longer retained.
func (i *Inspector) List(ctx context.Context, skip, n int) (flows []*Info, total int, err error) {
	if ctx == nil {
		return nil, 0, errNilContext
	}
	if n < 1 || n > 1000 || skip < 0 {
		return nil, 0, fmt.Errorf("flow: skip %d and n %d, which must be at least 0 and from 1 to 1000", skip, n)
	}
	for len(flows) < n {
		ids, all, err := i.broker.Flows(ctx, int64(skip), int64(n-len(flows)))
		if err != nil {
			return nil, 0, public(err)
		}
		total = int(all)
		gone := []string{}
		for _, id := range ids {
			f, err := i.engine.Read(ctx, id)
			switch {
			case errors.Is(err, rdb.ErrFlowGone):
				gone = append(gone, id)
			case err != nil:
				return nil, 0, public(err)
			default:
				flows = append(flows, newInfo(f))
			}
		}
		removed, err := i.broker.UnlistFlows(ctx, gone)
		if refused := script.IgnoreRefused(err); refused != nil { // a user who may only read leaves them
			return nil, 0, public(refused)
		}
		if skip += len(ids) - removed; len(gone) == 0 {
			break
		}
	}
	return flows, total, nil
}

// Advance does at once what servers otherwise do within seconds: it reads which tasks of a flow
// have ended, also those that no server has reported, and starts the nodes that may start.
func (i *Inspector) Advance(ctx context.Context, id string) (*Info, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	f, err := i.engine.Update(ctx, id, flow.Update{Compare: rdb.CompareAll})
	return newInfo(f), public(err)
}

// ErrEnded reports that a flow has ended, ErrRunning that a node runs or has succeeded, ErrCanceled
// that the flow was canceled, and ErrNoNode that the flow has no node with the name.
var (
	ErrEnded    = errors.New("flow: the flow has ended")
	ErrRunning  = errors.New("flow: the node runs or has succeeded")
	ErrCanceled = errors.New("flow: the flow was canceled")
	ErrNoNode   = errors.New("flow: the flow has no such node")
)

// Cancel cancels a flow: no further node starts, tasks that wait are deleted, and active ones are
// canceled, and deleted if their handlers then return an error. It returns ErrEnded if the flow has
// ended; canceling it again continues a call that was interrupted.
func (i *Inspector) Cancel(ctx context.Context, id string) (*Info, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	f, err := i.engine.Cancel(ctx, id)
	return newInfo(f), public(err)
}

// Retry runs the archived tasks of a flow again, and lets nodes wait again that were canceled
// because of them. It returns the number of these tasks. Tasks that were deleted cannot be run
// again: Skip their node. It returns ErrCanceled if the flow was canceled.
func (i *Inspector) Retry(ctx context.Context, id string) (tasks int, info *Info, err error) {
	if ctx == nil {
		return 0, nil, errNilContext
	}
	tasks, f, err := i.engine.Retry(ctx, id)
	return tasks, newInfo(f), public(err)
}

// Skip makes a node that waits, has failed, was canceled or omitted count as succeeded. Archived
// tasks of the node stay archived. It returns ErrRunning if the node runs or has succeeded,
// ErrCanceled if the flow was canceled, and ErrNoNode. If the node starts at this moment, its tasks
// may still run.
func (i *Inspector) Skip(ctx context.Context, id, node string) (*Info, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	f, err := i.engine.Skip(ctx, id, node)
	return newInfo(f), public(err)
}

// Status is the status of a flow or of a node.
type Status string

// The statuses.
const (
	Waiting   = Status(wire.FlowWaiting)   // node: for other nodes
	Running   = Status(wire.FlowRunning)   // tasks have not ended
	Blocked   = Status(wire.FlowBlocked)   // flow: nothing runs, and nodes wait for one that has failed
	Succeeded = Status(wire.FlowSucceeded) // all tasks have succeeded
	Failed    = Status(wire.FlowHasFailed) // all tasks have ended, and some have failed
	Canceled  = Status(wire.FlowCanceled)  // by Inspector.Cancel, or because a dependency failed
	Omitted   = Status(wire.FlowOmitted)   // node: what it depends on did not happen
	Skipped   = Status(wire.FlowSkipped)   // node: by Inspector.Skip; counts as succeeded
)

// Info is the state of a flow. Servers update it when a node starts or ends, when a task of it
// fails for the first time, and otherwise about once a second while tasks end.
type Info struct {
	ID      string
	Status  Status
	Created time.Time
	Changed time.Time // when the status last changed, or a call changed the flow; see NodeInfo for nodes
	Ended   time.Time // zero if it has not
	Nodes   []NodeInfo
}

// NodeInfo is the state of a node.
type NodeInfo struct {
	Name   string
	Status Status
	Batch  bool // it was added with AddBatch
	Open   bool // members can be added with Batch.Enqueue

	// The nodes on which it depends.
	After, AfterFailure, AfterEnd []string
	OnDependencyFailure           Policy

	// Queues and TaskIDs are those of the tasks that were named when the flow was started; of a
	// batch, only the queues are set.
	Queues  []string
	TaskIDs []string

	Total     int // tasks that were created; before the start, those that will be
	Succeeded int
	Failed    int // archived, and not succeeded since
	Deleted   int // before they succeeded

	Started, Ended time.Time // zero if it has not
}

// Pending returns the number of tasks that have not ended.
func (n *NodeInfo) Pending() int { return n.Total - n.Succeeded - n.Failed - n.Deleted }

// Skippable reports whether Inspector.Skip accepts the node, if the flow was not canceled: it
// neither runs nor counts as succeeded.
func (n *NodeInfo) Skippable() bool {
	return n.Status != Running && n.Status != Succeeded && n.Status != Skipped
}

// Node returns a node by its name, nil if there is none.
func (i *Info) Node(name string) *NodeInfo {
	for n := range i.Nodes {
		if i.Nodes[n].Name == name {
			return &i.Nodes[n]
		}
	}
	return nil
}

// Blockers returns the nodes because of which a flow is blocked: they have failed, and others wait
// for their success. It returns none unless the status of the flow is Blocked.
func (i *Info) Blockers() (failed []*NodeInfo) {
	if i.Status != Blocked {
		return nil
	}
	awaited := make(map[string]bool)
	for n := range i.Nodes {
		if node := &i.Nodes[n]; node.Status == Waiting && node.OnDependencyFailure == Block {
			for _, name := range node.After {
				awaited[name] = true
			}
		}
	}
	for n := range i.Nodes {
		if node := &i.Nodes[n]; node.Status == Failed && awaited[node.Name] {
			failed = append(failed, node)
		}
	}
	return failed
}

func newInfo(f *flow.Flow) *Info {
	if f == nil {
		return nil
	}
	r := f.Record
	info := &Info{ID: f.Plan.ID, Status: Status(r.Status), Created: timeOf(r.Created), Changed: timeOf(r.Changed), Ended: timeOf(r.Ended)}
	for i := range f.Plan.Nodes {
		p := &f.Plan.Nodes[i]
		n := r.Nodes[p.Name]
		out := NodeInfo{
			Name: p.Name, Status: Status(n.Status), Batch: p.Batch, Open: n.Open, OnDependencyFailure: Policy(p.Policy),
			Queues: n.Queues, Total: int(n.Made), Succeeded: int(n.Succeeded), Failed: int(n.Failed), Deleted: int(n.Deleted),
			Started: timeOf(n.Started), Ended: timeOf(n.Ended),
		}
		out.Total = max(out.Total, len(p.Tasks))
		out.setDependencies(p.After)
		for _, t := range p.Tasks {
			if !p.Batch {
				out.TaskIDs = append(out.TaskIDs, t.ID)
			}
			if len(n.Queues) == 0 && !slices.Contains(out.Queues, t.Queue) {
				out.Queues = append(out.Queues, t.Queue)
			}
		}
		info.Nodes = append(info.Nodes, out)
	}
	return info
}

// setDependencies sets the nodes on which a node depends.
func (n *NodeInfo) setDependencies(edges []wire.FlowEdge) {
	for _, e := range edges {
		switch e.On {
		case wire.FlowFailure:
			n.AfterFailure = append(n.AfterFailure, e.Node)
		case wire.FlowEnd:
			n.AfterEnd = append(n.AfterEnd, e.Node)
		default:
			n.After = append(n.After, e.Node)
		}
	}
}

// timeOf returns a time in Unix milliseconds, the zero time for 0.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
