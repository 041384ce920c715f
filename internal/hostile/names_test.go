package hostile_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/x/doctor"
)

// TestUnusualNames processes, lists, changes and deletes tasks whose queue, type, ID, group and
// headers have unusual names.
func TestUnusualNames(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		names := append([]string{longName}, unusualNames...)
		queues := make(map[string]int, len(names))
		for _, name := range names {
			queues[name] = 1
		}
		var seen sync.Map // type → whether the handler received what was enqueued
		srv := env.Serve(asynq.Config{
			Queues: queues, Concurrency: 20, GroupMaxSize: 2,
			GroupAggregator: asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
				return asynq.NewTask("sum of "+group, nil, asynq.TaskID("sum of "+group), asynq.Retention(time.Hour))
			}),
		}, func(ctx context.Context, task *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			queue, _ := asynq.GetQueueName(ctx)
			name := task.Type()
			seen.Store(name, id == name && queue == name && task.Headers()[name] == name)
			if _, err := task.ResultWriter().Write([]byte(name)); err != nil {
				return err
			}
			if string(task.Payload()) == "fail" {
				return errors.New(name)
			}
			return nil
		})
		inspect := env.Inspector()
		for _, name := range names {
			task := asynq.NewTaskWithHeaders(name, nil, map[string]string{name: name}, asynq.Queue(name), asynq.TaskID(name), asynq.Retention(time.Hour))
			if _, err := env.Client.Enqueue(task, asynq.Unique(time.Hour)); err != nil {
				env.T.Fatalf("%.50q: %v", name, err)
			}
			failing := asynq.NewTask(name+"fails", []byte("fail"), asynq.Queue(name), asynq.TaskID(name+"fails"), asynq.Unique(time.Hour))
			if _, err := env.Client.Enqueue(failing); err != nil {
				env.T.Fatalf("%.50q: %v", name, err)
			}
			for range 2 {
				if _, err := env.Client.Enqueue(asynq.NewTask("member", nil), asynq.Queue(name), asynq.Group(name), asynq.Timeout(time.Minute)); err != nil {
					env.T.Fatalf("%.50q: %v", name, err)
				}
			}
		}
		for _, name := range names {
			for id, want := range map[string]asynq.TaskState{
				name: asynq.TaskStateCompleted, name + "fails": asynq.TaskStateRetry, "sum of " + name: asynq.TaskStateCompleted,
			} {
				env.Eventually(func() bool {
					info, err := inspect.GetTaskInfo(name, id)
					return err == nil && info.State == want
				}, "task %.50q to be %v", id, want)
			}
			if same, _ := seen.Load(name); same != true {
				env.T.Errorf("the handler of %.50q received a different task", name)
			}
		}
		srv.Shutdown()
		inspectAndDelete(env, inspect, names)
		if left := env.Snapshot(env.T); len(left) > 0 {
			env.T.Errorf("keys left: %.1000q", left)
		}
	})
}

// inspectAndDelete finds the tasks of TestUnusualNames, enqueues more, changes their states, and
// deletes everything.
func inspectAndDelete(env *testenv.Env, inspect *asynq.Inspector, names []string) {
	env.T.Helper()
	check := func(name, what string, ok bool, err error) {
		env.T.Helper()
		if err != nil || !ok {
			env.T.Errorf("%s of %.50q: %t, error %.200v", what, name, ok, err)
		}
	}
	queues, err := inspect.Queues()
	for _, name := range names {
		check(name, "Queues", slices.Contains(queues, name), err)
		info, err := inspect.GetTaskInfo(name, name)
		check(name, "GetTaskInfo", err == nil && string(info.Result) == name && info.Headers[name] == name, err)
		info, err = inspect.GetTaskInfo(name, name+"fails")
		check(name, "LastErr", err == nil && info.LastErr == name+"fails", err)
		stats, err := inspect.GetQueueInfo(name)
		check(name, "GetQueueInfo", err == nil && stats.Completed == 2 && stats.Retry == 1, err)
		n, err := inspect.RunAllRetryTasks(name)
		check(name, "RunAllRetryTasks", n == 1, err)
		check(name, "ArchiveTask", true, inspect.ArchiveTask(name, name+"fails"))

		_, err = env.Client.Enqueue(asynq.NewTask(name, nil), asynq.Queue(name), asynq.Group(name), asynq.TaskID("grouped"))
		check(name, "Enqueue", true, err)
		groups, err := inspect.Groups(name)
		check(name, "Groups", len(groups) == 1 && groups[0].Group == name, err)
		grouped, err := inspect.ListAggregatingTasks(name, name)
		check(name, "ListAggregatingTasks", len(grouped) == 1, err)
		found := 0
		for task, err := range inspect.Tasks(context.Background(), name, asynq.TaskStateAggregating, asynq.TaskFilter{Group: name, Type: name}) {
			check(name, "Tasks", err == nil && task.Group == name, err)
			found++
		}
		check(name, "Tasks", found == 1, nil)
		check(name, "Reschedule", true, inspect.RescheduleTask(context.Background(), name, "grouped", time.Now().Add(time.Hour)))
		check(name, "UpdateTaskPayload", true, inspect.UpdateTaskPayload(name, "grouped", []byte(notUTF8)))
		check(name, "RunTask", true, inspect.RunTask(name, "grouped"))
		n, err = inspect.ArchiveAllAggregatingTasks(name, name)
		check(name, "ArchiveAllAggregatingTasks", n == 1, err)
		_, err = env.Client.Enqueue(asynq.NewTask(name, nil), asynq.Queue(name), asynq.TaskID("pending"), asynq.Unique(time.Hour))
		check(name, "Enqueue", true, err)
		check(name, "PauseQueue", true, inspect.PauseQueue(name))
		check(name, "UnpauseQueue", true, inspect.UnpauseQueue(name))
		for f, err := range doctor.Diagnose(context.Background(), env.Opt(), doctor.Options{Queues: []string{name}}) {
			env.T.Errorf("Diagnose of %.50q: finding %v, error %v", name, f, err)
		}
		check(name, "DeleteTask", true, inspect.DeleteTask(name, name))
		check(name, "DeleteQueue without force", errors.Is(inspect.DeleteQueue(name, false), asynq.ErrQueueNotEmpty), nil)
		check(name, "DeleteQueue", true, inspect.DeleteQueue(name, true))
	}
}
