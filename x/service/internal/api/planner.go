package api

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

// newNode is a node of a workflow, as sent by a client.
type newNode struct {
	Name                string    `json:"name"`
	Task                *newTask  `json:"task"`
	Tasks               []newTask `json:"tasks"`
	After               []string  `json:"after"`
	AfterFailure        []string  `json:"after_failure"`
	AfterEnd            []string  `json:"after_end"`
	OnDependencyFailure *string   `json:"on_dependency_failure"`
}

// planner builds the flow of a request, and collects all invalid values.
type planner struct {
	c       *Call
	flow    *flow.Flow
	nodes   map[string]*flow.Node
	plan    []flow.NodeInfo // what describes compares
	queues  []string
	edges   int
	wrong   []FieldError
	refused *Problem // of a task whose fields are valid
}

func newPlanner(c *Call, f *flow.Flow, retention *Duration) *planner {
	b := &planner{c: c, flow: f, nodes: make(map[string]*flow.Node)}
	if err := b.flow.Validate(); err != nil {
		b.add("/id", flowText(err))
	}
	switch {
	case retention == nil:
	case *retention == 0:
		b.add("/retention", "must be greater than zero")
	default:
		b.flow.Retention(time.Duration(*retention))
	}
	return b
}

// flowText returns the text of an error for clients.
func flowText(err error) string {
	text := strings.ReplaceAll(err.Error(), "asynq: ", "")
	return strings.TrimPrefix(text, "flow: ")
}

func (b *planner) add(pointer, detail string) {
	if len(b.wrong) < maxFaults {
		b.wrong = append(b.wrong, FieldError{pointer, detail})
	}
}

func (b *planner) failed() bool { return len(b.wrong) > 0 || b.refused != nil }

// countTasks returns an error if a request creates too many tasks.
func (c *Call) countTasks(n int) error {
	if n > c.Rules.MaxBatch {
		return Problemf(http.StatusRequestEntityTooLarge, KindTooLarge,
			"the request has %d tasks: at most %d at a time; add more to an open batch", n, c.Rules.MaxBatch)
	}
	return nil
}

// unfit returns the fields that tasks of flows cannot have.
func (n *newTask) unfit(ownID bool) (names []string) {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"id", n.ID != nil && !ownID}, {"group", n.Group != nil},
		{"unique_for", n.UniqueFor != nil}, {"unique_key", n.UniqueKey != nil}, {"on_duplicate", n.OnDuplicate != nil},
		{"debounce", n.Debounce != nil}, {"throttle", n.Throttle != nil},
		{"idempotency_key", n.IdempotencyKey != nil}, {"idempotency_ttl", n.IdempotencyTTL != nil},
	} {
		if f.given {
			names = append(names, f.name)
		}
	}
	return names
}

// checkMember validates a task of a flow. ownID states whether it may have an ID.
func (n *newTask) checkMember(c *Call, pointer string, ownID bool) (*order, *Problem) {
	var wrong []FieldError
	for _, name := range n.unfit(ownID) {
		wrong = append(wrong, FieldError{pointer + "/" + name, "is not supported for tasks of workflows and batches"})
	}
	if wrong != nil {
		return nil, Invalid(wrong...)
	}
	o, p := n.check(c, pointer)
	if p != nil {
		return nil, p
	}
	if err := o.task.Validate(); err != nil {
		return nil, invalidf(pointer, "%s", flowText(err))
	}
	return o, nil
}

// task validates a task of a node.
func (b *planner) task(n *newTask, pointer string) *asynq.Task {
	o, p := n.checkMember(b.c, pointer, false)
	switch {
	case p == nil:
		if !slices.Contains(b.queues, o.queue) {
			b.queues = append(b.queues, o.queue)
		}
		return o.task
	case p.Errors == nil:
		if b.refused == nil {
			b.refused = p
		}
	default:
		for _, e := range p.Errors {
			b.add(e.Pointer, e.Detail)
		}
	}
	return nil
}

func (b *planner) tasks(given []newTask, pointer string) (tasks []*asynq.Task) {
	for i := range given {
		if len(b.wrong) == maxFaults {
			break
		}
		tasks = append(tasks, b.task(&given[i], pointer+"/"+strconv.Itoa(i)))
	}
	return tasks
}

var dependencyPolicies = map[string]flow.Policy{"block": flow.Block, "cancel": flow.Cancel, "ignore": flow.Ignore}

