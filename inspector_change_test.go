package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestInspectorChangesTasks(t *testing.T) {
	const active, staged = "cancel it first, or wait until it finishes", "is being aggregated"
	later := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		change   func(i *asynq.Inspector, queue, id string) error
		to       map[string]string // state → next state; "-" means deleted
		rejected map[string]string // state → part of the error
	}{
		"run": {
			(*asynq.Inspector).RunTask,
			map[string]string{"scheduled": "pending", "retry": "pending", "archived": "pending", "completed": "pending", "aggregating": "pending"},
			map[string]string{"active": active, "staged": staged, "pending": "pending already"},
		},
		"archive": {
			(*asynq.Inspector).ArchiveTask,
			map[string]string{"pending": "archived", "scheduled": "archived", "retry": "archived", "completed": "archived", "aggregating": "archived"},
			map[string]string{"active": active, "staged": staged, "archived": "archived already"},
		},
		"delete": {
			(*asynq.Inspector).DeleteTask,
			map[string]string{"pending": "-", "scheduled": "-", "retry": "-", "archived": "-", "completed": "-", "aggregating": "-"},
			map[string]string{"active": active, "staged": staged},
		},
		"reschedule": {
			func(i *asynq.Inspector, queue, id string) error {
				return i.RescheduleTask(context.Background(), queue, id, later)
			},
			map[string]string{
				"pending": "scheduled", "scheduled": "scheduled", "retry": "retry", "archived": "scheduled", "completed": "scheduled",
				"aggregating": "scheduled",
			},
			map[string]string{"active": active, "staged": staged},
		},
		"update": {
			func(i *asynq.Inspector, queue, id string) error {
				return i.UpdateTaskPayload(queue, id, []byte("new"))
			},
			map[string]string{"scheduled": "scheduled"},
			map[string]string{
				"active": active, "staged": "not scheduled", "pending": "not scheduled", "retry": "not scheduled", "archived": "not scheduled",
				"completed": "not scheduled", "aggregating": "not scheduled",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				env.EnqueueEveryState()
				i := env.Inspector()
				for id, want := range tc.to {
					if err := tc.change(i, "default", id); err != nil {
						env.T.Errorf("%s: %v", id, err)
					}
					if want == "-" {
						want = ""
					}
					if got := env.State(id); got != want {
						env.T.Errorf("task %s is in state %q, want %q", id, got, want)
					}
					lock := id
					if want == "" || id == "completed" {
						lock = ""
					}
					if got := env.LockHolder(id); got != lock {
						env.T.Errorf("the lock of %s is held by %q", id, got)
					}
				}
				for id, why := range tc.rejected {
					if err := tc.change(i, "default", id); !errors.Is(err, asynq.ErrTaskState) || !strings.Contains(err.Error(), why) {
						env.T.Errorf("%s: error %v, want one that contains %q", id, err, why)
					}
				}
				if err := tc.change(i, "default", "missing"); !errors.Is(err, asynq.ErrTaskNotFound) {
					env.T.Errorf("missing task: %v", err)
				}
				if err := tc.change(i, "nowhere", "pending"); !errors.Is(err, asynq.ErrQueueNotFound) {
					env.T.Errorf("missing queue: %v", err)
				}
				if err := tc.change(i, "", "pending"); err == nil {
					env.T.Error("accepted an empty queue name")
				}
				env.CheckInvariants("after the changes")
			})
		})
	}
}

func TestRescheduleRoundsUp(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("t", asynq.ProcessIn(time.Hour))
		for at, want := range map[time.Time]float64{
			time.Unix(2_000_000_000, 0): 2_000_000_000, time.Unix(2_000_000_000, 1): 2_000_000_001, time.Unix(2_000_000_000, 999_999_999): 2_000_000_001,
			{}: 0,
		} {
			if err := i.RescheduleTask(ctx, "default", "t", at); err != nil {
				env.T.Error(err)
			}
			if got := env.RDB.ZScore(ctx, env.Queue.Scheduled(), "t").Val(); got != want {
				env.T.Errorf("rescheduled to %v, score %v, want %v", at, got, want)
			}
		}
	})
}

