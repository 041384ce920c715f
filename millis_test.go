package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/x/doctor"
)

// The Inspector returns, lists, reschedules, exports and imports times to the millisecond.
func TestMillisecondTimes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := env.Context()
		exact := asynq.WithMillisecondTimes(env.Opt())
		client, inspector := env.NewClient(exact), asynq.NewInspector(exact)
		t.Cleanup(func() { _ = inspector.Close() })
		base := time.Now().Add(time.Hour).Truncate(time.Second)
		wantAt := func(id string, want time.Time) {
			t.Helper()
			info, err := env.Inspector().GetTaskInfo("default", id)
			if err != nil || !info.NextProcessAt.Equal(want) {
				t.Errorf("%s is due at %v, want %v, error %v", id, info.NextProcessAt, want, err)
			}
		}
		var want []string
		for i := range 50 { // several in each millisecond
			id, at := fmt.Sprintf("t%02d", i), base.Add(time.Duration(i)*300*time.Microsecond)
			info, err := client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(id), asynq.ProcessAt(at))
			if err != nil || !info.NextProcessAt.Equal(at) || info.State != asynq.TaskStateScheduled {
				t.Fatalf("enqueued %+v, error %v", info, err)
			}
			rounded := at.Add(time.Millisecond - 1).Truncate(time.Millisecond)
			wantAt(id, rounded)
			want = append(want, id)
		}
		env.Enqueue("seconds", asynq.ProcessAt(base.Add(-time.Millisecond)))
		wantAt("seconds", base)

		var paged, iterated []string
		for page := (&asynq.TaskPage{Next: ""}); ; {
			var err error
			if page, err = inspector.ListTasks(ctx, "default", asynq.TaskStateScheduled, asynq.ListTasksOptions{Cursor: page.Next, Limit: 7}); err != nil {
				t.Fatal(err)
			}
			for _, info := range page.Tasks {
				paged = append(paged, info.ID)
			}
			if page.Next == "" {
				break
			}
		}
		for info, err := range inspector.Tasks(ctx, "default", asynq.TaskStateScheduled, asynq.TaskFilter{}) {
			env.NoError(err)
			iterated = append(iterated, info.ID)
		}
		want = append([]string{"seconds"}, want...) // t00 has the same time
		if !slices.Equal(paged, want) || !slices.Equal(iterated, want) {
			t.Errorf("listed %v and %v, want %v", paged, iterated, want)
		}

		at := base.Add(1234 * time.Millisecond)
		env.NoError(inspector.RescheduleTask(ctx, "default", "t00", at))
		wantAt("t00", at)
		env.NoError(inspector.RescheduleTask(ctx, "default", "t01", at.Add(time.Nanosecond)))
		wantAt("t01", at.Add(time.Millisecond))
		env.NoError(env.Inspector().RescheduleTask(ctx, "default", "t02", at))
		wantAt("t02", base.Add(2*time.Second))
		var records []*asynq.TaskRecord
		for r, err := range inspector.ExportTasks(ctx, "default", asynq.TaskStateScheduled, asynq.TaskFilter{}) {
			env.NoError(err)
			records = append(records, r)
		}
		errs, err := inspector.ImportTasks(ctx, "default", asynq.ImportOptions{IdempotencyKey: "i", Replace: true}, records)
		env.NoError(errors.Join(append(errs, err)...))
		wantAt("t00", at)

		env.NoError(inspector.RescheduleTask(ctx, "default", "t03", time.Unix(-1, 1)))
		if n, err := inspector.RunAllScheduledTasks("default"); err != nil || n != 51 {
			t.Errorf("ran %d tasks, error %v", n, err)
		}
	})
}

// The doctor finds nothing wrong with times in milliseconds.
func TestMillisecondTimesAreSound(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		exact := asynq.WithMillisecondTimes(env.Opt())
		_, err := env.NewClient(exact).Enqueue(asynq.NewTask("t", nil), asynq.ProcessIn(time.Hour+time.Millisecond))
		env.NoError(err)
		env.ServeOn(exact, asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.Snooze(12_345 * time.Millisecond) })
		env.Enqueue("snoozes")
		env.AwaitState("snoozes", "retry")
		for finding, err := range doctor.Diagnose(env.Context(), env.Opt(), doctor.Options{}) {
			t.Errorf("%+v, error %v", finding, err)
		}
	})
}

