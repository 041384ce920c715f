package tasks

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/asynq-go/asynq"
)

// Definition is a named task with parameters of type P. It is safe for concurrent use. Define it as
// a package variable that producers and workers import.
type Definition[P any] struct {
	settings *settings
	err      error
}

// Define defines a task. If the definition is invalid, Start, Enqueue and the other functions that
// use it return ErrDefinition.
func Define[P any](name string, opts ...Option) *Definition[P] {
	s, err := newSettings(name, reflect.TypeFor[P](), opts)
	return &Definition[P]{settings: s, err: err}
}

// Name returns the name of the task, which is its type.
func (d *Definition[P]) Name() string { return d.settings.name }

// Queue returns the name of the queue.
func (d *Definition[P]) Queue() string { return d.settings.queue() }

// NewTask returns a task to enqueue in another way: in a batch by asynq.Client, or by a scheduler.
// It accepts all options except Queue.
func (d *Definition[P]) NewTask(params P, opts ...asynq.Option) (*asynq.Task, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.settings.newTask(params, opts)
}

// Enqueue enqueues a task. It accepts all options, such as asynq.TaskID and asynq.ProcessIn, except
// Queue.
//
// With asynq.TaskID it is idempotent: while the queue has a task with this ID and the same
// parameters, in any state, Enqueue returns that task. If the parameters differ, it returns
// asynq.ErrTaskIDConflict.
func (d *Definition[P]) Enqueue(ctx context.Context, c *Client, params P, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	task, err := d.NewTask(params, opts...)
	if err != nil {
		return nil, err
	}
	return c.enqueue(ctx, d.settings, task)
}

// Wait waits until a task has ended. See Client.Wait.
func (d *Definition[P]) Wait(ctx context.Context, c *Client, id string) (*asynq.TaskInfo, error) {
	if d.err != nil {
		return nil, d.err
	}
	return c.Wait(ctx, d.Queue(), id)
}

// Handle returns a row of a Table that processes the task with f. Errors, asynq.SkipRetry,
// RetryAfter and functions such as asynq.GetTaskID work as in an asynq.Handler. If the parameters
// cannot be decoded, the attempt fails with ErrParams and the task is archived.
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

// defaultRetention is the default Retention of results.
const defaultRetention = time.Hour

// DefineResult defines a task with a result. Redis stores the result for its Retention, by default
// one hour.
func DefineResult[P, R any](name string, opts ...Option) *ResultDefinition[P, R] {
	opts = append([]Option{Retention(defaultRetention)}, opts...)
	return &ResultDefinition[P, R]{Define[P](name, opts...)}
}

// Handle returns a row of a Table that processes the task with f and stores its result.
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

// Wait waits until a task has succeeded and returns its result. The errors are those of
// Client.Wait.
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
