package apiv2

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
)

// OperationSpec says what to do to which tasks.
type OperationSpec struct {
	Kind   string   `json:"kind" enum:"run,archive,delete,cancel"`
	Queue  string   `json:"queue"`
	State  string   `json:"state,omitempty" doc:"Required, unless ids are given."`
	Group  string   `json:"group,omitempty" doc:"Only of aggregating tasks."`
	Filter string   `json:"filter,omitempty" doc:"See docs/FILTER.md; all tasks of the state if it is left out."`
	IDs    []string `json:"ids,omitempty" doc:"These tasks, up to 1,000, in whichever state they are; then leave state, group and filter out."`
}

// OperationRequest starts an operation.
type OperationRequest struct {
	OperationSpec
	DryRun  bool `json:"dry_run,omitempty" doc:"Only count."`
	MaxScan int  `json:"max_scan,omitempty" doc:"How many tasks to look at for the count, up to 1,000,000; 100,000 if it is left out."`
}

// OperationCount is what a dry run tells.
type OperationCount struct {
	DryRun   bool `json:"dry_run"`
	Count    int  `json:"count" doc:"How many tasks would be changed."`
	Looked   int  `json:"looked"`
	Complete bool `json:"complete" doc:"false: there may be more."`
}

// Operation is a change of many tasks that goes on in the background.
type Operation struct {
	ID        string            `json:"id"`
	User      string            `json:"user"`
	Spec      OperationSpec     `json:"spec"`
	Status    string            `json:"status" enum:"waiting,running,done,failed,canceled"`
	Total     *int              `json:"total" doc:"How many tasks there are to look at; null if that is not known."`
	Looked    int               `json:"looked"`
	Matched   int               `json:"matched"`
	Changed   int               `json:"changed" doc:"Where it goes by a state, that is known at the end only."`
	Failed    int               `json:"failed" doc:"Of ids."`
	Error     string            `json:"error" doc:"Why it failed or was canceled."`
	CreatedAt *time.Time        `json:"created_at"`
	StartedAt *time.Time        `json:"started_at"`
	EndedAt   *time.Time        `json:"ended_at"`
	Results   []OperationResult `json:"results,omitempty" doc:"Of ids, when it has ended."`
}

