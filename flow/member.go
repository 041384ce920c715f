package flow

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/flow"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// Member is the place of a task in its flow, for handlers.
type Member struct {
	broker *rdb.Broker
	part   wire.FlowPart
}

// FromContext returns the place in its flow of the task that is being processed. It reports false
// if ctx is not derived from the context of a handler or a lease, or if the task is not of a flow.
func FromContext(ctx context.Context) (*Member, bool) {
	if ctx == nil {
		return nil, false
	}
	a := worker.FromContext(ctx)
	if a == nil {
		return nil, false
	}
	part, ok := a.Message.FlowPart()
	broker, known := a.Broker().(*rdb.Broker)
	return &Member{broker, part}, ok && known
}

// FlowID returns the ID of the flow.
func (m *Member) FlowID() string { return m.part.Flow }

// Node returns the name of the node.
func (m *Member) Node() string { return m.part.Node }

// ErrNoResult reports that a node has no result: it has not succeeded, is a batch, its task wrote
// none, or one of more than MaxResult bytes.
var ErrNoResult = errors.New("flow: the node has no result")

// MaxResult is the size in bytes up to which the flow keeps the result of a task. A larger one can
// only be read from the task itself, while its Retention lasts.
const MaxResult = wire.MaxFlowResult

// Result returns what the task of another node, added with Flow.Add, has written with
// Task.ResultWriter. It returns ErrNoResult if there is none, and an error if the flow has no such
// node.
func (m *Member) Result(ctx context.Context, node string) ([]byte, error) {
	return result(ctx, m.broker, m.part.Flow, m.part.Run, node)
}

// result reads the result of a node. run may be "" for any.
func result(ctx context.Context, broker *rdb.Broker, id, run, node string) ([]byte, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	f, err := (&flow.Engine{Broker: broker}).Read(ctx, id)
	if err != nil {
		return nil, public(err)
	}
	n := f.Record.Nodes[node]
	switch {
	case run != "" && f.Record.Run != run:
		return nil, ErrNotFound
	case n == nil:
		return nil, fmt.Errorf("flow: flow %q has no node %q", id, node)
	case len(n.Queues) == 0:
		return nil, ErrNoResult
	}
	b, err := broker.Client().HGet(ctx, broker.Keys(n.Queues[0]).FlowPart(f.Part(node)), "result").Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, ErrNoResult
	}
	return b, public(err)
}

// Enqueue adds members to the node of the task, which must have been added with AddBatch. The node
// does not succeed before they do. It returns one result per task, in order, and an error if none
// of those without a result was added.
//
// If the handler fails afterwards, the next attempt adds the members again. Give them a TaskID, and
// keep their tasks for a while with Retention, to add each once: the error of a task that exists is
// asynq.ErrTaskIDConflict.
func (m *Member) Enqueue(ctx context.Context, tasks []*asynq.Task, opts ...asynq.Option) ([]asynq.BatchEnqueueResult, error) {
	a := adder{broker: m.broker, part: m.part}
	return a.enqueue(ctx, tasks, opts)
}
