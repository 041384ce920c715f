package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/service/internal/auth"
)

// batchRoutes returns the operations on batches, which are workflows with a node of members.
func (a *API) batchRoutes() []Route {
	const one = "/v1/batches/{id}"
	return []Route{
		{"POST /v1/batches", auth.Enqueue, a.createBatch},
		{"GET " + one, auth.Read, a.getBatch},
		{"POST " + one + "/tasks", auth.Enqueue, a.addToBatch},
		{"POST " + one + "/close", auth.Enqueue, a.closeBatch},
	}
}

// The names of the nodes of a batch, which are those of flow.NewBatch.
const (
	membersNode   = "members"
	onSuccessNode = "on_success"
	onFailureNode = "on_failure"
	onEndNode     = "on_end"
)

func (a *API) createBatch(c *Call) error {
	var body struct {
		ID        string    `json:"id"`
		Retention *Duration `json:"retention"`
		Tasks     []newTask `json:"tasks"`
		Open      bool      `json:"open"`
		OnSuccess *newTask  `json:"on_success"`
		OnFailure *newTask  `json:"on_failure"`
		OnEnd     *newTask  `json:"on_end"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	if err := c.countTasks(len(body.Tasks)); err != nil {
		return err
	}
	var b *planner
	if body.Open {
		open := flow.NewBatch(body.ID)
		b = newPlanner(c, open.Flow, body.Retention)
		b.nodes[membersNode], b.plan = open.Members, []flow.NodeInfo{{Name: membersNode, Batch: true}}
		if body.Tasks != nil {
			b.add("/tasks", "not allowed with open: add the tasks later")
		}
	} else {
		b = newPlanner(c, flow.New(body.ID), body.Retention)
		if body.Tasks == nil {
			b.add("/tasks", "is required, unless open is true")
		} else {
			b.attach(flow.NodeInfo{Name: membersNode, Batch: true}, b.tasks(body.Tasks, "/tasks"), "")
		}
	}
	members := []string{membersNode}
	for _, n := range []struct {
		task *newTask
		info flow.NodeInfo
	}{
		{body.OnSuccess, flow.NodeInfo{Name: onSuccessNode, After: members}},
		{body.OnFailure, flow.NodeInfo{Name: onFailureNode, AfterFailure: members}},
		{body.OnEnd, flow.NodeInfo{Name: onEndNode, AfterEnd: members}},
	} {
		if n.task != nil {
			b.attach(n.info, []*asynq.Task{b.task(n.task, "/"+n.info.Name)}, "")
		}
	}
	return a.start(c, b, "batch", "/v1/batches", writeBatch)
}

// batch returns the flow in the path, if it is a batch and the caller has access to it.
func (a *API) batch(c *Call) (*flow.Info, error) {
	info, err := a.workflow(c)
	if err != nil {
		return nil, err
	}
	if n := info.Node(membersNode); n == nil || !n.Batch {
		return nil, Problemf(http.StatusNotFound, KindWorkflow, "the workflow is not a batch: see /v1/workflows")
	}
	return info, nil
}

func (a *API) getBatch(c *Call) error { return a.getFlow(c, a.batch, writeBatch) }

// addToBatch adds tasks to an open batch. A task with an ID that its queue already has counts as
// added, provided that type and payload are the same.
func (a *API) addToBatch(c *Call) error {
	var body struct {
		Tasks []json.RawMessage `json:"tasks"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	info, err := a.batch(c)
	if err != nil {
		return err
	}
	orders, problems, err := c.orders(body.Tasks, func(n *newTask, c *Call, pointer string) (*order, *Problem) {
		return n.checkMember(c, pointer, true)
	})
	if err != nil {
		return err
	}
	ctx := c.R.Context()
	batch, err := flow.ResumeBatch(ctx, a.Client, info.ID)
	if err != nil {
		return err
	}
	tasks := make([]*asynq.Task, len(orders))
	for i, o := range orders {
		tasks[i] = o.task
	}
	results, err := batch.Enqueue(ctx, tasks)
	if errors.Is(err, flow.ErrClosed) {
		return err
	}
	out := make([]enqueued, len(orders))
	for i, r := range results { // with an err, those that were not added have it
		out[i] = enqueued{info: r.TaskInfo, created: r.Err == nil, err: r.Err}
		if r.Err == nil {
			a.Touch(orders[i].queue)
		} else if orders[i].id != "" && errors.Is(r.Err, asynq.ErrTaskIDConflict) {
			out[i] = a.existing(ctx, orders[i], r.Err)
		}
	}
	a.noteEnqueued(c, out)
	return a.sendResults(c, problems, out)
}

// existing returns the task of an order that its queue already has.
func (a *API) existing(ctx context.Context, o *order, refusal error) enqueued {
	info, err := a.Inspector.WithContext(ctx).GetTaskInfo(o.queue, o.id)
	if err != nil || !o.is(info) {
		return enqueued{err: refusal}
	}
	return enqueued{info: info}
}

func (a *API) closeBatch(c *Call) error {
	info, err := a.batch(c)
	if err != nil {
		return err
	}
	ctx := c.R.Context()
	batch, err := flow.ResumeBatch(ctx, a.Client, info.ID)
	if err == nil {
		err = batch.Close(ctx)
	}
	if err != nil && !errors.Is(err, flow.ErrClosed) {
		return err
	}
	if info, err = a.flows.Get(ctx, info.ID); err != nil {
		return err
	}
	return c.sendFlow(http.StatusOK, info, writeBatch)
}

func writeBatch(j *JSON, info *flow.Info) {
	j.Key("batch").Open('{')
	j.flow(info)
	members := info.Node(membersNode)
	j.Key("open").Bool(members.Open)
	j.Key("members").String(string(members.Status))
	j.counts(members)
	j.Key("callbacks").Open('{')
	for i := range info.Nodes {
		if n := &info.Nodes[i]; n.Name != membersNode {
			j.String(n.Name)
			j.buf = append(j.buf, ':')
			j.node(n)
		}
	}
	j.Close('}').Close('}')
}
