package apiv2

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/web/internal/access"
)

// Flow is the state of a flow.
type Flow struct {
	ID      string     `json:"id"`
	Status  string     `json:"status" enum:"waiting,running,blocked,succeeded,failed,canceled" doc:"blocked: nothing runs, and nodes wait for one that has failed."`
	Created time.Time  `json:"created"`
	Changed time.Time  `json:"changed" doc:"When a node or the flow last changed its status."`
	Ended   *time.Time `json:"ended"`
	Nodes   []FlowNode `json:"nodes" doc:"In the order in which they were added."`
}

// FlowNode is the state of a node of a flow.
type FlowNode struct {
	Name         string     `json:"name"`
	Status       string     `json:"status" enum:"waiting,running,succeeded,failed,canceled,omitted,skipped"`
	Batch        bool       `json:"batch" doc:"The node has any number of tasks."`
	Open         bool       `json:"open" doc:"The batch accepts further tasks."`
	After        []string   `json:"after" doc:"The node starts when these nodes have succeeded."`
	AfterFailure []string   `json:"after_failure" doc:"The node starts when a task of each of these nodes has failed."`
	AfterEnd     []string   `json:"after_end" doc:"The node starts when all tasks of these nodes have ended."`
	OnFailure    string     `json:"on_dependency_failure" enum:"block,cancel,ignore" doc:"What happens to the node if a node of after fails."`
	Queues       []string   `json:"queues"`
	TaskIDs      []string   `json:"task_ids" doc:"Empty for a batch."`
	Total        int        `json:"total" doc:"The number of tasks that were created; before the start, of those that will be."`
	Pending      int        `json:"pending" doc:"Tasks that have not ended."`
	Succeeded    int        `json:"succeeded"`
	Failed       int        `json:"failed" doc:"Tasks that are archived."`
	Deleted      int        `json:"deleted" doc:"Tasks that were deleted before they succeeded."`
	Started      *time.Time `json:"started"`
	Ended        *time.Time `json:"ended"`
}

// FlowList is a page of flows.
type FlowList struct {
	Items []*Flow `json:"items"`
	Total int     `json:"total" doc:"The number of flows; it may include some that are no longer retained."`
}

// FlowRetry is the result of retrying a flow.
type FlowRetry struct {
	Tasks int   `json:"tasks" doc:"The number of tasks that run again."`
	Flow  *Flow `json:"flow"`
}

func newFlow(info *flow.Info) *Flow {
	f := &Flow{
		ID: info.ID, Status: string(info.Status), Created: info.Created.UTC(), Changed: info.Changed.UTC(), Ended: timeOf(info.Ended),
		Nodes: make([]FlowNode, len(info.Nodes)),
	}
	list := func(names []string) []string { return append([]string{}, names...) } // not null
	for i, n := range info.Nodes {
		f.Nodes[i] = FlowNode{
			Name: n.Name, Status: string(n.Status), Batch: n.Batch, Open: n.Open,
			After: list(n.After), AfterFailure: list(n.AfterFailure), AfterEnd: list(n.AfterEnd),
			OnFailure: cmp.Or(string(n.OnDependencyFailure), "block"), Queues: list(n.Queues), TaskIDs: list(n.TaskIDs),
			Total: n.Total, Pending: n.Pending(), Succeeded: n.Succeeded, Failed: n.Failed, Deleted: n.Deleted,
			Started: timeOf(n.Started), Ended: timeOf(n.Ended),
		}
	}
	return f
}

// flowProblem returns the problem of an error of package flow.
func flowProblem(err error) error {
	switch {
	case errors.Is(err, flow.ErrNotFound):
		return problemf(http.StatusNotFound, kindFlow, "%v", err)
	case errors.Is(err, flow.ErrNoNode):
		return problemf(http.StatusNotFound, kindFlow, "%v", err)
	case errors.Is(err, flow.ErrEnded), errors.Is(err, flow.ErrRunning), errors.Is(err, flow.ErrCanceled):
		return problemf(http.StatusConflict, kindState, "%v", err)
	}
	return err
}

func (c *call) listFlows() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	infos, total, err := c.api.flows.List(c.r.Context(), c.num("offset"), c.num("limit"))
	if err != nil {
		return nil, err
	}
	out := FlowList{Items: []*Flow{}, Total: total}
	for _, info := range infos {
		out.Items = append(out.Items, newFlow(info))
	}
	return out, nil
}

func (c *call) getFlow() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	info, err := c.api.flows.Get(c.r.Context(), c.id())
	if err != nil {
		return nil, flowProblem(err)
	}
	return newFlow(info), nil
}

// changeFlow changes a flow, or one of its nodes.
func (c *call) changeFlow(do func(ctx context.Context, i *flow.Inspector) error) error {
	a := access.Action{Verb: access.FlowChange, Flow: c.id(), Node: c.values["node"]}
	if err := c.allow(a); err != nil {
		return err
	}
	err := do(c.r.Context(), c.api.flows)
	c.done(a, err)
	return flowProblem(err)
}

func (c *call) cancelFlow() (any, error) {
	var info *flow.Info
	err := c.changeFlow(func(ctx context.Context, i *flow.Inspector) (err error) {
		info, err = i.Cancel(ctx, c.id())
		return err
	})
	if err != nil {
		return nil, err
	}
	return newFlow(info), nil
}

func (c *call) retryFlow() (any, error) {
	var out FlowRetry
	err := c.changeFlow(func(ctx context.Context, i *flow.Inspector) error {
		tasks, info, err := i.Retry(ctx, c.id())
		if err == nil {
			out = FlowRetry{tasks, newFlow(info)}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *call) skipFlowNode() (any, error) {
	var info *flow.Info
	err := c.changeFlow(func(ctx context.Context, i *flow.Inspector) (err error) {
		info, err = i.Skip(ctx, c.id(), c.values["node"])
		return err
	})
	if err != nil {
		return nil, err
	}
	return newFlow(info), nil
}
