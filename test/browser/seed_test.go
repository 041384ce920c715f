package browser_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// hostile is a name, type, ID or text that injects a script wherever it is not escaped.
const hostile = "<img src=x onerror=\"document.title='owned'\">'\"`</script><script>document.title='owned'</script>&amp;{{7*7}}/../%2F\n\u202egnp.exe"

// tasks are the IDs of the seeded tasks in queue default, by state.
type tasks map[asynq.TaskState]string

// seed creates a task in each state in the queue default, one of which is active during the test, a
// hostile one beside each, and a scheduler entry.
func (s *site) seed(t *testing.T) tasks {
	t.Helper()
	ids := tasks{}
	began := make(chan struct{}, 10)
	mux := asynq.NewServeMux()
	mux.HandleFunc("block", func(ctx context.Context, _ *asynq.Task) error {
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	mux.HandleFunc("fail", func(_ context.Context, task *asynq.Task) error {
		return errors.New("smtp: 421 no: " + string(task.Payload()))
	})
	mux.HandleFunc("skip", func(context.Context, *asynq.Task) error { return fmt.Errorf("card declined: %w", asynq.SkipRetry) })
	mux.HandleFunc("done", func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write([]byte(`{"sent":true,"number":12345678901234567890}`))
		return err
	})
	server := asynq.NewServer(s.redis, asynq.Config{
		Concurrency: 4, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond, DelayedTaskCheckInterval: time.Hour,
		RetryDelayFunc:  func(int, error, *asynq.Task) time.Duration { return time.Hour },
		GroupAggregator: asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task { return asynq.NewTask("done", nil) }),
		GroupMaxDelay:   24 * time.Hour, GroupGracePeriod: 23 * time.Hour,
	})
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	enqueue := func(task *asynq.Task, opts ...asynq.Option) string {
		info, err := s.client.Enqueue(task, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return info.ID
	}
	payload := []byte(`{"user_id":42,"amount":12345678901234567890,"note":"` + strings.ReplaceAll(strings.ReplaceAll(hostile, `"`, `\"`), "\n", `\n`) + `"}`)
	ids[asynq.TaskStateActive] = enqueue(asynq.NewTask("block", payload))
	await(t, began, "the active task to start")
	ids[asynq.TaskStateRetry] = enqueue(asynq.NewTask("fail", []byte(hostile)))
	enqueue(asynq.NewTask("fail", []byte("7")))
	ids[asynq.TaskStateArchived] = enqueue(asynq.NewTask("skip", payload))
	ids[asynq.TaskStateCompleted] = enqueue(asynq.NewTask("done", payload), asynq.Retention(time.Hour))
	ids[asynq.TaskStateScheduled] = enqueue(asynq.NewTaskWithHeaders("email:welcome", payload, map[string]string{"trace": hostile}), asynq.ProcessIn(time.Hour))
	ids[asynq.TaskStateAggregating] = enqueue(asynq.NewTask("email:digest", payload), asynq.Group("users"))
	for _, state := range []asynq.TaskState{asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted} {
		s.reaches(t, ids[state], state)
	}
	server.Stop() // new tasks stay pending
	ids[asynq.TaskStatePending] = enqueue(asynq.NewTask("email:welcome", payload))

	enqueue(asynq.NewTask(hostile, []byte(hostile)), asynq.Queue(hostile), asynq.TaskID(hostile))
	enqueue(asynq.NewTask(hostile, []byte(hostile)), asynq.Queue(hostile), asynq.TaskID(hostile+"2"), asynq.ProcessIn(time.Hour))
	enqueue(asynq.NewTask(hostile, []byte(hostile)), asynq.Queue(hostile), asynq.Group(hostile))

	scheduler := asynq.NewScheduler(s.redis, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	if _, err := scheduler.Register("@every 1h", asynq.NewTask("report:monthly", payload)); err != nil {
		t.Fatal(err)
	}
	// At any time of day, its next run is after that of the first entry.
	if _, err := scheduler.Register("30 4 29 FEB *", asynq.NewTask(hostile, []byte(hostile), asynq.Queue(hostile))); err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Shutdown)
	return ids
}

// reaches waits until a task of the queue default is in a state.
func (s *site) reaches(t *testing.T, id string, state asynq.TaskState) {
	t.Helper()
	proctest.Eventually(t, fmt.Sprintf("task %s to be %v", id, state), func() bool {
		info, err := s.inspector.GetTaskInfo("default", id)
		return err == nil && info.State == state
	})
}