// A server that sleeps until the next task is due wakes up for a task that is rescheduled earlier.
func TestRescheduleWakesServer(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ran := make(chan struct{})
		env.Enqueue("t", asynq.ProcessIn(time.Hour))
		env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { close(ran); return nil })
		env.Eventually(func() bool { return len(env.Keys("asynq:servers:{*}")) == 1 }, "the server to be listed")
		if err := env.Inspector().RescheduleTask(context.Background(), "default", "t", time.Now()); err != nil {
			env.T.Fatal(err)
		}
		testenv.Await(env, ran, "the task to run")
	})
}

func TestInspectorChangesAllTasks(t *testing.T) {
	type method func(i *asynq.Inspector) (int, error)
	queue := func(f func(*asynq.Inspector, string) (int, error)) method {
		return func(i *asynq.Inspector) (int, error) { return f(i, "default") }
	}
	group := func(f func(*asynq.Inspector, string, string) (int, error)) method {
		return func(i *asynq.Inspector) (int, error) { return f(i, "default", "g") }
	}
	for name, tc := range map[string]struct {
		change   method
		from, to string
	}{
		"RunAllScheduledTasks":       {queue((*asynq.Inspector).RunAllScheduledTasks), "scheduled", "pending"},
		"RunAllRetryTasks":           {queue((*asynq.Inspector).RunAllRetryTasks), "retry", "pending"},
		"RunAllArchivedTasks":        {queue((*asynq.Inspector).RunAllArchivedTasks), "archived", "pending"},
		"RunAllAggregatingTasks":     {group((*asynq.Inspector).RunAllAggregatingTasks), "aggregating", "pending"},
		"ArchiveAllPendingTasks":     {queue((*asynq.Inspector).ArchiveAllPendingTasks), "pending", "archived"},
		"ArchiveAllScheduledTasks":   {queue((*asynq.Inspector).ArchiveAllScheduledTasks), "scheduled", "archived"},
		"ArchiveAllRetryTasks":       {queue((*asynq.Inspector).ArchiveAllRetryTasks), "retry", "archived"},
		"ArchiveAllAggregatingTasks": {group((*asynq.Inspector).ArchiveAllAggregatingTasks), "aggregating", "archived"},
		"DeleteAllPendingTasks":      {queue((*asynq.Inspector).DeleteAllPendingTasks), "pending", ""},
		"DeleteAllScheduledTasks":    {queue((*asynq.Inspector).DeleteAllScheduledTasks), "scheduled", ""},
		"DeleteAllRetryTasks":        {queue((*asynq.Inspector).DeleteAllRetryTasks), "retry", ""},
		"DeleteAllArchivedTasks":     {queue((*asynq.Inspector).DeleteAllArchivedTasks), "archived", ""},
		"DeleteAllCompletedTasks":    {queue((*asynq.Inspector).DeleteAllCompletedTasks), "completed", ""},
		"DeleteAllAggregatingTasks":  {group((*asynq.Inspector).DeleteAllAggregatingTasks), "aggregating", ""},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				i := env.Inspector()
				if n, err := tc.change(i); n != 0 || !errors.Is(err, asynq.ErrQueueNotFound) {
					env.T.Errorf("missing queue: %d tasks, error %v", n, err)
				}
				env.EnqueueEveryState()
				if n, err := tc.change(i); n != 1 || err != nil {
					env.T.Errorf("%d tasks, error %v", n, err)
				}
				for _, id := range []string{"pending", "active", "scheduled", "retry", "archived", "completed", "aggregating", "staged"} {
					want := id
					switch id {
					case tc.from:
						want = tc.to
					case "staged":
						want = "aggregating"
					}
					if got := env.State(id); got != want {
						env.T.Errorf("task %s is in state %q, want %q", id, got, want)
					}
				}
				if n, err := tc.change(i); n != 0 || err != nil {
					env.T.Errorf("second call: %d tasks, error %v", n, err)
				}
				env.CheckInvariants("after the change")
			})
		})
	}
}

// The group "" has no tasks: it does not mean all groups.
func TestEmptyGroupNameMatchesNoTasks(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t", asynq.Group("g"))
		if n, err := env.Inspector().DeleteAllAggregatingTasks("default", ""); n != 0 || err != nil {
			env.T.Errorf("deleted %d tasks, error %v", n, err)
		}
		if _, err := env.Inspector().DeleteAllAggregatingTasks("unknown", ""); !errors.Is(err, asynq.ErrQueueNotFound) {
			env.T.Errorf("missing queue: %v", err)
		}
		if groups, err := env.Inspector().Groups("default"); err != nil || len(groups) != 1 || groups[0].Size != 1 {
			env.T.Errorf("groups %v, error %v", groups, err)
		}
	})
}

