package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/access"
	"github.com/asynq-go/asynq/internal/wire"
)

// DefaultRetention is how long a flow that has ended can be read.
const DefaultRetention = 7 * 24 * time.Hour

// The limits of a flow. Members that are added while it runs do not count.
const (
	MaxNodes = wire.MaxFlowNodes // nodes
	MaxTasks = wire.MaxFlowTasks // tasks of all nodes together
	MaxBytes = wire.MaxFlowBytes // bytes of their encoded messages
)

// Flow describes nodes and their dependencies. It is a value in memory until Start creates it. It
// is not safe for concurrent use.
type Flow struct {
	id        string
	retention time.Duration
	nodes     []*Node
	err       error // the first one
}

// New returns an empty flow. Its ID identifies it on the Redis: Start creates it once. Start
// returns an error if the ID is blank, longer than 200 bytes, not UTF-8, begins with "}", or
// contains control characters.
func New(id string) *Flow { return &Flow{id: id, retention: DefaultRetention} }

// Retention sets how long the flow and its results can be read after its end, rounded up to whole
// seconds. The default is DefaultRetention; the minimum is a second. A flow that does not end is
// deleted 30 days after it last changed.
func (f *Flow) Retention(d time.Duration) *Flow {
	f.retention = d
	if d <= 0 {
		f.fail(fmt.Errorf("flow: Retention(%v) must be positive", d))
	}
	return f
}

func (f *Flow) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// Node is a node of a flow. Its methods return it.
type Node struct {
	flow  *Flow
	name  string
	tasks []task
	batch bool
	open  bool
	after []wire.FlowEdge

	policy Policy
}

// task is a task with its options.
type task struct {
	task *asynq.Task
	opts []asynq.Option
}

// Policy is what a node does if a node that it runs After fails, or was canceled because of a
// failure.
type Policy string

// The policies.
const (
	Block  Policy = wire.FlowBlock  // wait until the failed tasks are run again and succeed, or the node is skipped; the default
	Cancel Policy = wire.FlowCancel // do not run; nodes that run after this one see it as canceled
	Ignore Policy = wire.FlowIgnore // run all the same
)

// Add adds a node of one task. opts override the options of the task. ProcessIn counts from when
// the node starts; ExpiresIn from the call of Start. A task of a flow cannot have TaskID, Group,
// Unique, UniqueKey, IdempotencyKey, Debounce or Throttle. Start returns an error if name is blank,
// longer than 100 bytes, not UTF-8, in use, or contains a colon or control characters.
func (f *Flow) Add(name string, t *asynq.Task, opts ...asynq.Option) *Node {
	return f.add(&Node{flow: f, name: name, tasks: []task{{t, opts}}})
}

// AddBatch adds a node of any number of tasks, also none. The node succeeds when all of them have,
// and those that their handlers add: see Member.Enqueue. opts apply to all tasks.
func (f *Flow) AddBatch(name string, tasks []*asynq.Task, opts ...asynq.Option) *Node {
	n := &Node{flow: f, name: name, batch: true}
	for _, t := range tasks {
		n.tasks = append(n.tasks, task{t, opts})
	}
	return f.add(n)
}

func (f *Flow) add(n *Node) *Node {
	if err := wire.ValidateNodeName(n.name); err != nil {
		f.fail(fmt.Errorf("flow: %w", err))
	}
	if slices.ContainsFunc(f.nodes, func(other *Node) bool { return other.name == n.name }) {
		f.fail(fmt.Errorf("flow: two nodes have the name %q", n.name))
	}
	f.nodes = append(f.nodes, n)
	return n
}

// After makes the node start after all these have succeeded. See OnDependencyFailure for what
// happens if one fails. Nodes that are named several times, or here and in AfterEnd, must meet all
// conditions.
func (n *Node) After(nodes ...*Node) *Node { return n.depend(wire.FlowSuccess, nodes) }

// AfterFailure makes the node start as soon as a task of each of these nodes has failed. If one of
// them succeeds without a failure, the node is omitted.
func (n *Node) AfterFailure(nodes ...*Node) *Node { return n.depend(wire.FlowFailure, nodes) }

// AfterEnd makes the node start after all tasks of these nodes have ended: succeeded, were
// archived, deleted, canceled, or omitted.
func (n *Node) AfterEnd(nodes ...*Node) *Node { return n.depend(wire.FlowEnd, nodes) }

