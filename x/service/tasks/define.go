package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

// Definition is a task by its name, with parameters of type P. It is safe for concurrent use; one that is made at the start of a program,
// in a package that both sides import, is what both agree on.
type Definition[P any] struct {
	settings *settings
	err      error
}

// Define defines a task. What is wrong with it is said by whatever uses it: Start, Enqueue and the like return ErrDefinition.
func Define[P any](name string, opts ...Option) *Definition[P] {
	s, err := settle(name, opts)
	return &Definition[P]{settings: s, err: err}
}

// Name is the task's name, the type of its tasks.
func (d *Definition[P]) Name() string { return d.settings.name }

// Queue is the name of the task's queue.
func (d *Definition[P]) Queue() string { return d.settings.queue() }

// NewTask makes a task to be enqueued in another way: in a batch by asynq.Client, or by a scheduler. The options may say all but the queue.
func (d *Definition[P]) NewTask(params P, opts ...asynq.Option) (*asynq.Task, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.settings.newTask(params, opts)
}

// Enqueue puts a task into its queue. The options are those of this one task: asynq.TaskID, asynq.ProcessIn and the like, but not the queue.
//
// With asynq.TaskID it may be repeated: while the queue has a task with this ID and the same parameters, in any state, Enqueue returns
// that one. With other parameters the error is asynq.ErrTaskIDConflict.
func (d *Definition[P]) Enqueue(ctx context.Context, c *Client, params P, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	task, err := d.NewTask(params, opts...)
	if err != nil {
		return nil, err
	}
	return c.enqueue(ctx, d.settings, task)
}

// Wait waits until a task has ended, as Client.Wait does.
func (d *Definition[P]) Wait(ctx context.Context, c *Client, id string) (*asynq.TaskInfo, error) {
	if d.err != nil {
		return nil, d.err
	}
	return c.Wait(ctx, d.Queue(), id)
}

// Handle is a row of a Table: f does the task. An error of f is a failed attempt, as in an asynq.Handler; asynq.SkipRetry, RetryAfter and
// the like work, and so do asynq.GetTaskID and others on ctx. Parameters that cannot be read are ErrParams, and are not tried again.
func (d *Definition[P]) Handle(f func(ctx context.Context, params P) error) Row {
	if f == nil {
		return Row{settings: d.settings, err: d.err}
	}
	return d.handle(func(ctx context.Context, _ *asynq.Task, params P) error { return f(ctx, params) })
}

func (d *Definition[P]) handle(f func(ctx context.Context, task *asynq.Task, params P) error) Row {
	return Row{settings: d.settings, err: d.err, handler: asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var params P
		if err := d.settings.codec.Unmarshal(task.Payload(), &params); err != nil {
			return fmt.Errorf("%w: %w: %w", ErrParams, err, asynq.SkipRetry)
		}
		return f(ctx, task, params)
	})}
}

// ResultDefinition is a task whose handler returns a result of type R. See DefineResult.
type ResultDefinition[P, R any] struct{ *Definition[P] }

// defaultRetention is how long results are kept where nobody says otherwise.
const defaultRetention = time.Hour

// DefineResult defines a task with a result, which is kept in Redis for its Retention, by default an hour.
func DefineResult[P, R any](name string, opts ...Option) *ResultDefinition[P, R] {
	opts = append([]Option{Retention(defaultRetention)}, opts...)
	return &ResultDefinition[P, R]{Define[P](name, opts...)}
}

// Handle is a row of a Table: f does the task, and returns its result.
func (d *ResultDefinition[P, R]) Handle(f func(ctx context.Context, params P) (R, error)) Row {
	if f == nil {
		return d.Definition.Handle(nil)
	}
	return d.Definition.handle(func(ctx context.Context, task *asynq.Task, params P) error {
		result, err := f(ctx, params)
		if err != nil {
			return err
		}
		data, err := d.settings.codec.Marshal(result)
		if err != nil {
			return fmt.Errorf("tasks: result of %q: %w: %w", d.Name(), err, asynq.SkipRetry)
		}
		if _, err := task.ResultWriter().Write(data); err != nil {
			return fmt.Errorf("tasks: result of %q: %w", d.Name(), err)
		}
		return nil
	})
}

// Wait waits until a task has succeeded, and returns its result. The errors are those of Client.Wait.
func (d *ResultDefinition[P, R]) Wait(ctx context.Context, c *Client, id string) (result R, err error) {
	info, err := d.Definition.Wait(ctx, c, id)
	if err != nil {
		return result, err
	}
	if err := d.settings.codec.Unmarshal(info.Result, &result); err != nil {
		return result, fmt.Errorf("tasks: result of %q: %w", d.Name(), err)
	}
	return result, nil
}