// The context of a view cancels its calls.
func TestInspectorChangesWithContext(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		i := env.Inspector().WithContext(ctx)
		for name, err := range map[string]error{
			"delete": i.DeleteTask("default", "t"), "queue": i.DeleteQueue("default", true), "update": i.UpdateTaskPayload("default", "t", nil),
		} {
			if !errors.Is(err, context.Canceled) {
				env.T.Errorf("%s: %v", name, err)
			}
		}
		if _, err := i.DeleteAllPendingTasks("default"); !errors.Is(err, context.Canceled) {
			env.T.Errorf("delete all: %v", err)
		}
	})
}

func TestDeleteQueue(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		i := env.Inspector()
		if err := i.DeleteQueue("default", true); !errors.Is(err, asynq.ErrQueueNotFound) {
			env.T.Errorf("missing queue: %v", err)
		}
		finish := env.EnqueueEveryState()
		if err := i.DeleteQueue("default", false); !errors.Is(err, asynq.ErrQueueNotEmpty) {
			env.T.Errorf("without force: %v", err)
		}
		if err := i.DeleteQueue("default", true); err == nil || !strings.Contains(err.Error(), "has active tasks") {
			env.T.Errorf("with an active task: %v", err)
		}
		for _, id := range []string{"pending", "scheduled", "retry", "archived", "completed", "aggregating", "active"} {
			if env.State(id) != id {
				env.T.Errorf("a rejected removal moved task %s to state %q", id, env.State(id))
			}
		}
		finish()
		env.AwaitState("active", "")
		if err := i.DeleteQueue("default", true); err != nil {
			env.T.Error(err)
		}
		if left := env.Keys("asynq:{default}:*"); len(left) > 0 {
			env.T.Errorf("keys left: %q", left)
		}
		if names, err := i.Queues(); err != nil || len(names) != 0 {
			env.T.Errorf("queues %q, error %v", names, err)
		}
	})
}

// An archive keeps the newest 10,000 tasks. The number of discarded tasks is exact. A miniredis
// sorts the archive again for each command, so there a server has published a limit of 1,000.
func TestArchiveTasksCountsDiscarded(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		limit := asynq.ArchiveMaxTasks
		if env.IsMini() {
			limit = 1000
		}
		const more, left = 700, 100
		first := limit - left
		env.EnqueueMany(first)
		room := func(want int) {
			env.T.Helper()
			if got, err := i.ArchiveRoom(ctx, "default"); err != nil || got != want {
				env.T.Errorf("room for %d tasks, error %v; want %d", got, err, want)
			}
		}
		archive := func(want asynq.ArchiveResult) {
			env.T.Helper()
			got, err := i.ArchiveTasks(ctx, "default", asynq.TaskStatePending, asynq.TaskFilter{})
			if err != nil || got != want {
				env.T.Errorf("got %+v, error %v; want %+v", got, err, want)
			}
		}
		room(asynq.ArchiveMaxTasks)
		if env.IsMini() {
			published := wire.ArchiveLimits{Tasks: limit, Age: wire.DefaultArchiveLimits.Age}
			env.NoError(env.RDB.Set(ctx, env.Queue.ArchiveLimits(), published.Encode(), time.Hour).Err())
		}
		archive(asynq.ArchiveResult{Archived: first})
		room(left)
		tasks := make([]*asynq.Task, more)
		for n := range tasks {
			tasks[n] = asynq.NewTask("more", nil, asynq.TaskID(fmt.Sprint("more", n)))
		}
		for _, r := range env.Client.BatchEnqueueContext(ctx, tasks) {
			if r.Err != nil {
				env.T.Fatal(r.Err)
			}
		}
		archive(asynq.ArchiveResult{Archived: more, Discarded: more - left})
		room(0)
		if info, err := i.GetQueueInfo("default"); err != nil || info.Archived != limit || info.Size != limit {
			env.T.Errorf("queue %+v, error %v", info, err)
		}
		archive(asynq.ArchiveResult{})
		if _, err := i.ArchiveRoom(ctx, "none"); !errors.Is(err, asynq.ErrQueueNotFound) {
			env.T.Errorf("room in a missing queue: error %v", err)
		}
	})
}

