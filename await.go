package asynq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/waits"
	"github.com/asynq-go/asynq/internal/wire"
)

// Awaitable makes servers report the end of the task to clients that wait for it, so that
// Client.Wait returns at once instead of with its next poll. EnqueueAndWait sets it. Other tasks
// can be awaited, too, at the cost of polling.
func Awaitable() Option { return awaitableOption(true) }

// CancelOnReturn makes EnqueueAndWait cancel the task if its ctx ends before the task: a waiting
// task is deleted, an active one is canceled, and deleted if its handler then returns an error. It
// is best effort. Other calls return an error for it.
func CancelOnReturn() Option { return cancelOnReturnOption(true) }

type (
	awaitableOption      bool
	cancelOnReturnOption bool
)

func (o awaitableOption) Value() interface{}      { return bool(o) }
func (o cancelOnReturnOption) Value() interface{} { return bool(o) }

func (awaitableOption) Type() OptionType      { return AwaitableOpt }
func (cancelOnReturnOption) Type() OptionType { return CancelOnReturnOpt }

func (awaitableOption) String() string      { return "Awaitable()" }
func (cancelOnReturnOption) String() string { return "CancelOnReturn()" }

// parseNothing parses the arguments of an option that has none.
func parseNothing(arg string) (bool, error) {
	if arg != "" {
		return false, errors.New("the option has no argument")
	}
	return true, nil
}

// minAwaitedRetention is the least retention of awaited tasks, in seconds: a client that misses the
// report of their end finds them completed.
const minAwaitedRetention = 60

// TaskFailedError is the error of waiting for a task that was archived.
type TaskFailedError struct {
	// Info is the state of the archived task. LastErr is the error of its last attempt.
	Info *TaskInfo
}

// Error names the task and its last error.
func (e *TaskFailedError) Error() string {
	if e == nil || e.Info == nil {
		return "asynq: task failed"
	}
	return fmt.Sprintf("asynq: task %q of queue %q failed: %s", e.Info.ID, e.Info.Queue, e.Info.LastErr)
}

// EnqueueAndWait enqueues a task, waits for its end, and returns its state with its result. Results
// must be written with Task.ResultWriter. A Retention of less than a minute is raised to one.
//
// Until the task is enqueued, the errors are those of EnqueueContext. Later, the error is a
// *TaskFailedError if the task was archived, wraps ErrTaskNotFound if it was deleted, or wraps
// context.Cause(ctx) if ctx ended first: the task then continues, unless CancelOnReturn is set. If
// an IdempotencyKey or OnDuplicate(Keep) names another task, it waits for that one.
//
// The end is reported by the worker, so the call returns about a round trip after the task has
// ended. Reports can be lost; the client also reads the states of all awaited tasks every 1 to 5
// seconds, up to 1,000 of them with one command. While tasks are awaited, the client uses one
// connection more, on a Cluster up to four.
//
// A handler that waits for another task keeps its slot, so handlers of the same servers can wait
// for each other for ever: let the other task continue the work instead, or use package flow.
func (c *Client) EnqueueAndWait(ctx context.Context, task *Task, opts ...Option) (*TaskInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	made, err := prepareCreation(task, opts, c.broker.Keys, c.conn.now(), true)
	if err != nil {
		return nil, err
	}
	made.msg.Retention = max(made.msg.Retention, minAwaitedRetention)
	made.msg.SetExt(made.msg.Ext().Set(wire.ExtAwait, c.broker.ID()))
	if err := made.encode(); err != nil {
		return nil, err
	}
	wait := c.waits.Begin(made.order.Queue, made.order.ID)
	defer wait.Stop()
	info, err := c.enqueue(ctx, made)
	if err != nil {
		if ctx.Err() != nil && cancels(task, opts) { // the task may be enqueued
			c.cancelTask(made.order.Queue, made.order.ID)
		}
		return nil, err
	}
	wait.Created()
	if info.ID != made.order.ID || info.IsRepeated {
		return c.Wait(ctx, info.Queue, info.ID)
	}
	select {
	case reply := <-wait.End:
		if reply.Outcome == rdb.ReplySucceeded {
			info.State, info.Result, info.CompletedAt, info.NextProcessAt = TaskStateCompleted, reply.Result, time.Now(), time.Time{}
			return info, nil
		}
		return c.ended(ctx, info.Queue, info.ID)
	case <-ctx.Done():
		if cancels(task, opts) {
			c.cancelTask(info.Queue, info.ID)
		}
		return nil, notEnded(ctx, info.ID)
	}
}

