package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/access"
	"github.com/asynq-go/asynq/internal/flow"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// The errors of calls.
var (
	// ErrExists reports that a flow has the ID.
	ErrExists = errors.New("flow: a flow with this ID exists")

	// ErrNotFound reports that no flow has the ID: it was never started, or is no longer retained.
	ErrNotFound = errors.New("flow: no flow with this ID")

	// ErrClosed reports that a batch is closed or was canceled, so that no members can be added.
	ErrClosed = errors.New("flow: the batch is closed")
)

// public returns the public error.
func public(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rdb.ErrFlowExists):
		return ErrExists
	case errors.Is(err, rdb.ErrFlowGone):
		return ErrNotFound
	case errors.Is(err, rdb.ErrPartClosed):
		return ErrClosed
	case errors.Is(err, flow.ErrEnded):
		return ErrEnded
	case errors.Is(err, flow.ErrRunning):
		return ErrRunning
	case errors.Is(err, flow.ErrCanceled):
		return ErrCanceled
	case errors.Is(err, flow.ErrNoNode):
		return ErrNoNode
	}
	return fmt.Errorf("flow: %w", err)
}

// Start creates a flow and the tasks of its first nodes. If a flow with its ID exists, it returns
// ErrExists with the state of that flow and changes nothing, so the call can be repeated.
//
// If it returns another error than those of invalid arguments, the flow may or may not exist; if it
// does, servers complete what Start has begun.
func Start(ctx context.Context, client *asynq.Client, f *Flow) (*Info, error) {
	plan, err := f.plan(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errNilClient
	}
	e := flow.Engine{Broker: access.Broker(client)}
	started, err := e.Start(ctx, plan)
	return newInfo(started), public(err)
}

var (
	errNilClient  = errors.New("flow: nil client")
	errNilContext = errors.New("flow: nil context")
)

// Batch is an open batch: any number of tasks that run at once, and callbacks for their end. It is
// safe for concurrent use.
type Batch struct {
	broker *rdb.Broker
	adder  adder
}

// NewBatch returns a flow with an open node named "members", for OpenBatch. Further nodes added to
// it with After, AfterFailure or AfterEnd of Members are its callbacks; OnSuccess, OnFailure and
// OnEnd add one of each, with the names "on_success", "on_failure" and "on_end".
func NewBatch(id string) *BatchFlow {
	f := New(id)
	members := f.AddBatch(membersNode, nil)
	members.open = true
	return &BatchFlow{Flow: f, Members: members}
}

const membersNode = "members"

// BatchFlow describes a batch.
type BatchFlow struct {
	*Flow
	Members *Node // the node of the tasks that are added
}

// OnSuccess adds a task that runs when the batch is closed and all members have succeeded.
func (b *BatchFlow) OnSuccess(t *asynq.Task, opts ...asynq.Option) *BatchFlow {
	b.Add("on_success", t, opts...).After(b.Members)
	return b
}

// OnFailure adds a task that runs when the first member has failed.
func (b *BatchFlow) OnFailure(t *asynq.Task, opts ...asynq.Option) *BatchFlow {
	b.Add("on_failure", t, opts...).AfterFailure(b.Members)
	return b
}

// OnEnd adds a task that runs when the batch is closed and all members have ended: they have
// succeeded, were archived, or deleted. A member that waits for its next retry has not ended.
func (b *BatchFlow) OnEnd(t *asynq.Task, opts ...asynq.Option) *BatchFlow {
	b.Add("on_end", t, opts...).AfterEnd(b.Members)
	return b
}

// OpenBatch creates a batch. Its members are added with Batch.Enqueue, and start at once; the
// callbacks run after Batch.Close. If the ID is in use, it returns ErrExists; ResumeBatch returns
// the batch.
func OpenBatch(ctx context.Context, client *asynq.Client, b *BatchFlow) (*Batch, error) {
	if b == nil || b.Flow == nil {
		return nil, errors.New("flow: nil batch")
	}
	if _, err := Start(ctx, client, b.Flow); err != nil {
		return nil, err
	}
	return ResumeBatch(ctx, client, b.id)
}

