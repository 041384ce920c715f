package asynq_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// enqueueWaiting makes a task in each state that UpdateTask accepts, with a lock each, and returns
// their IDs and states.
func enqueueWaiting(env *testenv.Env) map[string]asynq.TaskState {
	env.T.Helper()
	unique := func(id string) asynq.Option { return asynq.UniqueKey(id, time.Hour) }
	stop := env.Serve(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "archived" {
			return asynq.SkipRetry
		}
		return asynq.RetryAfter(time.Hour)
	})
	env.Enqueue("retry", unique("retry"))
	env.Enqueue("archived", unique("archived"))
	env.AwaitState("retry", "retry")
	env.AwaitState("archived", "archived")
	stop.Shutdown()
	env.Enqueue("pending", unique("pending"))
	env.Enqueue("behind")
	env.Enqueue("scheduled", unique("scheduled"), asynq.ProcessIn(time.Hour))
	env.Enqueue("aggregating", unique("aggregating"), asynq.Group("g"))
	return map[string]asynq.TaskState{
		"retry": asynq.TaskStateRetry, "archived": asynq.TaskStateArchived, "pending": asynq.TaskStatePending,
		"scheduled": asynq.TaskStateScheduled, "aggregating": asynq.TaskStateAggregating,
	}
}

func TestUpdateTask(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		for id, state := range enqueueWaiting(env) {
			before, err := i.GetTaskInfo("default", id)
			env.NoError(err)
			info, err := i.UpdateTask(ctx, "default", id, []byte("new"), asynq.MaxRetry(7), asynq.Timeout(time.Minute), nil,
				asynq.Deadline(time.Unix(5e9, 0)), asynq.Retention(time.Hour), asynq.ExpiresIn(48*time.Hour))
			if err != nil {
				env.T.Errorf("%s: %v", id, err)
				continue
			}
			if info.State != state || string(info.Payload) != "new" || info.MaxRetry != 7 || info.Timeout != time.Minute || info.Deadline.Unix() != 5e9 ||
				info.Retention != time.Hour || time.Until(info.ExpiresAt) < 47*time.Hour || info.Retried != before.Retried || info.LastErr != before.LastErr {
				env.T.Errorf("%s is %+v", id, info)
			}
			if state != asynq.TaskStatePending && !info.NextProcessAt.Equal(before.NextProcessAt) {
				env.T.Errorf("%s is due at %v, before the change at %v", id, info.NextProcessAt, before.NextProcessAt)
			}
		}
		if order, err := i.ListPendingTasks("default"); err != nil || len(order) != 2 || order[0].ID != "pending" {
			env.T.Errorf("the pending tasks are %v, error %v", order, err)
		}
		info, err := i.UpdateTask(ctx, "default", "scheduled", []byte{}, asynq.Timeout(0), asynq.Deadline(time.Time{}))
		if err != nil || len(info.Payload) != 0 || info.Timeout != 30*time.Minute || info.MaxRetry != 7 || !info.Deadline.IsZero() {
			env.T.Errorf("the defaults: %+v, error %v", info, err)
		}
		env.CheckInvariants("at the end")
	})
}

func TestUpdateTaskTime(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i, at := context.Background(), env.Inspector(), time.Now().Add(3*time.Hour).Truncate(time.Second)
		for id, state := range enqueueWaiting(env) {
			if state != asynq.TaskStateRetry {
				state = asynq.TaskStateScheduled
			}
			info, err := i.UpdateTask(ctx, "default", id, nil, asynq.ProcessAt(at))
			if err != nil || info.State != state || !info.NextProcessAt.Equal(at) {
				env.T.Errorf("%s is %+v, error %v", id, info, err)
			}
		}
		info, err := i.UpdateTask(ctx, "default", "pending", nil, asynq.ProcessIn(-time.Hour))
		if err != nil || info.NextProcessAt.After(time.Now()) {
			env.T.Errorf("a time in the past: %+v, error %v", info, err)
		}
		env.CheckInvariants("before a server")
		env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
		env.AwaitState("pending", "")
	})
}

func TestUpdateTaskQueue(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		waiting := enqueueWaiting(env)
		for id, state := range waiting {
			info, err := i.UpdateTask(ctx, "default", id, []byte("moved"), asynq.Queue("other"))
			if err != nil || info.Queue != "other" || info.State != state || string(info.Payload) != "moved" {
				env.T.Errorf("%s is %+v, error %v", id, info, err)
			}
			if _, err := i.GetTaskInfo("default", id); !errors.Is(err, asynq.ErrTaskNotFound) {
				env.T.Errorf("%s is still in its queue: error %v", id, err)
			}
			_, err = env.Client.Enqueue(asynq.NewTask("x", nil), asynq.Queue("other"), asynq.UniqueKey(id, time.Hour))
			env.ErrorIs(err, asynq.ErrDuplicateTask)
			_, err = env.Client.Enqueue(asynq.NewTask("x", nil), asynq.UniqueKey(id, time.Hour), asynq.TaskID("new "+id))
			env.NoError(err)
			_, err = i.UpdateTask(ctx, "default", "new "+id, nil, asynq.Queue("other"))
			env.ErrorIs(err, asynq.ErrDuplicateTask)
		}
		env.Enqueue("retry")
		_, err := i.UpdateTask(ctx, "default", "retry", nil, asynq.Queue("other"))
		env.ErrorIs(err, asynq.ErrTaskIDConflict)
		env.CheckInvariants("after the moves")
		env.Serve(asynq.Config{Queues: map[string]int{"other": 1}}, func(_ context.Context, task *asynq.Task) error {
			if string(task.Payload()) != "moved" {
				env.T.Errorf("the payload %q ran", task.Payload())
			}
			return nil
		})
		env.Eventually(func() bool {
			_, err := i.GetTaskInfo("other", "pending")
			return errors.Is(err, asynq.ErrTaskNotFound)
		}, "the moved task to run")
		_, err = env.Client.Enqueue(asynq.NewTask("x", nil), asynq.Queue("other"), asynq.UniqueKey("pending", time.Hour), asynq.ProcessIn(time.Hour))
		env.NoError(err)
	})
}

