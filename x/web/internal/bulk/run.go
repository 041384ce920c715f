package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/asynq-go/asynq"
)

// parallelIDs is the number of selected tasks that are changed concurrently.
const parallelIDs = 8

// work runs an operation until it ends.
func (m *Manager) work(ctx context.Context, op *operation) {
	defer m.open.Done()
	defer op.cancel(nil)
	err := m.run(ctx, op)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	var ended Operation
	m.update(op, func(o *Operation) {
		o.Ended, o.Status = m.cfg.Now(), Done
		switch {
		case errors.Is(err, errCanceled), errors.Is(err, errShutdown):
			o.Status, o.Err = Canceled, err.Error()
		case err != nil:
			o.Status, o.Err = Failed, err.Error()
		}
		ended = *o
	})
	close(op.ended)
	if op.after != nil {
		op.after(ended)
	}
}

// run waits for a slot and makes the changes of the operation.
func (m *Manager) run(ctx context.Context, op *operation) (err error) {
	slots := m.slots
	if len(op.plan.IDs) > 0 {
		slots = m.byID
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		if r := recover(); r != nil {
			m.cfg.Logger.Error("bulk: panic", "operation", op.ID, "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	m.update(op, func(o *Operation) { o.Status, o.Started = Running, m.cfg.Now() })
	if len(op.plan.IDs) > 0 {
		return m.selection(ctx, op)
	}
	if n, err := m.size(ctx, &op.plan); err == nil {
		m.update(op, func(o *Operation) { o.Total = n })
	}
	return m.matching(ctx, op)
}

// matching changes all tasks that match the filter.
func (m *Manager) matching(ctx context.Context, op *operation) error {
	p, i := &op.plan, m.cfg.Inspector
	room, err := m.budgetOf(ctx, p)
	if err != nil {
		return err
	}
	var matched atomic.Int64
	f := p.taskFilter(m.cfg.Seen)
	match := f.Match
	f.Match = func(t *asynq.TaskInfo) bool {
		ok := (match == nil || match(t)) && room.take()
		if ok {
			matched.Add(1)
		}
		return ok
	}
	f.Scanned = func(n int) { m.update(op, func(o *Operation) { o.Scanned, o.Matched = n, int(matched.Load()) }) }
	var n int
	var done asynq.ArchiveResult
	switch p.Kind {
	case Run:
		n, err = i.RunTasks(ctx, p.Queue, p.state, f)
	case Archive:
		done, err = i.ArchiveTasks(ctx, p.Queue, p.state, f)
		n = done.Archived
	case Delete:
		n, err = i.DeleteTasks(ctx, p.Queue, p.state, f)
	case Cancel:
		for t, found := range i.Tasks(ctx, p.Queue, p.state, f) {
			if err = found; err == nil {
				err = i.WithContext(ctx).CancelProcessing(t.ID)
			}
			if err != nil {
				break
			}
			n++
			m.update(op, func(o *Operation) { o.Changed = n })
		}
	}
	m.update(op, func(o *Operation) { o.Changed, o.Matched, o.Discarded = n, int(matched.Load()), done.Discarded })
	return cmp.Or(err, room.err())
}

// selection changes tasks one by one.
func (m *Manager) selection(ctx context.Context, op *operation) error {
	ids := op.plan.IDs
	results := make([]Result, len(ids))
	room, err := m.budgetOf(ctx, &op.plan)
	if err != nil {
		return err
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(parallelIDs, len(ids)) {
		workers.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(ids); n = int(next.Add(1)) - 1 {
				err := context.Cause(ctx)
				if err == nil && !room.take() {
					err = errArchiveFull
				}
				if err == nil {
					if err = m.one(ctx, &op.plan, ids[n]); err != nil {
						room.giveBack()
					}
				}
				results[n] = Result{ids[n], err}
				m.update(op, func(o *Operation) {
					o.Scanned++
					if err != nil {
						o.Failed++
					} else {
						o.Matched++
						o.Changed++
					}
				})
			}
		})
	}
	workers.Wait()
	m.update(op, func(o *Operation) { o.Results, o.Discarded = results, room.discarded(o.Changed) })
	return ctx.Err()
}

// one changes one task.
func (m *Manager) one(ctx context.Context, p *plan, id string) error {
	i := m.cfg.Inspector.WithContext(ctx)
	switch p.Kind {
	case Run:
		return i.RunTask(p.Queue, id)
	case Archive:
		return i.ArchiveTask(p.Queue, id)
	case Delete:
		return i.DeleteTask(p.Queue, id)
	default:
		// Servers receive only the ID, which a task of another queue may have as well.
		t, err := i.GetTaskInfo(p.Queue, id)
		if err != nil {
			return err
		}
		if t.State != asynq.TaskStateActive {
			return fmt.Errorf("the task is %v: only active tasks can be canceled", t.State)
		}
		return i.CancelProcessing(id)
	}
}

// Count returns the number of tasks that an operation would change now. With a filter it scans at
// most bound tasks. The error is a *SpecError, asynq.ErrQueueNotFound, or an error of Redis.
func (m *Manager) Count(ctx context.Context, spec Spec, bound int) (Count, error) {
	p, err := spec.plan()
	switch {
	case err != nil:
		return Count{}, err
	case len(p.IDs) > 0:
		return Count{N: len(p.IDs), Complete: true}, nil
	case p.filter.Empty() && p.Match == nil:
		n, err := m.size(ctx, &p)
		return Count{N: n, Complete: true}, err
	}
	f, c := p.taskFilter(m.cfg.Seen), Count{Complete: true}
	f.MaxScan = max(bound, 1)
	f.Scanned = func(n int) { c.Scanned = n }
	for _, err := range m.cfg.Inspector.Tasks(ctx, p.Queue, p.state, f) {
		if errors.Is(err, asynq.ErrScanLimit) {
			c.Complete = false
			break
		}
		if err != nil {
			return Count{}, err
		}
		c.N++
	}
	return c, nil
}

// size returns the number of tasks in the state or group of the plan.
func (m *Manager) size(ctx context.Context, p *plan) (int, error) {
	i := m.cfg.Inspector.WithContext(ctx).WithMemorySamples(0)
	if p.Group != "" {
		groups, err := i.Groups(p.Queue)
		for _, g := range groups {
			if g.Group == p.Group {
				return g.Size, nil
			}
		}
		return 0, err
	}
	info, err := i.GetQueueInfo(p.Queue)
	if err != nil {
		return 0, err
	}
	return map[asynq.TaskState]int{
		asynq.TaskStateActive: info.Active, asynq.TaskStatePending: info.Pending, asynq.TaskStateScheduled: info.Scheduled,
		asynq.TaskStateRetry: info.Retry, asynq.TaskStateArchived: info.Archived, asynq.TaskStateCompleted: info.Completed,
		asynq.TaskStateAggregating: info.Aggregating,
	}[p.state], nil
}