func (n *Node) depend(on string, nodes []*Node) *Node {
	at := slices.Index(n.flow.nodes, n)
	for _, other := range nodes {
		i := -1
		if other != nil {
			i = slices.Index(n.flow.nodes, other)
		}
		if i < 0 || i >= at {
			n.flow.fail(fmt.Errorf("flow: node %q must depend on nodes that were added to its flow before it", n.name))
			return n
		}
		n.after = append(n.after, wire.FlowEdge{Node: other.name, On: on})
	}
	return n
}

// OnDependencyFailure sets what the node does if a node that it runs After fails. The default is
// Block.
func (n *Node) OnDependencyFailure(p Policy) *Node {
	if p != Block && p != Cancel && p != Ignore {
		n.flow.fail(fmt.Errorf("flow: unknown policy %q", string(p)))
	}
	n.policy = p
	return n
}

// Name returns the name of the node.
func (n *Node) Name() string { return n.name }

// Chain returns a flow whose tasks run one after the other, each after the one before has
// succeeded. Its nodes are named "1", "2" and so on.
func Chain(id string, tasks ...*asynq.Task) *Flow {
	f := New(id)
	var last *Node
	for i, t := range tasks {
		n := f.Add(fmt.Sprint(i+1), t)
		if last != nil {
			n.After(last)
		}
		last = n
	}
	return f
}

// Validate returns the error that Start returns for a flow that is described wrongly, nil if there
// is none. It does not contact Redis.
func (f *Flow) Validate() error {
	_, err := f.plan(context.Background(), time.Now())
	return err
}

// plan returns the flow as it is stored.
func (f *Flow) plan(ctx context.Context, now time.Time) (*wire.FlowPlan, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if f == nil {
		return nil, errors.New("flow: nil flow")
	}
	if f.err != nil {
		return nil, f.err
	}
	if err := wire.ValidateFlowID(f.id); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	if len(f.nodes) > MaxNodes {
		return nil, fmt.Errorf("flow: %d nodes, the maximum is %d: use a batch", len(f.nodes), MaxNodes)
	}
	p := &wire.FlowPlan{
		ID: f.id, Run: strings.ReplaceAll(uuid.NewString(), "-", "")[:16],
		Retention: int64((f.retention + time.Second - 1) / time.Second),
	}
	count, bytes := 0, 0
	for _, n := range f.nodes {
		in := wire.FlowPlanNode{Name: n.name, Open: n.open, Batch: n.batch, After: n.after, Policy: string(n.policy)}
		part := wire.FlowPart{Run: p.Run, Node: n.name, Flow: p.ID}
		for _, t := range n.tasks {
			made, err := member(t, part, !n.batch, now)
			if err != nil {
				return nil, fmt.Errorf("flow: node %q: %w", n.name, err)
			}
			if made.OwnID {
				return nil, fmt.Errorf("flow: node %q: the task of a node cannot have a TaskID", n.name)
			}
			planned := wire.FlowTask{Queue: made.New.Queue, ID: made.New.ID, Message: made.New.Message}
			if made.Delay > 0 {
				planned.Delay = made.Delay.Milliseconds()
			} else if !made.ProcessAt.IsZero() {
				planned.At = made.ProcessAt.UnixMilli()
			}
			in.Tasks = append(in.Tasks, planned)
			count, bytes = count+1, bytes+len(made.New.Message)
		}
		p.Nodes = append(p.Nodes, in)
	}
	if count > MaxTasks || bytes > MaxBytes {
		return nil, fmt.Errorf("flow: %d tasks with %d bytes, the maximum is %d with %d: let the handler of a first task add the others",
			count, bytes, MaxTasks, MaxBytes)
	}
	return p, nil
}

// member prepares a task of a part.
func member(t task, part wire.FlowPart, only bool, now time.Time) (*access.Task, error) {
	if t.opts == nil {
		t.opts = []asynq.Option{}
	}
	made, err := access.NewTask(t.task, t.opts, now)
	if err != nil {
		return nil, err
	}
	made.Message.SetFlowPart(part, only)
	if made.New.Message, err = made.Message.Encode(); err != nil {
		return nil, fmt.Errorf("asynq: task cannot be stored: %w", err)
	}
	return made, nil
}