// OperationResult is what became of one task.
type OperationResult struct {
	ID    string `json:"id"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// OperationList are operations, the newest first.
type OperationList struct {
	Items []*Operation `json:"items"`
}

const defaultCountScan = 100_000

func newOperation(op bulk.Operation, whole bool) *Operation {
	s := op.Spec
	out := &Operation{
		ID: op.ID, User: op.User, Status: string(op.Status), Looked: op.Looked, Matched: op.Matched, Changed: op.Changed,
		Spec:   OperationSpec{string(s.Kind), s.Queue, s.State, s.Group, s.Filter, s.IDs},
		Failed: op.Failed, Error: op.Err, CreatedAt: timeOf(op.Created), StartedAt: timeOf(op.Started), EndedAt: timeOf(op.Ended),
	}
	if op.Total >= 0 {
		out.Total = &op.Total
	}
	if !whole {
		out.Spec.IDs = nil
		return out
	}
	for _, r := range op.Results {
		result := OperationResult{ID: r.ID, OK: r.Err == nil}
		if r.Err != nil {
			result.Error = r.Err.Error()
		}
		out.Results = append(out.Results, result)
	}
	return out
}

// actionOf is what an operation does, for the gate.
func actionOf(s bulk.Spec, count int) access.Action {
	verb := map[bulk.Kind]access.Verb{
		bulk.Run: access.TaskRun, bulk.Archive: access.TaskArchive, bulk.Delete: access.TaskDelete, bulk.Cancel: access.TaskCancel,
	}[s.Kind]
	return access.Action{Verb: verb, Queue: s.Queue, Group: s.Group, State: s.State, Filter: s.Filter, Count: count}
}

// check refuses what would change other tasks than those that were meant: ids take no notice of a state, and none at all are not all.
func (s *OperationSpec) check() error {
	if s.IDs == nil {
		return nil
	}
	if len(s.IDs) == 0 {
		return unprocessable("/ids", "name a task, or leave it out for all tasks of a state")
	}
	var wrong []Wrong
	for _, beside := range []struct{ name, value string }{{"state", s.State}, {"group", s.Group}, {"filter", s.Filter}} {
		if beside.value != "" {
			wrong = append(wrong, Wrong{Pointer: "/" + beside.name, Detail: "ids say already which tasks are meant: leave it out"})
		}
	}
	if len(wrong) > 0 {
		return invalid(http.StatusUnprocessableEntity, wrong...)
	}
	return nil
}

func (c *call) startOperation() (any, error) {
	var req OperationRequest
	if err := c.read(&req); err != nil {
		return nil, err
	}
	spec := bulk.Spec{
		Kind: bulk.Kind(req.Kind), Queue: req.Queue, State: req.State, Group: req.Group, Filter: req.Filter, IDs: req.IDs,
	}
	if err := req.check(); err != nil {
		return nil, err
	}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if req.MaxScan < 0 || req.MaxScan > 1_000_000 {
		return nil, unprocessable("/max_scan", "it must be from 1 to 1000000")
	}
	if req.DryRun {
		if err := c.view(req.Queue, ""); err != nil {
			return nil, err
		}
		if req.MaxScan == 0 {
			req.MaxScan = defaultCountScan
		}
		n, err := c.api.Bulk.Count(c.r.Context(), spec, req.MaxScan)
		if err != nil {
			return nil, err
		}
		c.status = http.StatusOK
		return OperationCount{true, n.N, n.Looked, n.Complete}, nil
	}
	a := actionOf(spec, len(spec.IDs))
	if err := c.allow(a); err != nil {
		return nil, err
	}
	user := ""
	if c.api.User != nil {
		user, _ = c.api.User(c.r.Context())
	}
	if len(spec.IDs) == 0 {
		if _, err := c.inspect().WithMemorySamples(0).GetQueueInfo(spec.Queue); err != nil {
			return nil, err
		}
	}
	later := c.r.Clone(context.WithoutCancel(c.r.Context()))
	op, err := c.api.Bulk.Start(user, spec, func(op bulk.Operation) {
		done := actionOf(op.Spec, op.Changed)
		var failed error
		if op.Err != "" {
			failed = errors.New(op.Err)
		}
		c.api.Gate.Done(later, done, failed)
		c.api.wake()
	})
	if err != nil {
		return nil, err
	}
	c.status = http.StatusAccepted
	c.w.Header().Set("Location", c.api.link("operations", op.ID))
	return newOperation(op, true), nil
}

func (c *call) listOperations() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	out := OperationList{Items: []*Operation{}}
	for _, op := range c.api.Bulk.List() {
		if status := c.strs("status"); len(status) == 0 || slices.Contains(status, string(op.Status)) {
			out.Items = append(out.Items, newOperation(op, false))
		}
	}
	return out, nil
}

func (c *call) operation() (bulk.Operation, error) {
	op, ok := c.api.Bulk.Get(c.id())
	if !ok {
		return op, notFound("there is no operation %q: those that have ended are forgotten after an hour", c.id())
	}
	return op, nil
}

func (c *call) getOperation() (any, error) {
	op, err := c.operation()
	if err != nil {
		return nil, err
	}
	if err := c.view(op.Spec.Queue, ""); err != nil {
		return nil, err
	}
	if wait := c.num("wait"); wait > 0 {
		ctx, cancel := context.WithTimeout(c.r.Context(), time.Duration(wait)*time.Second)
		defer cancel()
		if now, ok := c.api.Bulk.Wait(ctx, op.ID); ok {
			op = now
		}
	}
	return newOperation(op, true), nil
}

// cancelOperation asks for the same leave as the operation itself: whoever may start it may end it.
func (c *call) cancelOperation() (any, error) {
	op, err := c.operation()
	if err != nil {
		return nil, err
	}
	if err := c.allow(actionOf(op.Spec, 0)); err != nil {
		return nil, err
	}
	op, ok := c.api.Bulk.Cancel(c.id())
	if !ok {
		_, err := c.operation()
		return nil, err
	}
	c.status = http.StatusAccepted
	return newOperation(op, true), nil
}