// Discarded does not count tasks that are deleted because of their age.
func TestArchiveTasksDoesNotCountExpired(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.EnqueueMany(3)
		if _, err := i.ArchiveTasks(ctx, "default", asynq.TaskStatePending, asynq.TaskFilter{}); err != nil {
			env.T.Fatal(err)
		}
		old := float64(time.Now().Add(-91 * 24 * time.Hour).Unix())
		for _, id := range []string{"t0", "t1"} {
			env.RDB.ZIncrBy(ctx, env.Queue.Archived(), old-env.RDB.ZScore(ctx, env.Queue.Archived(), id).Val(), id)
		}
		env.Enqueue("new")
		got, err := i.ArchiveTasks(ctx, "default", asynq.TaskStatePending, asynq.TaskFilter{})
		if want := (asynq.ArchiveResult{Archived: 1}); err != nil || got != want {
			env.T.Errorf("got %+v, error %v; want %+v", got, err, want)
		}
		if info, err := i.GetQueueInfo("default"); err != nil || info.Archived != 2 {
			env.T.Errorf("queue %+v, error %v", info, err)
		}
	})
}

func TestInspectorChangesMatchingTasks(t *testing.T) {
	type change = func(*asynq.Inspector, context.Context, string, asynq.TaskState, asynq.TaskFilter) (int, error)
	for name, tc := range map[string]struct {
		change change
		to     string // the next state; empty if deleted
	}{
		"run":     {(*asynq.Inspector).RunTasks, "pending"},
		"archive": {archiveTasks, "archived"},
		"delete":  {(*asynq.Inspector).DeleteTasks, ""},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				const n = 600
				var tasks []*asynq.Task
				for i := range 2 * n {
					typ, id := []string{"mail:a", "image:b"}[i%2], fmt.Sprintf("t%04d", i)
					tasks = append(tasks, asynq.NewTask(typ, fmt.Append(nil, i), asynq.TaskID(id), asynq.ProcessIn(time.Hour), asynq.Unique(time.Hour)))
				}
				for _, result := range env.Client.BatchEnqueueContext(context.Background(), tasks) {
					if result.Err != nil {
						env.T.Fatal(result.Err)
					}
				}
				i := env.Inspector()
				filter := asynq.TaskFilter{Type: "mail:*"}
				got, err := tc.change(i, context.Background(), "default", asynq.TaskStateScheduled, asynq.TaskFilter{Type: "mail:*", MaxScan: 100})
				if got != 50 || !errors.Is(err, asynq.ErrScanLimit) {
					env.T.Errorf("with MaxScan: %d tasks, error %v", got, err)
				}
				if got, err := tc.change(i, context.Background(), "default", asynq.TaskStateScheduled, filter); got != n-50 || err != nil {
					env.T.Errorf("%d tasks, error %v; want %d", got, err, n-50)
				}
				if got, err := tc.change(i, context.Background(), "default", asynq.TaskStateScheduled, filter); got != 0 || err != nil {
					env.T.Errorf("second call: %d tasks, error %v", got, err)
				}
				for _, task := range []struct{ id, want string }{{"t0000", tc.to}, {"t1198", tc.to}, {"t0001", "scheduled"}, {"t1199", "scheduled"}} {
					if state := env.State(task.id); state != task.want {
						env.T.Errorf("task %s is in state %q, want %q", task.id, state, task.want)
					}
				}
				if _, err := tc.change(i, context.Background(), "default", asynq.TaskStateActive, asynq.TaskFilter{}); err == nil {
					env.T.Error("accepted a change of active tasks")
				}
				if _, err := tc.change(i, context.Background(), "nowhere", asynq.TaskStateScheduled, filter); !errors.Is(err, asynq.ErrQueueNotFound) {
					env.T.Errorf("missing queue: %v", err)
				}
			})
		})
	}
}

// archiveTasks is Inspector.ArchiveTasks without the number of discarded tasks.
func archiveTasks(i *asynq.Inspector, ctx context.Context, queue string, state asynq.TaskState, filter asynq.TaskFilter) (int, error) { //nolint:revive // As a method expression.
	r, err := i.ArchiveTasks(ctx, queue, state, filter)
	return r.Archived, err
}

