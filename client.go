package asynq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/batch"
	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/waits"
	"github.com/asynq-go/asynq/internal/wire"
)

// Client enqueues tasks. It is safe for concurrent use; a program usually needs one.
type Client struct {
	conn     connection
	broker   *rdb.Broker
	waits    waits.Waits
	batchers sync.Map // lane → *batch.Batcher: an unreachable shard must not block the queues of others
}

// NewClient returns a client that connects to Redis with the options r. It does not contact Redis;
// use Ping to check the connection. It panics if r is invalid.
func NewClient(r RedisConnOpt) *Client {
	conn := connect(r)
	broker := conn.enqueuer()
	broker.RetryBudget = conn.retryBudget
	return &Client{conn: conn, broker: broker, waits: waits.Waits{Broker: broker}}
}

// NewClientFromRedisClient returns a client that uses an existing connection, which the caller
// remains responsible for closing. It panics if c is nil.
func NewClientFromRedisClient(c redis.UniversalClient) *Client {
	return NewClient(SharedRedisClient(c))
}

// batcher returns the batcher for the lane of a queue.
func (c *Client) batcher(queue string) *batch.Batcher[*rdb.NewTask] {
	lane := c.broker.Lane(queue)
	known, ok := c.batchers.Load(lane)
	if !ok {
		known, _ = c.batchers.LoadOrStore(lane, newBatcher(c.broker))
	}
	return known.(*batch.Batcher[*rdb.NewTask])
}

// Close closes the connection. It returns an error if the connection is shared, as with
// NewClientFromRedisClient.
func (c *Client) Close() error { return c.conn.close("Client") }

// Ping checks the connection to Redis.
func (c *Client) Ping() error { return c.broker.Ping(context.Background()) }

// Enqueue is like EnqueueContext with context.Background().
func (c *Client) Enqueue(task *Task, opts ...Option) (*TaskInfo, error) {
	return c.EnqueueContext(context.Background(), task, opts...)
}

// EnqueueContext adds task to its queue and returns its initial state. opts override the options of
// NewTask.
//
// It returns an error without contacting Redis if the task or an option is invalid. It returns
// ErrDuplicateTask, ErrTaskIDConflict or ErrRedisFull if Redis rejects the task, which is then not
// enqueued. If ctx ends first, it returns an error that wraps context.Cause(ctx) and states whether
// the task may have been enqueued. Values of ctx are not passed to the handler; use Header for
// that.
func (c *Client) EnqueueContext(ctx context.Context, task *Task, opts ...Option) (*TaskInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	made, err := newCreation(task, opts, c.broker.Keys, c.conn.now())
	if err != nil {
		return nil, err
	}
	return c.enqueue(ctx, made)
}

func (c *Client) enqueue(ctx context.Context, made *creation) (*TaskInfo, error) {
	if err := c.send(ctx, &made.order); err != nil {
		return nil, c.rejected(ctx, []*creation{made}, []error{err})[0]
	}
	c.cancelSuperseded(ctx, made)
	if made.mustRead() {
		infos, errs := c.firstInfos(ctx, []*creation{made})
		return infos[0], errs[0]
	}
	return made.info(), nil
}

// rejected returns the public errors of tasks that were not enqueued. If there are duplicates, it
// reads which tasks hold their locks.
func (c *Client) rejected(ctx context.Context, made []*creation, errs []error) []error {
	public := make([]error, len(errs))
	var duplicates []*rdb.NewTask
	var named []*DuplicateTaskError
	for i, err := range errs {
		if public[i] = publicError(err); errors.Is(err, script.ErrDuplicateTask) {
			d := &DuplicateTaskError{Queue: made[i].order.Queue}
			duplicates, named, public[i] = append(duplicates, &made[i].order), append(named, d), d
		}
	}
	if len(duplicates) == 0 {
		return public
	}
	var holders []string
	if await(ctx, func(ctx context.Context) { holders = c.broker.Holders(ctx, duplicates) }) {
		for i, d := range named {
			d.TaskID = holders[i]
		}
	}
	return public
}

// cancelSuperseded cancels the active tasks whose locks new tasks have taken over.
func (c *Client) cancelSuperseded(ctx context.Context, made ...*creation) {
	for _, m := range made {
		if m != nil && m.order.Err == nil && m.order.Mode != nil && m.order.Mode.Superseded != "" {
			await(ctx, func(ctx context.Context) {
				_ = c.broker.CancelTo(ctx, m.order.Mode.Superseded, wire.CancelDelete) // best effort
			})
		}
	}
}