// With the option, tasks and retries start in their millisecond, and never early. Programs with and
// without it share a queue.
func TestMillisecondLateness(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const tasks = 200
		exact := asynq.WithMillisecondTimes(env.Opt())
		var mu sync.Mutex
		var late []time.Duration
		due := make(map[string]time.Time)
		retry := func(int, error, *asynq.Task) time.Duration { return 123 * time.Millisecond }
		serve := func(opt asynq.RedisConnOpt, queue string) {
			env.ServeOn(opt, asynq.Config{
				Concurrency: 20, RetryDelayFunc: retry, TaskCheckInterval: time.Hour, DelayedTaskCheckInterval: time.Hour, Queues: map[string]int{queue: 1},
			}, func(ctx context.Context, _ *asynq.Task) error {
				now := time.Now()
				id, _ := asynq.GetTaskID(ctx)
				mu.Lock()
				defer mu.Unlock()
				if by := now.Sub(due[id]); by < 0 {
					t.Errorf("task %s started %v early", id, -by)
				} else {
					late = append(late, by)
				}
				if n, _ := asynq.GetRetryCount(ctx); n == 0 {
					due[id] = time.Now().Add(123 * time.Millisecond)
					return errors.New("failed")
				}
				return nil
			})
		}
		serve(exact, "default")
		serve(env.Opt(), "seconds")
		client := env.NewClient(exact)
		enqueue := func(queue, id string, in time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			at := time.Now().Add(in)
			due[id] = at
			_, err := client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(id), asynq.Queue(queue), asynq.ProcessAt(at))
			env.NoError(err)
		}
		for i := range tasks {
			enqueue("default", fmt.Sprint("t", i), time.Duration(300+i*5)*time.Millisecond)
		}
		done := func(n int) func() bool {
			return func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(late) == n
			}
		}
		env.Eventually(done(2*tasks), "%d attempts", 2*tasks)
		slices.Sort(late)
		t.Logf("late: p50 %v, p90 %v, max %v", late[len(late)/2], late[len(late)*9/10], late[len(late)-1])
		if p50 := late[len(late)/2]; p50 > testenv.Slack {
			t.Errorf("half of the attempts were late by %v or more", p50)
		}
		enqueue("seconds", "a", 300*time.Millisecond)
		env.Eventually(done(2*tasks+2), "the attempts on a server without the option")
	})
}

// By default, times are whole seconds.
func TestTimesAreWholeSeconds(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.RetryAfter(time.Hour + 123*time.Millisecond) })
		env.Enqueue("later", asynq.ProcessAt(time.Now().Truncate(time.Second).Add(time.Hour+123*time.Millisecond)))
		env.Enqueue("fails")
		env.AwaitState("fails", "retry")
		for id, set := range map[string]string{"later": env.Queue.Scheduled(), "fails": env.Queue.Retry()} {
			if score := env.RDB.ZScore(env.Context(), set, id).Val(); score != float64(int64(score)) || score < 1e9 {
				t.Errorf("%s has the score %v", id, score)
			}
		}
	})
}

// A connection that others share keeps its precision.
func TestSharedMillisecondTimes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		conn, err := asynq.ConnectRedis(asynq.WithNamespace(asynq.WithMillisecondTimes(env.Opt()), "ns"))
		env.NoError(err)
		t.Cleanup(func() { _ = conn.Close() })
		at := time.Now().Add(time.Hour).Truncate(time.Second).Add(123 * time.Millisecond)
		_, err = asynq.NewClient(conn.Shared()).Enqueue(asynq.NewTask("t", nil), asynq.TaskID("a"), asynq.ProcessAt(at))
		env.NoError(err)
		if info, err := asynq.NewInspector(conn.Shared()).GetTaskInfo("default", "a"); err != nil || !info.NextProcessAt.Equal(at) {
			t.Errorf("%+v, error %v", info, err)
		}
	})
}
