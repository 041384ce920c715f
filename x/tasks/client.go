package tasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

// Client enqueues tasks and waits for them. It is safe for concurrent use; create one per program.
type Client struct {
	client    *asynq.Client
	inspector *asynq.Inspector
	opts      []Option
}

// NewClient returns a client. The options apply to tasks that are enqueued by name, without a
// Definition; pass those of their definitions elsewhere. NewClient panics if r is not supported. It
// does not connect to Redis.
func NewClient(r asynq.RedisConnOpt, opts ...Option) *Client {
	return &Client{client: asynq.NewClient(r), inspector: asynq.NewInspector(r), opts: opts}
}

// Close closes the connections of the client.
func (c *Client) Close() error { return errors.Join(c.client.Close(), c.inspector.Close()) }

// Request is a task to enqueue by name, without a Definition.
type Request struct {
	// ID of the task; random if empty. An ID makes Enqueue idempotent, as with a Definition.
	ID string

	// Name of the task, and of its queue.
	Name string

	// Params are encoded with the Codec of the client, by default JSON.
	Params any

	// Options of this task, except Queue.
	Options []asynq.Option
}

// Enqueue enqueues a task with the options of the client. Its queue has the name of the task.
func (c *Client) Enqueue(ctx context.Context, r Request) (*asynq.TaskInfo, error) {
	s, err := newSettings(r.Name, nil, c.opts)
	if err != nil {
		return nil, err
	}
	opts := r.Options
	if r.ID != "" {
		opts = append(append([]asynq.Option{}, opts...), asynq.TaskID(r.ID))
	}
	task, err := s.newTask(r.Params, opts)
	if err != nil {
		return nil, err
	}
	return c.enqueue(ctx, s, task)
}

// enqueue enqueues a task, or returns the existing task with the same ID and payload.
func (c *Client) enqueue(ctx context.Context, s *settings, task *asynq.Task) (*asynq.TaskInfo, error) {
	info, err := c.client.EnqueueContext(ctx, task)
	if id := taskID(task); id != "" && errors.Is(err, asynq.ErrTaskIDConflict) {
		existing, getErr := c.get(ctx, s.queue(), id)
		switch {
		case getErr == nil && existing.Type == task.Type() && bytes.Equal(existing.Payload, task.Payload()):
			return existing, nil
		case errors.Is(getErr, ErrGone): // ended in the meantime
			info, err = c.client.EnqueueContext(ctx, task)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("tasks: enqueue of %q: %w", s.name, err)
	}
	return info, nil
}

// taskID returns the ID option of a task; empty if it has none.
func taskID(task *asynq.Task) (id string) {
	for _, opt := range task.Options() {
		if opt.Type() == asynq.TaskIDOpt {
			id, _ = opt.Value().(string)
		}
	}
	return id
}

// get returns a task. The Inspector's call has no ctx; if ctx ends first, it continues in the
// background.
func (c *Client) get(ctx context.Context, queue, id string) (*asynq.TaskInfo, error) {
	type response struct {
		info *asynq.TaskInfo
		err  error
	}
	got := make(chan response, 1)
	go func() {
		info, err := c.inspector.GetTaskInfo(queue, id)
		got <- response{info, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case a := <-got:
		if errors.Is(a.err, asynq.ErrTaskNotFound) || errors.Is(a.err, asynq.ErrQueueNotFound) {
			return nil, fmt.Errorf("%w: %w", ErrGone, a.err)
		}
		return a.info, a.err
	}
}

// The poll intervals of Wait.
const (
	firstPoll = 10 * time.Millisecond
	lastPoll  = time.Second
)

// Wait waits until a task has ended and returns it. It polls Redis, at first every 10 ms, then less
// often, down to once per second, and keeps trying while Redis is unreachable. The error is
// ErrArchived with the last error of the task if its retries are exhausted, ErrGone if the task
// does not exist, for example because it succeeded without a Retention, and the cause of ctx if ctx
// is done first.
func (c *Client) Wait(ctx context.Context, queue, id string) (*asynq.TaskInfo, error) {
	for pause := firstPoll; ; pause = min(pause*3/2, lastPoll) {
		info, err := c.get(ctx, queue, id)
		switch {
		case errors.Is(err, ErrGone):
			return nil, err
		case err == nil && info.State == asynq.TaskStateCompleted:
			return info, nil
		case err == nil && info.State == asynq.TaskStateArchived:
			return info, fmt.Errorf("%w: %s", ErrArchived, info.LastErr)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}
