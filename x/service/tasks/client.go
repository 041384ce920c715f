package tasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

// Client enqueues tasks, and waits for them. It is safe for concurrent use; a program needs one.
type Client struct {
	client    *asynq.Client
	inspector *asynq.Inspector
	opts      []Option
}

// NewClient returns a client that connects as r says. The options are those of tasks that are enqueued by name only, without a Definition:
// what Options their definition has elsewhere. It panics if r cannot make a connection; whether Redis answers is known with the first call.
func NewClient(r asynq.RedisConnOpt, opts ...Option) *Client {
	return &Client{client: asynq.NewClient(r), inspector: asynq.NewInspector(r), opts: opts}
}

// Close closes the client's connections.
func (c *Client) Close() error { return errors.Join(c.client.Close(), c.inspector.Close()) }

// Request asks for a task by its name, where the program has no Definition of it.
type Request struct {
	// ID of the task; empty for a random one. With an ID, Enqueue may be repeated, as that of a Definition.
	ID string

	// Name of the task, and of its queue.
	Name string

	// Params are encoded as the client's Codec does, in JSON unless it has another.
	Params any

	// Options of this one task, but not its queue.
	Options []asynq.Option
}

// Enqueue puts a task into the queue that has its name, with what the client's options say.
func (c *Client) Enqueue(ctx context.Context, r Request) (*asynq.TaskInfo, error) {
	s, err := settle(r.Name, c.opts)
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

// enqueue enqueues a task; one that is there already with the same ID and payload is as good.
func (c *Client) enqueue(ctx context.Context, s *settings, task *asynq.Task) (*asynq.TaskInfo, error) {
	info, err := c.client.EnqueueContext(ctx, task)
	if id := taskID(task); id != "" && errors.Is(err, asynq.ErrTaskIDConflict) {
		there, lookErr := c.look(ctx, s.queue(), id)
		switch {
		case lookErr == nil && there.Type == task.Type() && bytes.Equal(there.Payload, task.Payload()):
			return there, nil
		case errors.Is(lookErr, ErrGone): // it has ended in the meantime
			info, err = c.client.EnqueueContext(ctx, task)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("tasks: enqueue of %q: %w", s.name, err)
	}
	return info, nil
}

// taskID is the ID that a task was given, if it was.
func taskID(task *asynq.Task) (id string) {
	for _, opt := range task.Options() {
		if opt.Type() == asynq.TaskIDOpt {
			id, _ = opt.Value().(string)
		}
	}
	return id
}

// look tells what is known of a task. The Inspector's call has no ctx, and is left to end by itself where ctx ends first.
func (c *Client) look(ctx context.Context, queue, id string) (*asynq.TaskInfo, error) {
	type answer struct {
		info *asynq.TaskInfo
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		info, err := c.inspector.GetTaskInfo(queue, id)
		got <- answer{info, err}
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

// How often Wait looks at a task: soon for those that take no time, and then ever less, down to once a second.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = time.Second
)

// Wait waits until a task has ended, and returns what is known of it then. The error is ErrArchived, with the text of the task's last
// error, where it failed for good; ErrGone where it is not there, as one that has no Retention is not after it succeeded; that of ctx where
// ctx ends first. While Redis does not answer, Wait goes on. It looks at the task from 100 times down to once a second.
func (c *Client) Wait(ctx context.Context, queue, id string) (*asynq.TaskInfo, error) {
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		info, err := c.look(ctx, queue, id)
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