func TestCompareAndSwapTaskPayload(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("t", asynq.ProcessIn(time.Hour))
		if err := i.UpdateTaskPayload("default", "t", []byte("old")); err != nil {
			env.T.Fatal(err)
		}
		swap := func(old, payload, want string, changed bool) {
			env.T.Helper()
			if err := i.CompareAndSwapTaskPayload(ctx, "default", "t", []byte(old), []byte(payload)); errors.Is(err, asynq.ErrTaskChanged) != changed || !changed && err != nil {
				env.T.Errorf("swap %q for %q: %v", old, payload, err)
			}
			if info, err := i.GetTaskInfo("default", "t"); err != nil || string(info.Payload) != want {
				env.T.Errorf("swap %q for %q: the payload is %q, error %v", old, payload, info.Payload, err)
			}
		}
		swap("", "one", "old", true)
		swap("old", "one", "one", false)
		swap("old", "one", "one", false) // as after a lost reply
		swap("old", "two", "one", true)
		if err := i.RescheduleTask(ctx, "default", "t", time.Now().Add(2*time.Hour)); err != nil {
			env.T.Fatal(err)
		}
		swap("one", "", "", false)
		swap("", "two", "two", false)
	})
}

// Concurrent callers that append a line to the payload lose no line.
func TestConcurrentCompareAndSwap(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("t", asynq.ProcessIn(time.Hour))
		const callers, times = 4, 10
		add := func(line string) error {
			for {
				info, err := i.GetTaskInfo("default", "t")
				if err != nil {
					return err
				}
				err = i.CompareAndSwapTaskPayload(ctx, "default", "t", info.Payload, append(info.Payload, line...))
				if !errors.Is(err, asynq.ErrTaskChanged) {
					return err
				}
			}
		}
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for n := range times {
					if err := add(fmt.Sprintf("%d %d\n", caller, n)); err != nil {
						env.T.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		info, err := i.GetTaskInfo("default", "t")
		if err != nil {
			env.T.Fatal(err)
		}
		for caller := range callers {
			for n := range times {
				if line := fmt.Sprintf("%d %d\n", caller, n); strings.Count(string(info.Payload), line) != 1 {
					env.T.Errorf("line %q occurs %d times", line, strings.Count(string(info.Payload), line))
				}
			}
		}
	})
}

// The failed attempt of a canceled task counts once, whatever the outcome of the task.
func TestCancelAndSettle(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		cancel  func(i *asynq.Inspector, ctx context.Context, id string) error
		returns error
		state   string
		failed  string
	}{
		"archive":           {(*asynq.Inspector).CancelAndArchive, context.Canceled, "archived", "1"},
		"archive, success":  {(*asynq.Inspector).CancelAndArchive, nil, "", ""},
		"delete":            {(*asynq.Inspector).CancelAndDelete, context.Canceled, "", "1"},
		"delete, snooze":    {(*asynq.Inspector).CancelAndDelete, asynq.Snooze(time.Hour), "", "1"},
		"delete, success":   {(*asynq.Inspector).CancelAndDelete, nil, "", ""},
		"delete, revoked":   {(*asynq.Inspector).CancelAndDelete, asynq.RevokeTask, "", ""},
		"unusual ID, retry": {func(i *asynq.Inspector, ctx context.Context, id string) error { return i.CancelProcessing(id) }, context.Canceled, "retry", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				id := "delete me, archive me: " + t.Name() + env.Addr // all databases of a server share their channels
				started := make(chan struct{}, 1)
				env.Enqueue(id, asynq.Unique(time.Hour))
				env.Serve(asynq.Config{}, func(ctx context.Context, _ *asynq.Task) error {
					started <- struct{}{}
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), asynq.ErrTaskCanceled) {
						t.Errorf("cause of the context: %v, want ErrTaskCanceled", context.Cause(ctx))
					}
					return tc.returns
				})
				testenv.Await(env, started, "the task to start")
				env.Eventually(func() bool { // the server may not have subscribed yet
					if err := tc.cancel(env.Inspector(), ctx, id); err != nil {
						t.Error(err)
					}
					return env.State(id) == tc.state
				}, "the task to be in state %q", tc.state)
				get := func(key string) string { return env.RDB.Get(ctx, key).Val() }
				env.Eventually(func() bool { return get(env.Queue.Processed()) == "1" }, "the attempt to be counted")
				if got := get(env.Queue.Failed()); got != tc.failed {
					env.T.Errorf("%q attempts failed, want %q", got, tc.failed)
				}
				if got := get(env.Queue.FailedOn(time.Now())); got != tc.failed {
					env.T.Errorf("%q attempts failed today, want %q", got, tc.failed)
				}
				if got := env.LockHolder(id); (got == id) != (tc.state != "") {
					env.T.Errorf("the lock is held by %q", got)
				}
				if tc.state == "archived" && env.Message(id).LastErr != context.Canceled.Error() {
					env.T.Errorf("last error %q", env.Message(id).LastErr)
				}
				env.CheckInvariants("after the cancellation")
			})
		})
	}
}

