package asynq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
)

// Inspector looks at queues and tasks from outside, and changes them. It is safe for concurrent use.
type Inspector struct {
	conn   connection
	broker *rdb.Broker
	ctx    context.Context // of the methods that take none

	samples int // for QueueInfo.MemoryUsage
}

// NewInspector returns an inspector that connects as r says. It panics if r cannot make a connection.
func NewInspector(r RedisConnOpt) *Inspector { return newInspector(connect(r)) }

// NewInspectorFromRedisClient returns an inspector on a connection that stays the caller's to close. It panics if c is nil.
func NewInspectorFromRedisClient(c redis.UniversalClient) *Inspector {
	return newInspector(connectShared(c))
}

func newInspector(conn connection) *Inspector {
	return &Inspector{
		conn: conn, broker: rdb.New(conn.client, conn.namespace), ctx: context.Background(), samples: defaultMemorySamples,
	}
}

// WithContext returns a view of the inspector whose methods that take no context end with ctx, even where Redis is silent, as those do
// that take one. What such a call was to change may be changed nevertheless. The view shares the connection; ctx is meant to live no
// longer than the few calls that it is for. A nil ctx is taken for context.Background().
func (i *Inspector) WithContext(ctx context.Context) *Inspector {
	if ctx == nil {
		ctx = context.Background()
	}
	view := *i
	view.ctx = ctx
	return &view
}

// Close closes the connection. It fails if that is not the inspector's own.
func (i *Inspector) Close() error { return i.conn.close("Inspector") }

// Queues lists the names of all queues, sorted.
func (i *Inspector) Queues() ([]string, error) {
	names, err := until(i.ctx, func() ([]string, error) { return i.broker.Queues(i.ctx) })
	if err != nil {
		return nil, brokerError(err)
	}
	slices.Sort(names)
	return names, nil
}

// GetTaskInfo tells all that is known of a task. The error is ErrQueueNotFound or ErrTaskNotFound (errors.Is) if there is none.
func (i *Inspector) GetTaskInfo(queue, id string) (*TaskInfo, error) {
	info, err := until(i.ctx, func() (*rdb.TaskInfo, error) { return i.broker.TaskInfo(i.ctx, queue, id) })
	if errors.Is(err, rdb.ErrTaskGone) {
		if err := i.mustExist(i.ctx, queue); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("asynq: %w: %q in queue %q", ErrTaskNotFound, id, queue)
	}
	if err != nil {
		return nil, brokerError(err)
	}
	next := info.ProcessAt
	if TaskState(info.State) == TaskStatePending {
		next = time.Now()
	}
	out := newTaskInfo(info.Message, TaskState(info.State), next, info.Result)
	out.IsOrphaned = info.Orphaned
	return out, nil
}

// PauseQueue lets no server take tasks of the queue until UnpauseQueue. It fails if the queue is paused already.
func (i *Inspector) PauseQueue(queue string) error {
	return i.setPaused(queue, i.broker.Pause, "is already paused")
}

// UnpauseQueue lets servers take tasks of the queue again. It fails if the queue is not paused.
func (i *Inspector) UnpauseQueue(queue string) error {
	return i.setPaused(queue, i.broker.Unpause, "is not paused")
}

func (i *Inspector) setPaused(queue string, set func(context.Context, string) (bool, error), otherwise string) error {
	if err := validateQueueName(queue); err != nil {
		return err
	}
	changed, err := until(i.ctx, func() (bool, error) { return set(i.ctx, queue) })
	if err != nil {
		return brokerError(err)
	}
	if !changed {
		return fmt.Errorf("asynq: queue %q %s", queue, otherwise)
	}
	return nil
}

// CancelProcessing asks the server that processes the task to cancel its handler's context. That the error is nil says only that all
// servers were asked.
func (i *Inspector) CancelProcessing(id string) error {
	if err := untilDone(i.ctx, func() error { return i.broker.Cancel(i.ctx, id) }); err != nil {
		return brokerError(err)
	}
	return nil
}

// mustExist returns ErrQueueNotFound if there is no queue of that name.
func (i *Inspector) mustExist(ctx context.Context, queue string) error {
	ok, err := until(ctx, func() (bool, error) { return i.broker.QueueExists(ctx, queue) })
	if err != nil {
		return brokerError(err)
	}
	if !ok {
		return fmt.Errorf("asynq: %w: %q", ErrQueueNotFound, queue)
	}
	return nil
}