func TestUpdateTaskRejects(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("done", asynq.Retention(time.Hour))
		started, finish := make(chan struct{}), make(chan struct{})
		env.Serve(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
			if task.Type() == "active" {
				close(started)
				<-finish
			}
			return nil
		})
		env.AwaitState("done", "completed")
		env.Enqueue("active")
		testenv.Await(env, started, "the task")
		for id, want := range map[string]error{"done": asynq.ErrTaskState, "active": asynq.ErrTaskState, "none": asynq.ErrTaskNotFound} {
			for _, opts := range [][]asynq.Option{nil, {asynq.ProcessIn(time.Hour)}, {asynq.Queue("other")}} {
				_, err := i.UpdateTask(ctx, "default", id, []byte("x"), opts...)
				env.ErrorIs(err, want)
			}
		}
		close(finish)
		_, err := i.UpdateTask(ctx, "none", "x", nil)
		env.ErrorIs(err, asynq.ErrQueueNotFound)
		env.Enqueue("later", asynq.ProcessIn(time.Hour))
		env.AwaitState("active", "")
		stored := func() map[string]string { return env.RDB.HGetAll(ctx, env.Queue.Task("later")).Val() }
		before := stored()
		for _, opt := range []asynq.Option{
			asynq.Unique(time.Hour), asynq.TaskID("x"), asynq.Group("g"), asynq.Header("h", "1"), asynq.Debounce("k", 1, 0), asynq.Queue(""),
			asynq.Timeout(-1), asynq.ExpiresIn(-1),
		} {
			if _, err := i.UpdateTask(ctx, "default", "later", nil, opt); err == nil {
				env.T.Errorf("%v is accepted", opt)
			}
		}
		if _, err := i.UpdateTask(ctx, "default", "later", nil, asynq.ProcessIn(time.Hour), asynq.ExpiresIn(time.Minute)); err == nil {
			env.T.Error("a task that is due after it expires is accepted")
		}
		env.Enqueue("expiring", asynq.ProcessIn(time.Minute), asynq.ExpiresIn(time.Hour))
		for d, late := range map[time.Duration]bool{50 * time.Minute: false, 2 * time.Hour: true} {
			if _, err := i.UpdateTask(ctx, "default", "expiring", nil, asynq.ProcessIn(d)); err != nil != late || late && !strings.Contains(err.Error(), "expires") {
				env.T.Errorf("a delay of %v for a task that expires in an hour: error %v", d, err)
			}
		}
		if after := stored(); len(before) == 0 || !maps.Equal(before, after) {
			env.T.Errorf("rejected changes changed the task from %v to %v", before, after)
		}
		if names, err := i.Queues(); err != nil || len(names) != 1 {
			env.T.Errorf("the queues are %q, error %v", names, err)
		}
	})
}

// Concurrent changes of different settings all take effect, whatever replies are lost.
func TestUpdateTaskConcurrently(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		env.Enqueue("t", asynq.ProcessIn(time.Hour))
		p, opt := env.Proxy()
		f := p.SwallowReplies(2, "evalsha", "the payload")
		i := asynq.NewInspector(opt)
		defer i.Close()
		var wg sync.WaitGroup
		for _, opts := range [][]asynq.Option{{asynq.MaxRetry(3)}, {asynq.Timeout(time.Minute)}, {asynq.Retention(time.Hour)}, {asynq.ProcessIn(2 * time.Hour)}} {
			wg.Go(func() {
				if _, err := i.UpdateTask(ctx, "default", "t", []byte("the payload"), opts...); err != nil {
					env.T.Errorf("%v: %v", opts, err)
				}
			})
		}
		wg.Wait()
		testenv.Await(env, f.Done(), "the fault")
		info, err := i.GetTaskInfo("default", "t")
		env.NoError(err)
		if string(info.Payload) != "the payload" || info.MaxRetry != 3 || info.Timeout != time.Minute || info.Retention != time.Hour ||
			time.Until(info.NextProcessAt) < 100*time.Minute {
			env.T.Errorf("the task is %+v", info)
		}
	})
}
