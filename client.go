package asynq

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// Client puts tasks into queues. It is safe for concurrent use; a program needs one.
type Client struct {
	conn      connection
	broker    *rdb.Broker
	combiners sync.Map // lane → *combiner: a queue whose shard is down must not hold up others
}

// NewClient returns a client that connects as r says. It panics if r cannot make a connection; whether Redis answers is not known
// before the first call (see Ping).
func NewClient(r RedisConnOpt) *Client { return newClient(connect(r)) }

// NewClientFromRedisClient returns a client on a connection that stays the caller's to close. It panics if c is nil.
func NewClientFromRedisClient(c redis.UniversalClient) *Client { return newClient(connectShared(c)) }

func newClient(conn connection) *Client {
	broker := rdb.New(conn.client, conn.namespace)
	broker.Background = func(f func()) { go f() }
	broker.Patience = conn.patience
	return &Client{conn: conn, broker: broker}
}

// combiner returns the one for the lane of a queue.
func (c *Client) combiner(queue string) *combiner {
	lane := c.broker.Lane(queue)
	if known, ok := c.combiners.Load(lane); ok {
		return known.(*combiner)
	}
	known, _ := c.combiners.LoadOrStore(lane, &combiner{send: c.broker.Enqueue})
	return known.(*combiner)
}

// Close closes the connection. It fails if that is not the client's own.
func (c *Client) Close() error { return c.conn.close("Client") }

// Ping asks Redis for a sign of life.
func (c *Client) Ping() error { return c.broker.Ping(context.Background()) }

// Enqueue is EnqueueContext without a deadline.
func (c *Client) Enqueue(task *Task, opts ...Option) (*TaskInfo, error) {
	return c.EnqueueContext(context.Background(), task, opts...)
}

// EnqueueContext puts a task into a queue and returns what is known of it then. Options override those that the task was made with.
// What is wrong with a task or its options is told here, before anything is sent to Redis.
//
// The error is ErrDuplicateTask, ErrTaskIDConflict or ErrRedisFull (errors.Is) where Redis refused the task; the task was not
// enqueued then. If ctx ends first, EnqueueContext returns at once with the cause, and says whether the task may have been
// enqueued. Values of ctx do not reach the handler: see Header.
func (c *Client) EnqueueContext(ctx context.Context, task *Task, opts ...Option) (*TaskInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	made, err := newCreation(task, opts, c.broker.Keys, c.conn.now())
	if err != nil {
		return nil, err
	}
	if err := c.combiner(made.order.Queue).enqueue(ctx, &made.order); err != nil {
		return nil, publicError(err)
	}
	return made.info(), nil
}

// BatchEnqueueResult is what became of one task of a batch: either TaskInfo or Err is set.
type BatchEnqueueResult struct {
	TaskInfo *TaskInfo
	Err      error
}

// BatchEnqueueContext puts any number of tasks into their queues, many in one round trip, and returns the result of each, in the order
// of the tasks. Options override those that the tasks were made with. Tasks of one queue keep their order.
//
// A batch is no transaction: each result stands for itself, with the errors of EnqueueContext. If ctx ends first, it returns at
// once; the tasks that were not sent by then are not enqueued.
func (c *Client) BatchEnqueueContext(ctx context.Context, tasks []*Task, opts ...Option) []BatchEnqueueResult {
	results := make([]BatchEnqueueResult, len(tasks))
	if ctx == nil {
		for i := range results {
			results[i].Err = errNilContext
		}
		return results
	}
	for start := 0; start < len(tasks); start += batchChunk {
		end := min(start+batchChunk, len(tasks))
		c.enqueueChunk(ctx, tasks[start:end], opts, results[start:end])
	}
	return results
}

// batchChunk is how many tasks of a batch are made and sent at a time.
const batchChunk = 2000

func (c *Client) enqueueChunk(ctx context.Context, tasks []*Task, opts []Option, results []BatchEnqueueResult) {
	now := c.conn.now()
	made := make([]*creation, len(tasks))
	orders := make([]*rdb.NewTask, 0, len(tasks))
	for i, t := range tasks {
		var err error
		if made[i], err = newCreation(t, opts, c.broker.Keys, now); err != nil {
			results[i].Err = err
			continue
		}
		orders = append(orders, &made[i].order)
	}
	if err := c.sendChunk(ctx, orders); err != nil {
		for i := range results {
			if made[i] != nil {
				results[i].Err = err
			}
		}
		return
	}
	for i, m := range made {
		switch {
		case m == nil:
		case m.order.Err != nil:
			results[i].Err = publicError(m.order.Err)
		default:
			results[i].TaskInfo = m.info()
		}
	}
}

// sendChunk sends tasks and waits for Redis, or for the end of ctx: then nothing may be read of the tasks.
func (c *Client) sendChunk(ctx context.Context, orders []*rdb.NewTask) error {
	if ctx.Err() != nil {
		return notEnqueued(ctx)
	}
	if ctx.Done() == nil {
		c.broker.Enqueue(ctx, orders...)
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.broker.Enqueue(context.WithoutCancel(ctx), orders...)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("asynq: no answer from Redis, the task may or may not be enqueued: %w", context.Cause(ctx))
	}
}

// connection is a Redis connection with the namespace to use on it.
type connection struct {
	client    redis.UniversalClient
	namespace wire.Namespace
	now       func() time.Time // what a client takes for the time
	shared    bool             // the caller's to close
	patience  time.Duration    // of enqueue calls, where a failover keeps Redis from answering
}

func (c connection) close(owner string) error {
	if c.shared {
		return fmt.Errorf("asynq: the %s works on a shared Redis connection: close that instead", owner)
	}
	return c.client.Close()
}