// Wait waits until a task has ended, and returns its state with its result. The errors are those of
// EnqueueAndWait after the task was enqueued. A task that succeeds without a Retention is deleted,
// which is reported as ErrTaskNotFound.
//
// For tasks that were enqueued with Awaitable, the end is reported as described at EnqueueAndWait.
// The state of others is polled: first after 20 ms, then less and less often, and after about a
// second together with the states of all awaited tasks, every 1 to 5 seconds.
func (c *Client) Wait(ctx context.Context, queue, id string) (*TaskInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if err := validateQueueName(queue); err != nil {
		return nil, err
	}
	var state wire.State
	var reported bool
	var err error
	if !await(ctx, func(ctx context.Context) { state, reported, err = c.broker.Await(ctx, c.broker.ID(), queue, id) }) {
		return nil, notEnded(ctx, id)
	}
	if err != nil {
		return nil, brokerError(err)
	}
	if waits.Outcome(state) != "" {
		return c.ended(ctx, queue, id)
	}
	// A report may already wait in the client's list.
	wait := c.waits.Begin(queue, id)
	defer wait.Stop()
	wait.Created()
	pause := firstPoll
	var poll <-chan time.Time
	if !reported {
		poll = time.After(pause)
	}
	for {
		select {
		case <-wait.End:
			return c.ended(ctx, queue, id)
		case <-ctx.Done():
			return nil, notEnded(ctx, id)
		case <-poll:
			var states []wire.State
			if !await(ctx, func(ctx context.Context) { states, err = c.broker.States(ctx, queue, []string{id}) }) {
				return nil, notEnded(ctx, id)
			}
			if err == nil && waits.Outcome(states[0]) != "" {
				return c.ended(ctx, queue, id)
			}
			poll = nil
			if pause *= 2; pause < lastPoll {
				poll = time.After(pause)
			}
		}
	}
}

// Tasks whose end is not reported are polled at growing intervals within these bounds, later with
// all others.
const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = time.Second
)

// cancels reports whether a task has the option CancelOnReturn.
func cancels(t *Task, opts []Option) bool {
	is := func(opt Option) bool { return !isNilValue(opt) && opt.Type() == CancelOnReturnOpt }
	return slices.ContainsFunc(t.opts, is) || slices.ContainsFunc(opts, is)
}

func notEnded(ctx context.Context, id string) error {
	return fmt.Errorf("asynq: task %q has not ended: %w", id, context.Cause(ctx))
}

// ended reads a task that has ended. If it runs again, ended waits for its next end.
func (c *Client) ended(ctx context.Context, queue, id string) (*TaskInfo, error) {
	var found []*inspect.TaskInfo
	var failed []error
	if !await(ctx, func(ctx context.Context) {
		found, failed = inspect.New(c.broker).TaskInfos(ctx, []inspect.TaskName{{Queue: queue, ID: id}})
	}) {
		return nil, notEnded(ctx, id)
	}
	switch err := failed[0]; {
	case errors.Is(err, script.ErrTaskGone):
		return nil, taskNotFound(queue, id)
	case err != nil:
		return nil, brokerError(err)
	}
	switch info := listedTask(found[0]); info.State {
	case TaskStateCompleted:
		return info, nil
	case TaskStateArchived:
		return nil, &TaskFailedError{Info: info}
	default:
		return c.Wait(ctx, queue, id)
	}
}

// cancelTimeout limits the cancellation of a task whose caller has gone.
const cancelTimeout = 5 * time.Second

// cancelTask deletes a task that waits, and cancels one that is active.
func (c *Client) cancelTask(queue, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	codes, err := inspect.New(c.broker).Change(ctx, inspect.Change{Queue: queue, Verb: inspect.Delete}, []string{id})
	if err == nil && codes[0] == script.CodeActive {
		_ = c.broker.CancelTo(ctx, id, wire.CancelDelete) // best effort
	}
}