// Servers, clients and operators work concurrently. Every task ends exactly once, and no invariant
// is violated.
func TestConcurrentChanges(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const clients, each = 4, 150
		var ran testenv.Tally
		cfg := asynq.Config{Concurrency: 8, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second }}
		handler := func(_ context.Context, task *asynq.Task) error {
			ran.Add(task.Type())
			switch len(task.Type()) % 3 {
			case 0:
				return errors.New("failed")
			case 1:
				return asynq.SkipRetry
			}
			return nil
		}
		first, second := env.Serve(cfg, handler), env.Serve(cfg, handler)
		enqueued := make(chan struct{}, clients)
		for c := range clients {
			go func() {
				defer func() { enqueued <- struct{}{} }()
				for n := range each {
					id := fmt.Sprintf("%0*d", 6+n%4, c*each+n)
					opts := [][]asynq.Option{
						{}, {asynq.ProcessIn(time.Second)}, {asynq.Group("g")}, {asynq.Retention(time.Hour)}, {asynq.ProcessIn(time.Hour)}, {asynq.Unique(time.Hour)},
					}[n%6]
					if _, err := env.Client.Enqueue(asynq.NewTask(id, nil), append(opts, asynq.TaskID(id))...); err != nil {
						t.Errorf("enqueue %s: %v", id, err)
					}
				}
			}()
		}
		i := env.Inspector()
		stop := make(chan struct{})
		deletions := make(chan int, 3)
		operators := []func() (deleted int, err error){
			func() (int, error) {
				_, err := i.RunAllScheduledTasks("default")
				_, err2 := i.RunAllRetryTasks("default")
				_, err3 := i.RunAllArchivedTasks("default")
				return 0, errors.Join(err, err2, err3)
			},
			func() (int, error) {
				_, err := i.ArchiveAllPendingTasks("default")
				_, err2 := i.ArchiveAllAggregatingTasks("default", "g")
				n, err3 := i.DeleteAllRetryTasks("default")
				return n, errors.Join(err, err2, err3)
			},
			func() (int, error) {
				n, err := i.DeleteAllPendingTasks("default")
				m, err2 := i.DeleteAllScheduledTasks("default")
				return n + m, errors.Join(err, err2)
			},
		}
		for _, operate := range operators {
			go func() {
				deleted := 0
				defer func() { deletions <- deleted }()
				for {
					n, err := operate()
					deleted += n
					if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
						t.Error(err)
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
		}
		for range clients {
			testenv.Await(env, enqueued, "the clients to return")
		}
		close(stop)
		deleted := 0
		for range operators {
			deleted += testenv.Await(env, deletions, "the operators to return")
		}
		first.Shutdown()
		second.Shutdown()
		env.CheckInvariants("after concurrent changes")
		left, succeeded := 0, 0
		for _, key := range env.Keys(env.Queue.TaskPrefix() + "*") {
			if env.RDB.HGet(context.Background(), key, wire.FieldState).Val() == "completed" {
				continue
			}
			left++
		}
		processed, _ := env.RDB.Get(context.Background(), env.Queue.Processed()).Int()
		failed, _ := env.RDB.Get(context.Background(), env.Queue.Failed()).Int()
		succeeded = processed - failed
		// Each task has succeeded once, was deleted, or still exists. Completed tasks count as
		// succeeded.
		if got := left + succeeded + deleted; got != clients*each {
			env.T.Errorf("%d left, %d succeeded, %d deleted: %d tasks of %d", left, succeeded, deleted, got, clients*each)
		}
		if err := i.DeleteQueue("default", true); err != nil {
			env.T.Error(err)
		}
		if left := env.Keys("asynq:{default}:*"); len(left) > 0 {
			env.T.Errorf("keys left: %q", left)
		}
	})
}
