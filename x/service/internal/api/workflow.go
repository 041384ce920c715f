package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/service/internal/auth"
)

// workflowRoutes returns the operations on workflows.
func (a *API) workflowRoutes() []Route {
	const all, one, node = "/v1/workflows", "/v1/workflows/{id}", "/v1/workflows/{id}/nodes/{node}"
	return []Route{
		{"POST " + all, auth.Enqueue, a.createWorkflow},
		{"GET " + all, auth.Read, a.listWorkflows},
		{"GET " + one, auth.Read, a.getWorkflow},
		{"POST " + one + "/cancel", auth.Manage, a.cancelWorkflow},
		{"POST " + one + "/retry", auth.Manage, a.retryWorkflow},
		{"POST " + node + "/skip", auth.Manage, a.skipNode},
		{"GET " + node + "/result", auth.Read, a.getResult},
	}
}

func (a *API) createWorkflow(c *Call) error {
	var body struct {
		ID        string    `json:"id"`
		Retention *Duration `json:"retention"`
		Nodes     []newNode `json:"nodes"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	if n := len(body.Nodes); n > flow.MaxNodes {
		return Problemf(http.StatusRequestEntityTooLarge, KindTooLarge, "nodes has %d entries: at most %d", n, flow.MaxNodes)
	}
	tasks := 0
	for i := range body.Nodes {
		tasks += max(len(body.Nodes[i].Tasks), 1)
	}
	if err := c.countTasks(tasks); err != nil {
		return err
	}
	b := newPlanner(c, flow.New(body.ID), body.Retention)
	if len(body.Nodes) == 0 {
		b.add("/nodes", "must have at least one node")
	}
	for i := range body.Nodes {
		if len(b.wrong) < maxFaults {
			b.node(&body.Nodes[i], "/nodes/"+strconv.Itoa(i))
		}
	}
	return a.start(c, b, "workflow", "/v1/workflows", writeWorkflow)
}

func writeWorkflow(j *JSON, info *flow.Info) { j.Key("workflow").workflow(info, true) }

// sendFlow writes a flow as the response.
func (c *Call) sendFlow(status int, info *flow.Info, write func(j *JSON, info *flow.Info)) error {
	j := NewJSON()
	defer j.Free()
	j.Open('{')
	write(j, info)
	j.Close('}')
	return c.Send(status, j.Bytes())
}

// flowQueues returns the queues that the tasks of a flow are in, or will be.
func flowQueues(info *flow.Info) (queues []string) {
	for i := range info.Nodes {
		for _, queue := range info.Nodes[i].Queues {
			if !slices.Contains(queues, queue) {
				queues = append(queues, queue)
			}
		}
	}
	return queues
}

// admitFlow returns an error if the caller must not use one of the queues of a flow.
func (c *Call) admitFlow(info *flow.Info) error {
	for _, queue := range flowQueues(info) {
		if !c.Who.HasAccess(queue) {
			return Problemf(http.StatusForbidden, KindForbidden, "the token %q has no access to all queues of the workflow", c.Who.Name)
		}
		if !c.Rules.Known(queue) {
			return Problemf(http.StatusNotFound, KindWorkflow, "the configuration does not have all queues of the workflow")
		}
	}
	return nil
}

// workflow returns the flow in the path, if the caller has access to it.
func (a *API) workflow(c *Call) (*flow.Info, error) {
	info, err := a.flows.Get(c.R.Context(), c.R.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return info, c.admitFlow(info)
}

func (a *API) getWorkflow(c *Call) error { return a.getFlow(c, a.workflow, writeWorkflow) }

// getFlow returns the flow in the path, which find finds, after its end if the client waits for it.
func (a *API) getFlow(c *Call, find func(c *Call) (*flow.Info, error), write func(j *JSON, info *flow.Info)) error {
	wait, err := c.Wait(c.R.URL.Query().Get("wait"))
	if err != nil {
		return invalidf("?wait", "%v", err)
	}
	info, err := find(c)
	if err != nil {
		return err
	}
	if wait > 0 && !rests(info) {
		leave, err := a.Waiter(c, 1)
		if err != nil {
			return err
		}
		defer leave()
		if info, err = a.awaitFlow(c.R.Context(), wait, info); err != nil {
			return err
		}
		if err := c.Recheck(); err != nil {
			return err
		}
		if err := c.admitFlow(info); err != nil {
			return err
		}
	}
	return c.sendFlow(http.StatusOK, info, write)
}

// rests reports whether nothing of a flow runs.
func rests(info *flow.Info) bool { return info.Status != flow.Running }

// The time between two readings of a flow that a request waits for. It grows.
const (
	minFlowPause = 50 * time.Millisecond
	maxFlowPause = time.Second
)

// awaitFlow waits until a flow rests or the wait is over, and returns its latest state.
func (a *API) awaitFlow(ctx context.Context, wait time.Duration, info *flow.Info) (*flow.Info, error) {
	reading, cancel := context.WithTimeout(ctx, wait+readTimeout)
	defer cancel()
	over := time.After(wait)
	for pause := minFlowPause; ; pause = min(pause*3/2, maxFlowPause) {
		last := false
		select {
		case <-time.After(pause):
		case <-over:
			last = true
		case <-a.Ended.Done():
			last = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		next, err := a.flows.Get(reading, info.ID)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, flow.ErrNotFound):
			return nil, err
		case err == nil:
			info = next
		}
		if last || rests(info) {
			return info, nil
		}
	}
}

const (
	defaultFlows = 50  // in a list
	maxFlows     = 200 // each is read with its nodes
)

func (a *API) listWorkflows(c *Call) error {
	offset, err := c.number("offset", 0, 0, 1<<31-1)
	if err != nil {
		return err
	}
	limit, err := c.number("limit", defaultFlows, 1, maxFlows)
	if err != nil {
		return err
	}
	flows, total, err := a.flows.List(c.R.Context(), offset, limit)
	if err != nil {
		return err
	}
	j := NewJSON()
	defer j.Free()
	j.Open('{').Key("workflows").Open('[')
	for _, info := range flows {
		if c.admitFlow(info) == nil {
			j.workflow(info, false)
		}
	}
	j.Close(']')
	if next := offset + len(flows); len(flows) == limit && next < total {
		j.Key("next_offset").Int(next)
	}
	j.Close('}')
	return c.Send(http.StatusOK, j.Bytes())
}

// number returns a query parameter.
func (c *Call) number(name string, otherwise, from, to int) (int, error) {
	text := c.R.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < from || n > to {
		return 0, invalidf("?"+name, "must be an integer from %d to %d", from, to)
	}
	return n, nil
}

// changeFlow changes the flow in the path.
func (a *API) changeFlow(c *Call, what string, do func(ctx context.Context, id string) (*flow.Info, error), write func(j *JSON, info *flow.Info)) error {
	info, err := a.workflow(c)
	if err != nil {
		return err
	}
	if info, err = do(c.R.Context(), info.ID); err != nil {
		return err
	}
	a.Log.Info("audit", "action", "workflow."+what, "token", c.Who.Name, "workflow", info.ID, "remote", c.R.RemoteAddr)
	return c.sendFlow(http.StatusOK, info, write)
}

func (a *API) cancelWorkflow(c *Call) error {
	return a.changeFlow(c, "cancel", a.flows.Cancel, writeWorkflow)
}

func (a *API) retryWorkflow(c *Call) error {
	tasks := 0
	return a.changeFlow(c, "retry", func(ctx context.Context, id string) (info *flow.Info, err error) {
		tasks, info, err = a.flows.Retry(ctx, id)
		return info, err
	}, func(j *JSON, info *flow.Info) {
		j.Key("tasks").Int(tasks)
		writeWorkflow(j, info)
	})
}

func (a *API) skipNode(c *Call) error {
	return a.changeFlow(c, "skip", func(ctx context.Context, id string) (*flow.Info, error) {
		return a.flows.Skip(ctx, id, c.R.PathValue("node"))
	}, writeWorkflow)
}

func (a *API) getResult(c *Call) error {
	info, err := a.workflow(c)
	if err != nil {
		return err
	}
	node := c.R.PathValue("node")
	if info.Node(node) == nil {
		return flow.ErrNoNode
	}
	result, err := a.flows.Result(c.R.Context(), info.ID, node)
	if err != nil {
		return err
	}
	j := NewJSON()
	defer j.Free()
	j.Open('{')
	j.Data("result", result)
	j.Close('}')
	return c.Send(http.StatusOK, j.Bytes())
}

// flowProblem converts an error of a flow; nil if it is another error.
func flowProblem(err error) *Problem {
	state := func(format string) *Problem { return Problemf(http.StatusConflict, KindState, "%s", format) }
	switch {
	case errors.Is(err, flow.ErrNotFound):
		return Problemf(http.StatusNotFound, KindWorkflow, "workflow or batch not found: it does not exist, or its retention is over")
	case errors.Is(err, flow.ErrNoNode):
		return Problemf(http.StatusNotFound, KindNode, "the workflow has no such node")
	case errors.Is(err, flow.ErrNoResult):
		return Problemf(http.StatusNotFound, KindNoResult, "the node has no result: it has not succeeded, is a batch, or its task returned none or more than %d bytes", flow.MaxResult)
	case errors.Is(err, flow.ErrEnded):
		return state("the workflow has ended")
	case errors.Is(err, flow.ErrRunning):
		return state("the node is running or has succeeded")
	case errors.Is(err, flow.ErrCanceled):
		return state("the workflow was canceled")
	case errors.Is(err, flow.ErrClosed):
		return state("the batch is closed or was canceled")
	}
	return nil
}

// workflow writes a flow, with or without its nodes.
func (j *JSON) workflow(info *flow.Info, nodes bool) {
	j.Open('{')
	j.flow(info)
	var sum flow.NodeInfo
	for i := range info.Nodes {
		n := &info.Nodes[i]
		sum.Total += n.Total
		sum.Succeeded += n.Succeeded
		sum.Failed += n.Failed
		sum.Deleted += n.Deleted
	}
	j.counts(&sum)
	if nodes {
		j.Key("nodes").Open('[')
		for i := range info.Nodes {
			j.node(&info.Nodes[i])
		}
		j.Close(']')
	}
	j.Close('}')
}

// flow writes what workflows and batches have in common.
func (j *JSON) flow(info *flow.Info) {
	j.Key("id").String(info.ID)
	j.Key("status").String(string(info.Status))
	j.time("created_at", info.Created)
	j.time("changed_at", info.Changed)
	j.time("ended_at", info.Ended)
}

// counts writes the numbers of tasks.
func (j *JSON) counts(n *flow.NodeInfo) {
	j.Key("total").Int(n.Total)
	j.Key("unfinished").Int(n.Pending())
	j.Key("succeeded").Int(n.Succeeded)
	j.Key("failed").Int(n.Failed)
	j.Key("deleted").Int(n.Deleted)
}

func (j *JSON) node(n *flow.NodeInfo) {
	j.Open('{')
	j.Key("name").String(n.Name)
	j.Key("status").String(string(n.Status))
	if n.Batch {
		j.Key("batch").Bool(true)
	}
	if n.Open {
		j.Key("open").Bool(true)
	}
	j.strings("after", n.After)
	j.strings("after_failure", n.AfterFailure)
	j.strings("after_end", n.AfterEnd)
	for name, policy := range dependencyPolicies {
		if policy == n.OnDependencyFailure && policy != flow.Block {
			j.Key("on_dependency_failure").String(name)
		}
	}
	j.strings("queues", n.Queues)
	if len(n.TaskIDs) == 1 {
		j.Key("task_id").String(n.TaskIDs[0])
	}
	j.counts(n)
	j.time("started_at", n.Started)
	j.time("ended_at", n.Ended)
	j.Close('}')
}

func (j *JSON) strings(name string, list []string) {
	if len(list) == 0 {
		return
	}
	j.Key(name).Open('[')
	for _, s := range list {
		j.String(s)
	}
	j.Close(']')
}