// node adds a node.
func (b *planner) node(n *newNode, pointer string) {
	var tasks []*asynq.Task
	if n.Task != nil {
		tasks = append(tasks, b.task(n.Task, pointer+"/task"))
	} else {
		tasks = b.tasks(n.Tasks, pointer+"/tasks")
	}
	if (n.Task != nil) == (n.Tasks != nil) {
		b.add(pointer+"/task", "set either task or tasks")
	}
	info := flow.NodeInfo{Name: n.Name, Batch: n.Task == nil, After: n.After, AfterFailure: n.AfterFailure, AfterEnd: n.AfterEnd}
	if n.OnDependencyFailure != nil {
		policy, ok := dependencyPolicies[*n.OnDependencyFailure]
		if !ok {
			b.add(pointer+"/on_dependency_failure", "must be block, cancel or ignore")
		}
		info.OnDependencyFailure = policy
	}
	one := flow.New("any")
	one.AddBatch(n.Name, nil)
	if err := one.Validate(); err != nil {
		b.add(pointer+"/name", flowText(err))
	} else if b.nodes[n.Name] != nil {
		b.add(pointer+"/name", "another node has the name "+strconv.Quote(n.Name))
	}
	b.attach(info, tasks, pointer)
}

// attach adds a node. pointer is the position of its dependencies.
func (b *planner) attach(info flow.NodeInfo, tasks []*asynq.Task, pointer string) {
	after, failure, end := b.named(pointer+"/after", info.After), b.named(pointer+"/after_failure", info.AfterFailure), b.named(pointer+"/after_end", info.AfterEnd)
	node := new(flow.Node) // others may name it
	if !b.failed() {
		if info.Batch {
			node = b.flow.AddBatch(info.Name, tasks)
		} else {
			node = b.flow.Add(info.Name, tasks[0])
		}
		node.After(after...).AfterFailure(failure...).AfterEnd(end...).OnDependencyFailure(info.OnDependencyFailure)
	}
	b.nodes[info.Name] = node
	b.plan = append(b.plan, info)
}

// maxEdges limits the dependencies of a workflow.
const maxEdges = 10_000

// named returns the nodes with these names.
func (b *planner) named(pointer string, names []string) (nodes []*flow.Node) {
	if b.edges += len(names); b.edges > maxEdges {
		b.add(pointer, "a workflow can have at most "+strconv.Itoa(maxEdges)+" dependencies")
		return nil
	}
	for i, name := range names {
		node := b.nodes[name]
		switch {
		case node == nil:
			b.add(pointer+"/"+strconv.Itoa(i), "must be the name of a node before this one")
		case slices.Contains(nodes, node):
			b.add(pointer+"/"+strconv.Itoa(i), "duplicate name: remove one")
		default:
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// describes reports whether a flow has the nodes of the request.
func (b *planner) describes(info *flow.Info) bool {
	return slices.EqualFunc(b.plan, info.Nodes, func(x, y flow.NodeInfo) bool {
		return x.Name == y.Name && x.Batch == y.Batch && x.OnDependencyFailure == y.OnDependencyFailure &&
			slices.Equal(x.After, y.After) && slices.Equal(x.AfterFailure, y.AfterFailure) && slices.Equal(x.AfterEnd, y.AfterEnd)
	})
}

// start creates the flow, and writes it as the response with write. Logs name it kind; path is that
// of the other flows of the kind.
func (a *API) start(c *Call, b *planner, kind, path string, write func(j *JSON, info *flow.Info)) error {
	switch {
	case len(b.wrong) > 0:
		return Invalid(b.wrong...)
	case b.refused != nil:
		return b.refused
	}
	if err := b.flow.Validate(); err != nil {
		return invalidf("", "%s", flowText(err))
	}
	ctx, status := c.R.Context(), http.StatusCreated
	info, err := flow.Start(ctx, a.Client, b.flow)
	switch {
	case err == nil:
		for _, queue := range b.queues {
			a.Touch(queue)
		}
		a.Log.Debug("audit", "action", kind+".create", "token", c.Who.Name, "workflow", info.ID)
	case errors.Is(err, flow.ErrExists) && info != nil:
		status = http.StatusOK
		if err := c.admitFlow(info); err != nil {
			return err
		}
		if !b.describes(info) {
			return Problemf(http.StatusConflict, KindFlowConflict, "a workflow or batch with this ID exists, and has other nodes")
		}
	default:
		return err
	}
	if status == http.StatusCreated {
		c.W.Header().Set("Location", path+"/"+url.PathEscape(info.ID))
	}
	return c.sendFlow(status, info, write)
}
