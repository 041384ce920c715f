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

// OperationSpec is a change and its tasks.
type OperationSpec struct {
	Kind   string   `json:"kind" enum:"run,archive,delete,cancel"`
	Queue  string   `json:"queue"`
	State  string   `json:"state,omitempty" doc:"Required unless ids is set."`
	Group  string   `json:"group,omitempty" doc:"Only for aggregating tasks."`
	Filter string   `json:"filter,omitempty" doc:"See docs/FILTER.md. The default is all tasks of the state."`
	IDs    []string `json:"ids,omitempty" doc:"Up to 1,000 tasks, in any state. Cannot be combined with state, group and filter."`

	DiscardOldest bool `json:"discard_oldest,omitempty" doc:"For archive: delete the oldest tasks of a full archive. If false, the request then fails with archive-full."`
}

// OperationRequest starts an operation.
type OperationRequest struct {
	OperationSpec
	DryRun  bool `json:"dry_run,omitempty" doc:"Count the tasks without changing them."`
	MaxScan int  `json:"max_scan,omitempty" doc:"The maximum number of tasks to scan for the count, up to 1,000,000. The default is 100,000."`
}

// OperationCount is the result of a dry run.
type OperationCount struct {
	DryRun   bool `json:"dry_run"`
	Count    int  `json:"count" doc:"The number of tasks that would be changed."`
	Scanned  int  `json:"looked"`
	Complete bool `json:"complete" doc:"false: not all tasks were scanned, so there may be more."`
	Discards int  `json:"discards" doc:"For archive: the number of archived tasks that would be deleted, oldest first. The archive of a queue keeps 10,000 tasks."`
}

// Operation is a change of many tasks in the background.
type Operation struct {
	ID        string            `json:"id"`
	User      string            `json:"user"`
	Spec      OperationSpec     `json:"spec"`
	Status    string            `json:"status" enum:"waiting,running,done,failed,canceled"`
	Total     *int              `json:"total" doc:"The number of tasks to scan. null: unknown."`
	Scanned   int               `json:"looked"`
	Matched   int               `json:"matched"`
	Changed   int               `json:"changed" doc:"For operations by state, the number is set when the operation finishes."`
	Failed    int               `json:"failed" doc:"For operations by ids."`
	Discarded int               `json:"discarded" doc:"For archive: the number of archived tasks that were deleted, oldest first, because the archive was full."`
	Error     string            `json:"error" doc:"The reason why the operation failed or was canceled."`
	CreatedAt *time.Time        `json:"created_at"`
	StartedAt *time.Time        `json:"started_at"`
	EndedAt   *time.Time        `json:"ended_at"`
	Results   []OperationResult `json:"results,omitempty" doc:"For operations by ids, when finished."`
}

// OperationResult is the result of one task.
type OperationResult struct {
	ID    string `json:"id"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// OperationList is a list of operations, newest first.
type OperationList struct {
	Items []*Operation `json:"items"`
}

const defaultCountScan = 100_000

func newOperation(op bulk.Operation, whole bool) *Operation {
	s := op.Spec
	out := &Operation{
		ID: op.ID, User: op.User, Status: string(op.Status), Scanned: op.Scanned, Matched: op.Matched, Changed: op.Changed,
		Spec:   OperationSpec{string(s.Kind), s.Queue, s.State, s.Group, s.Filter, s.IDs, s.DiscardOldest},
		Failed: op.Failed, Discarded: op.Discarded, Error: op.Err, CreatedAt: timeOf(op.Created), StartedAt: timeOf(op.Started), EndedAt: timeOf(op.Ended),
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

// actionOf returns the action of an operation, for the gate.
func actionOf(s bulk.Spec, count int) access.Action {
	verb := map[bulk.Kind]access.Verb{
		bulk.Run: access.TaskRun, bulk.Archive: access.TaskArchive, bulk.Delete: access.TaskDelete, bulk.Cancel: access.TaskCancel,
	}[s.Kind]
	return access.Action{Verb: verb, Queue: s.Queue, Group: s.Group, State: s.State, Filter: s.Filter, Count: count}
}

// check rejects requests that could change other tasks than intended: ids ignore the state, and an
// empty list of ids does not mean all tasks.
func (s *OperationSpec) check() error {
	if s.IDs == nil {
		return nil
	}
	if len(s.IDs) == 0 {
		return unprocessable("/ids", "must not be empty: omit ids to change all tasks of a state")
	}
	var wrong []Wrong
	for _, beside := range []struct{ name, value string }{{"state", s.State}, {"group", s.Group}, {"filter", s.Filter}} {
		if beside.value != "" {
			wrong = append(wrong, Wrong{Pointer: "/" + beside.name, Detail: "cannot be combined with ids"})
		}
	}
	if len(wrong) > 0 {
		return invalid(http.StatusUnprocessableEntity, wrong...)
	}
	return nil
}

// weigh counts the tasks of an operation, and the archived tasks that it would delete.
func (c *call) weigh(spec bulk.Spec, bound int) (n bulk.Count, discards int, err error) {
	ctx := c.r.Context()
	if n, err = c.api.Bulk.Count(ctx, spec, bound); err == nil && spec.Kind == bulk.Archive {
		discards, err = c.api.Bulk.Discards(ctx, spec.Queue, n.N)
	}
	return n, discards, err
}

func (c *call) startOperation() (any, error) {
	var req OperationRequest
	if err := c.read(&req); err != nil {
		return nil, err
	}
	spec := bulk.Spec{
		Kind: bulk.Kind(req.Kind), Queue: req.Queue, State: req.State, Group: req.Group, Filter: req.Filter, IDs: req.IDs,
		DiscardOldest: req.DiscardOldest,
	}
	if err := req.check(); err != nil {
		return nil, err
	}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if req.MaxScan < 0 || req.MaxScan > 1_000_000 {
		return nil, unprocessable("/max_scan", "must be from 1 to 1000000")
	}
	if req.DryRun {
		if err := c.view(req.Queue, ""); err != nil {
			return nil, err
		}
		if req.MaxScan == 0 {
			req.MaxScan = defaultCountScan
		}
		n, discards, err := c.weigh(spec, req.MaxScan)
		if err != nil {
			return nil, err
		}
		c.status = http.StatusOK
		return OperationCount{true, n.N, n.Scanned, n.Complete, discards}, nil
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
	if spec.Kind == bulk.Archive && !spec.DiscardOldest {
		n, discards, err := c.weigh(spec, defaultCountScan)
		if err != nil {
			return nil, err
		}
		if discards > 0 {
			return nil, &bulk.FullError{Queue: spec.Queue, Tasks: n.N, Discards: discards, Limit: c.api.Bulk.Limit(c.r.Context(), spec.Queue)}
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
		return op, notFound("there is no operation %q: finished operations are removed after an hour", c.id())
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

// cancelOperation requires the same permission as the operation itself.
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