// ResumeBatch returns a batch that is open, also one that another process has opened. It returns
// ErrNotFound, or ErrClosed if the batch is closed.
func ResumeBatch(ctx context.Context, client *asynq.Client, id string) (*Batch, error) {
	switch {
	case ctx == nil:
		return nil, errNilContext
	case client == nil:
		return nil, errNilClient
	}
	broker := access.Broker(client)
	f, err := (&flow.Engine{Broker: broker}).Read(ctx, id)
	if err != nil {
		return nil, public(err)
	}
	if n := f.Record.Nodes[membersNode]; n == nil || !n.Open {
		return nil, ErrClosed
	}
	return &Batch{broker, adder{broker: broker, part: f.Part(membersNode), open: true}}, nil
}

// ID returns the ID of the batch.
func (b *Batch) ID() string { return b.adder.part.Flow }

// Enqueue adds members, many per round trip. They run at once. It returns one result per task, in
// order, as Client.BatchEnqueueContext does; ErrClosed if the batch is closed or canceled. Options
// are those of Flow.Add; with a TaskID, a task that exists is not added again, and its error is
// asynq.ErrTaskIDConflict.
func (b *Batch) Enqueue(ctx context.Context, tasks []*asynq.Task, opts ...asynq.Option) ([]asynq.BatchEnqueueResult, error) {
	return b.adder.enqueue(ctx, tasks, opts)
}

// Close closes the batch: no further members can be added from outside, and its callbacks run once
// the members have ended. Closing it again does nothing.
func (b *Batch) Close(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	e := flow.Engine{Broker: b.broker}
	_, err := e.Update(ctx, b.ID(), flow.Update{
		Announce: true, Run: b.adder.part.Run, Nodes: []string{membersNode},
		Change: func(f *flow.Flow, _ int64) error {
			f.Record.Nodes[membersNode].Open = false
			return nil
		},
	})
	return public(err)
}

// adder adds members to a node.
type adder struct {
	broker *rdb.Broker
	part   wire.FlowPart
	open   bool // only while the node is open
}

// enqueue adds tasks to the node.
func (a *adder) enqueue(ctx context.Context, tasks []*asynq.Task, opts []asynq.Option) ([]asynq.BatchEnqueueResult, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	results := make([]asynq.BatchEnqueueResult, len(tasks))
	for start := 0; start < len(tasks); start += addChunk {
		end := min(start+addChunk, len(tasks))
		if err := a.add(ctx, tasks[start:end], opts, results[start:end]); err != nil {
			for i := start; i < len(tasks); i++ {
				if results[i] == (asynq.BatchEnqueueResult{}) {
					results[i].Err = err
				}
			}
			return results, err
		}
	}
	return results, nil
}

// addChunk is the maximum number of members that are prepared and sent at a time.
const addChunk = 2000

// add adds at most addChunk tasks.
func (a *adder) add(ctx context.Context, tasks []*asynq.Task, opts []asynq.Option, results []asynq.BatchEnqueueResult) error {
	now := time.Now()
	made, orders := make([]*access.Task, len(tasks)), make([]*rdb.NewTask, len(tasks))
	var queues []string
	for i, t := range tasks {
		var err error
		if made[i], err = prepare(task{t, opts}, now); err == nil {
			err = encode(made[i], a.part, false)
		}
		if err != nil {
			made[i], results[i].Err = nil, err
			continue
		}
		orders[i] = made[i].New
		if q := orders[i].Queue; !slices.Contains(queues, q) {
			queues = append(queues, q)
		}
	}
	// The flow must know the queues before members are created there: otherwise it could end
	// without them.
	e := flow.Engine{Broker: a.broker}
	if err := e.AddQueues(ctx, a.part, queues, a.open); err != nil {
		return public(err)
	}
	var failed error
	for i, err := range e.AddMembers(ctx, a.part, orders) {
		switch {
		case made[i] == nil:
		case errors.Is(err, rdb.ErrPartClosed):
			results[i].Err, failed = ErrClosed, ErrClosed
		case err != nil:
			results[i].Err = access.PublicError(err)
		default:
			results[i].TaskInfo = made[i].Info().(*asynq.TaskInfo)
		}
	}
	return failed
}
