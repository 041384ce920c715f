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
	headers   func(NodeInfo) map[string]string // may be nil
	err       error                            // the first one
}

// New returns an empty flow. Its ID identifies it on the Redis: Start creates it once. Start
// returns an error if the ID is blank, longer than 200 bytes, not UTF-8, begins with "}", or
// contains control characters.
func New(id string) *Flow { return &Flow{id: id, retention: DefaultRetention} }

// ID returns the ID of the flow.
func (f *Flow) ID() string { return f.id }

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

// WithHeaders returns a copy of the flow to whose tasks Start adds headers, such as a trace
// context. Start calls headers once for each node, in the order in which they were added. Its
// argument has the name of the node, its queues and dependencies, and the number of its tasks. The
// headers replace those of the tasks with the same key; an empty value removes one. If headers is
// nil, none are added. Members that are added later do not get them.
func (f *Flow) WithHeaders(headers func(n NodeInfo) map[string]string) *Flow {
	with := *f
	with.headers = headers
	return &with
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
	if f != nil {
		f = f.WithHeaders(nil)
	}
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
		all, err := n.prepare(now)
		if err == nil {
			err = f.addHeaders(n, all)
		}
		if err != nil {
			return nil, fmt.Errorf("flow: node %q: %w", n.name, err)
		}
		for _, made := range all {
			if err := encode(made, part, !n.batch); err != nil {
				return nil, fmt.Errorf("flow: node %q: %w", n.name, err)
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

// prepare prepares the tasks of a node.
func (n *Node) prepare(now time.Time) ([]*access.Task, error) {
	all := make([]*access.Task, len(n.tasks))
	for i, t := range n.tasks {
		made, err := prepare(t, now)
		if err != nil {
			return nil, err
		}
		if made.OwnID {
			return nil, errors.New("the task of a node cannot have a TaskID")
		}
		all[i] = made
	}
	return all, nil
}

// addHeaders adds the headers of WithHeaders to the tasks of a node.
func (f *Flow) addHeaders(n *Node, tasks []*access.Task) error {
	if f.headers == nil {
		return nil
	}
	info := NodeInfo{
		Name: n.name, Status: Waiting, Batch: n.batch, Open: n.open, OnDependencyFailure: n.policy, Total: len(tasks),
	}
	info.setDependencies(n.after)
	for _, t := range tasks {
		if !slices.Contains(info.Queues, t.New.Queue) {
			info.Queues = append(info.Queues, t.New.Queue)
		}
	}
	headers := f.headers(info)
	if _, reserved := headers[wire.ExtHeader]; reserved {
		return fmt.Errorf("the header %q is reserved: use another name", wire.ExtHeader)
	}
	for _, t := range tasks {
		if t.Message.Headers == nil {
			t.Message.Headers = make(map[string]string, len(headers))
		}
		for key, value := range headers {
			if value == "" {
				delete(t.Message.Headers, key)
			} else {
				t.Message.Headers[key] = value
			}
		}
	}
	return nil
}

// prepare prepares a task of a flow.
func prepare(t task, now time.Time) (*access.Task, error) {
	if t.opts == nil {
		t.opts = []asynq.Option{}
	}
	return access.NewTask(t.task, t.opts, now)
}

// encode makes a task a member of a part. only states that it is the only one of its node.
func encode(made *access.Task, part wire.FlowPart, only bool) (err error) {
	made.Message.SetFlowPart(part, only)
	if made.New.Message, err = made.Message.Encode(); err != nil {
		return fmt.Errorf("asynq: task cannot be stored: %w", err)
	}
	return nil
}
