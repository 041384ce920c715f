package asynq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Inspector reads and changes queues and tasks. It is safe for concurrent use.
type Inspector struct {
	conn      connection
	broker    *rdb.Broker
	inspector *inspect.Inspector
	ctx       context.Context // for methods without a ctx parameter

	samples int // for QueueInfo.MemoryUsage
}

// NewInspector returns an inspector with a connection of its own. It panics if r is invalid.
func NewInspector(r RedisConnOpt) *Inspector {
	conn := connect(r)
	bounded := conn
	bounded.client = script.Bounded(conn.client)
	b := bounded.enqueuer()
	return &Inspector{
		conn: conn, broker: b, inspector: inspect.New(b), ctx: context.Background(), samples: defaultMemorySamples,
	}
}

// NewInspectorFromRedisClient returns an inspector that uses c, which remains the caller's to
// close. It panics if c is nil.
func NewInspectorFromRedisClient(c redis.UniversalClient) *Inspector {
	return NewInspector(SharedRedisClient(c))
}

// WithContext returns a view of the inspector whose methods without a ctx parameter end with ctx,
// even if Redis does not reply. A canceled call may still take effect. A canceled bulk call waits
// up to a second for the reply of its last request, and returns the number of tasks changed. The
// view shares the connection. A nil ctx means context.Background().
func (i *Inspector) WithContext(ctx context.Context) *Inspector {
	if ctx == nil {
		ctx = context.Background()
	}
	view := *i
	view.ctx = ctx
	return &view
}

// Close closes the connection. It returns an error if the inspector shares its connection.
func (i *Inspector) Close() error { return i.conn.close("Inspector") }

// Queues returns the names of all queues, sorted.
func (i *Inspector) Queues() ([]string, error) {
	names, err := i.broker.Queues(i.ctx)
	slices.Sort(names)
	return names, brokerError(err)
}

// GetTaskInfo returns the state and details of a task. It returns ErrQueueNotFound or
// ErrTaskNotFound (errors.Is) if it does not exist.
func (i *Inspector) GetTaskInfo(queue, id string) (*TaskInfo, error) {
	info, err := i.inspector.TaskInfo(i.ctx, queue, id)
	if errors.Is(err, script.ErrTaskGone) {
		if err := i.mustExist(i.ctx, queue, queueNotFoundText); err != nil {
			return nil, err
		}
		return nil, taskNotFound(queue, id)
	}
	if err != nil {
		return nil, brokerError(err)
	}
	return listedTask(info), nil
}

// PauseQueue stops servers from fetching tasks of the queue until UnpauseQueue. It returns an error
// if the queue is paused already.
func (i *Inspector) PauseQueue(queue string) error {
	return i.setPaused(queue, i.inspector.Pause, "is already paused")
}

// UnpauseQueue lets servers fetch tasks of the queue again. It returns an error if the queue is not
// paused.
func (i *Inspector) UnpauseQueue(queue string) error {
	return i.setPaused(queue, i.inspector.Unpause, "is not paused")
}

func (i *Inspector) setPaused(queue string, set func(context.Context, string) (bool, error), otherwise string) error {
	if err := validateQueueName(queue); err != nil {
		return err
	}
	changed, err := set(i.ctx, queue)
	if err != nil {
		return brokerError(err)
	}
	if !changed {
		return fmt.Errorf("asynq: queue %q %s", queue, otherwise)
	}
	return nil
}

// CancelProcessing cancels the context of the task's handler. It publishes the request to all
// servers, and returns nil even if no server runs the task.
func (i *Inspector) CancelProcessing(id string) error {
	return brokerError(i.broker.Cancel(i.ctx, id))
}

// validQueue returns an error if name is not a valid queue name: ErrQueueNotFound with this text,
// unless the name is empty.
func validQueue(queue, text string) error {
	if wire.SpreadsKeys(queue) {
		return queueNotFound(queue, text)
	}
	return validateQueueName(queue)
}

// mustExist returns ErrQueueNotFound with this text if the queue does not exist.
func (i *Inspector) mustExist(ctx context.Context, queue, text string) error {
	ok, err := i.broker.QueueExists(ctx, queue)
	if err != nil {
		return brokerError(err)
	}
	if !ok {
		return queueNotFound(queue, text)
	}
	return nil
}