// firstInfos returns the infos of the tasks for which creations stand.
func (c *Client) firstInfos(ctx context.Context, repeated []*creation) ([]*TaskInfo, []error) {
	names := make([]inspect.TaskName, len(repeated))
	for i, m := range repeated {
		names[i] = inspect.TaskName{Queue: m.order.Queue, ID: m.order.Mode.FirstID}
	}
	infos, errs := make([]*TaskInfo, len(names)), make([]error, len(names))
	var found []*inspect.TaskInfo
	var failed []error
	read := await(ctx, func(ctx context.Context) { found, failed = inspect.New(c.broker).TaskInfos(ctx, names) })
	for i, t := range names {
		err := context.Cause(ctx)
		if read {
			err = failed[i]
		}
		switch {
		case errors.Is(err, script.ErrTaskGone):
			infos[i] = &TaskInfo{ID: t.ID, Queue: t.Queue, IsRepeated: repeated[i].repeated()}
		case err != nil:
			errs[i] = fmt.Errorf("asynq: task %q is enqueued, but could not be read: %w", t.ID, err)
		default:
			infos[i] = listedTask(found[i])
			infos[i].IsRepeated = repeated[i].repeated()
		}
	}
	return infos, errs
}

// BatchEnqueueResult is the result of enqueueing one task of a batch. Either TaskInfo or Err is
// set.
type BatchEnqueueResult struct {
	TaskInfo *TaskInfo // initial state of the task; nil if it was not enqueued
	Err      error     // error of EnqueueContext
}

// BatchEnqueueContext adds any number of tasks to their queues, many per round trip. It returns one
// result per task, in order. opts apply to all tasks and override the options of NewTask. Tasks of
// the same queue keep their order.
//
// A batch is not a transaction: each task succeeds or fails on its own, with the errors of
// EnqueueContext. If ctx ends first, tasks that have not been sent are not enqueued.
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

// batchChunk is the maximum number of tasks of a batch that are prepared and sent at a time.
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
	c.cancelSuperseded(ctx, made...)
	var repeated, rejected []*creation
	var repeatedAt, rejectedAt []int
	var reasons []error
	for i, m := range made {
		switch {
		case m == nil:
		case m.order.Err != nil:
			rejected, rejectedAt, reasons = append(rejected, m), append(rejectedAt, i), append(reasons, m.order.Err)
		case m.mustRead():
			repeated, repeatedAt = append(repeated, m), append(repeatedAt, i)
		default:
			results[i].TaskInfo = m.info()
		}
	}
	if len(rejected) > 0 {
		for n, err := range c.rejected(ctx, rejected, reasons) {
			results[rejectedAt[n]].Err = err
		}
	}
	if len(repeated) > 0 {
		infos, errs := c.firstInfos(ctx, repeated)
		for n, i := range repeatedAt {
			results[i] = BatchEnqueueResult{TaskInfo: infos[n], Err: errs[n]}
		}
	}
}

// sendChunk sends tasks and waits for the reply. If it returns an error because ctx has ended, the
// tasks may still be in use.
func (c *Client) sendChunk(ctx context.Context, orders []*rdb.NewTask) error {
	if ctx.Err() != nil {
		return notEnqueued(ctx)
	}
	if !await(ctx, func(ctx context.Context) { c.broker.Enqueue(ctx, orders...) }) {
		return maybeEnqueued(ctx)
	}
	return nil
}

// await calls f with a context that does not end. It returns false if ctx ends first; f continues.
func await(ctx context.Context, f func(ctx context.Context)) bool {
	if ctx.Done() == nil {
		f(ctx)
		return true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(context.WithoutCancel(ctx))
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Every pipeline has a fixed cost, so a second one needs a minimum number of calls while one is in
// flight. Fewer calls wait for the first to return.
const (
	minSecondBatch  = 4
	fullSecondBatch = 32
)

// newBatcher returns a batcher, which sends concurrent calls in shared pipelines.
func newBatcher(broker *rdb.Broker) *batch.Batcher[*rdb.NewTask] {
	return batch.New(batch.Config[*rdb.NewTask]{
		Second: minSecondBatch, Full: fullSecondBatch,
		Send: func(tasks []*rdb.NewTask) { broker.Enqueue(context.Background(), tasks...) },
	})
}

// send sends a task and waits for the reply or the end of ctx. The error states whether the task
// may have been enqueued.
func (c *Client) send(ctx context.Context, task *rdb.NewTask) error {
	sent, err := c.batcher(task.Queue).Do(ctx, task)
	switch {
	case err == nil:
		return task.Err
	case ctx.Err() == nil:
		return err
	case sent:
		return maybeEnqueued(ctx)
	default:
		return notEnqueued(ctx)
	}
}

func notEnqueued(ctx context.Context) error {
	return fmt.Errorf("asynq: the task was not enqueued: %w", context.Cause(ctx))
}

func maybeEnqueued(ctx context.Context) error {
	return fmt.Errorf("asynq: no reply from Redis, the task may or may not be enqueued: %w", context.Cause(ctx))
}
