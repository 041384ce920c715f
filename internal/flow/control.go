package flow

import (
	"context"
	"errors"
	"slices"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// The errors of changes by users.
var (
	ErrEnded    = errors.New("the flow has ended")
	ErrNoNode   = errors.New("the flow has no such node")
	ErrRunning  = errors.New("the node runs")
	ErrCanceled = errors.New("the flow was canceled")
)

// Cancel cancels a flow: no further node starts, tasks that wait are deleted, and active ones are
// canceled. If the caller dies in between, servers continue.
func (e *Engine) Cancel(ctx context.Context, id string) (*Flow, error) {
	f, err := e.Update(ctx, id, Update{Announce: true, Nodes: []string{}, Change: func(f *Flow, now int64) error {
		if f.Record.Status.Ended() && !f.Record.Canceled {
			return ErrEnded
		}
		f.Stop(now)
		return nil
	}})
	if err != nil {
		return f, err
	}
	return e.Update(ctx, id, Update{}) // deletes the tasks
}

// remove deletes the tasks of a canceled flow that wait, and cancels those that are active. Parts
// are closed before, also those of nodes that have not started: another process may just create
// their tasks, because it has read the flow earlier.
func (e *Engine) remove(ctx context.Context, f *Flow) error {
	for i := range f.Plan.Nodes {
		p := &f.Plan.Nodes[i]
		n := f.Record.Nodes[p.Name]
		if n.Status != wire.FlowRunning && n.Status != wire.FlowCanceled {
			continue
		}
		queues := slices.Clone(n.Queues)
		for _, t := range p.Tasks {
			if !slices.Contains(queues, t.Queue) {
				queues = append(queues, t.Queue)
			}
		}
		for _, queue := range queues {
			has, err := e.Broker.ClosePart(ctx, queue, f.Part(p.Name))
			if err == nil && has {
				err = e.members(ctx, queue, f.Part(p.Name), false, func(ids []string) error {
					return e.removeTasks(ctx, queue, ids)
				})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) removeTasks(ctx context.Context, queue string, ids []string) error {
	codes, err := e.Tasks.Change(ctx, inspect.Change{Queue: queue, Verb: inspect.Delete}, ids)
	if err != nil {
		return err
	}
	for i, code := range codes {
		if code == script.CodeActive {
			if err := e.Broker.CancelTo(ctx, ids[i], wire.CancelDelete); err != nil {
				return err
			}
		}
	}
	return nil
}

// members calls f with pages of the open or failed members of a part. IDs may occur twice.
func (e *Engine) members(ctx context.Context, queue string, part wire.FlowPart, failed bool, f func(ids []string) error) error {
	for cursor := uint64(0); ; {
		ids, next, err := e.Broker.ScanMembers(ctx, queue, part, failed, cursor)
		if err != nil {
			return err
		}
		slices.Sort(ids)
		for page := range slices.Chunk(slices.Compact(ids), script.MaxBatch) {
			if err := f(page); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// Skip makes a node count as succeeded.
func (e *Engine) Skip(ctx context.Context, id, node string) (*Flow, error) {
	return e.Update(ctx, id, Update{Announce: true, Compare: rdb.CompareAll, Change: func(f *Flow, now int64) error {
		switch n := f.Record.Nodes[node]; {
		case n == nil:
			return ErrNoNode
		case f.Record.Canceled:
			return ErrCanceled
		case n.Status == wire.FlowSkipped:
			return nil
		case !f.Skip(node, now):
			return ErrRunning
		}
		f.Revive(now)
		return nil
	}})
}

// Retry runs the archived tasks of a flow again, and lets nodes wait again that were canceled
// because of them. It returns the number of tasks.
func (e *Engine) Retry(ctx context.Context, id string) (n int, f *Flow, err error) {
	f, err = e.Read(ctx, id)
	if err != nil {
		return 0, nil, err
	}
	if f.Record.Canceled {
		return 0, f, ErrCanceled
	}
	for _, p := range f.allParts() {
		err := e.members(ctx, p.Queue, p.Part, true, func(ids []string) error {
			codes, err := e.Tasks.Change(ctx, inspect.Change{Queue: p.Queue, Verb: inspect.Run, From: wire.StateArchived}, ids)
			for _, code := range codes {
				if code == script.CodeOK {
					n++
				}
			}
			return err
		})
		if err != nil {
			return n, f, err
		}
	}
	f, err = e.Update(ctx, id, Update{Announce: true, Compare: rdb.CompareAll, Change: func(f *Flow, now int64) error {
		f.Revive(now)
		return nil
	}})
	return n, f, err
}
