package dash

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// stateOf returns the state of a task, or "" if the task does not exist.
func stateOf(t *testing.T, insp *asynq.Inspector, queue, id string) string {
	t.Helper()
	task, err := insp.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return task.State.String()
}

func TestActionsOnATask(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		id := enqueue(t, client, asynq.NewTask("email:send", []byte(`{"user":9007199254740993}`)), asynq.Queue("mail"), asynq.TaskID("first"))
		d := drive(t, quick(client, insp))
		d.see("mail", "1 queue")
		d.keys("enter")
		d.see("▌first", "email:send", `{"user":9007199254740993}`)

		d.keys("a")
		d.see("Archive task first (email:send) of queue mail?")
		d.keys("enter")
		d.see("nothing was changed")
		if got := stateOf(t, insp, "mail", id); got != "pending" {
			t.Fatalf("enter confirmed the dialog: the task is %s", got)
		}
		d.keys("a y")
		d.see("archived task first", "No pending tasks.")
		if got := stateOf(t, insp, "mail", id); got != "archived" {
			t.Fatalf("the task is %q, not archived", got)
		}

		d.keys("right right right right")
		d.see("archived 1", "▌first")
		d.keys("enter")
		d.see(`"user": 9007199254740993`, "Payload  JSON, 25 bytes")
		d.keys("r y")
		d.see("moved to pending: task first", "State         pending")

		d.keys("d")
		d.see("This cannot be undone.")
		d.keys("y")
		d.see("This task no longer exists")
		if got := stateOf(t, insp, "mail", id); got != "" {
			t.Fatalf("the task is %s, not deleted", got)
		}
	})
}

func TestActionsOnAllTasks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for range 3 {
			enqueue(t, client, asynq.NewTask("a:x", nil))
			enqueue(t, client, asynq.NewTask("b:x", nil))
		}
		d := drive(t, quick(client, insp))
		d.see("default")
		d.keys("enter /")
		d.typed("type:a:*")
		d.keys("enter")
		d.see("3 found")
		d.keys("A")
		d.see("Archive all pending tasks of queue default that match type:a:*?")
		d.keys("y")
		d.see("archived 3 tasks of queue default", "pending 3", "archived 3")
		d.keys("esc")
		d.see("1–3 of 3")
		d.keys("D")
		d.see("Delete all 3 pending tasks of queue default?", "This cannot be undone.")
		d.keys("y")
		d.see("deleted 3 tasks", "pending 0")
		d.keys("right right right right R y")
		d.see("moved to pending: 3 tasks", "pending 3")

		d.keys("left left left left /")
		d.typed("state:archived")
		d.keys("enter D")
		d.see("the filter cannot match tasks of this queue and state")
		d.keys("/ ctrl+u")
		d.typed("(")
		d.keys("enter D")
		d.see("missing term")
		if d.m.dialog != nil {
			t.Error("an invalid filter opens the dialog for all tasks")
		}
		d.keys("/ ctrl+u")
		d.typed(`"A:X" OR id:none`)
		d.keys("enter")
		d.see("3 found")
		d.keys("D y")
		d.see("deleted 3 tasks of queue default", "pending 0")
	})
}

func TestPauseAndEnqueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("mail"))
		d := drive(t, quick(client, insp))
		d.see("mail", "no server")
		d.keys("p y")
		d.see("paused queue mail", "paused")
		d.until("the queue is known to be paused", func() bool { q := d.m.queue("mail"); return q != nil && q.Paused })
		d.keys("p")
		d.see("Resume queue mail?")
		d.keys("y")
		d.see("resumed queue mail")

		d.keys("e")
		d.see("Enqueue a task", "▸ Type")
		d.keys("enter")
		d.see("the task type is missing")
		d.typed("report:build")
		d.keys("tab")
		d.typed(`{"n":1}`)
		d.keys("tab tab")
		d.typed("soon")
		d.keys("enter")
		d.see(`invalid duration "soon"`)
		for range 4 {
			d.keys("backspace")
		}
		d.typed("2h")
		d.keys("enter")
		d.see("Enqueue a task report:build to queue mail?")
		d.keys("y")
		d.see("enqueued task", "scheduled in 1h59m")
		tasks, err := insp.ListScheduledTasks("mail")
		if err != nil || len(tasks) != 1 || tasks[0].Type != "report:build" || string(tasks[0].Payload) != `{"n":1}` {
			t.Errorf("scheduled tasks: %v, error %v", tasks, err)
		}
	})
}

func TestCancelActiveTask(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		canceled := make(chan struct{})
		start(t, r, func(ctx context.Context, _ *asynq.Task) error {
			<-ctx.Done()
			close(canceled)
			return ctx.Err()
		}, "default")
		enqueue(t, client, asynq.NewTask("report:build", []byte("{}")), asynq.Timeout(time.Hour), asynq.MaxRetry(3))
		d := drive(t, quick(client, insp))
		d.keys("4")
		d.see("1/4", "└ report:build", "59m")
		d.keys("down c")
		d.see("Cancel task")
		d.keys("y")
		d.see("sent cancellation of")
		select {
		case <-canceled:
		case <-time.After(within):
			t.Fatal("the handler was not canceled")
		}
		d.until("the task is in retry", func() bool { q := d.m.queue("default"); return q != nil && q.Retry == 1 })
		d.keys("6")
		d.see("1 kind of errors · 1 failed task", "context canceled")
		d.keys("enter")
		d.see("Errors › ", "Types: report:build 1", "retry")
		d.keys("enter")
		d.see("Last error", "context canceled", "Retried       1 of 3")
		d.keys("esc esc")
		d.see("1 kind of errors")
	})
}

// R, A and D change the tasks of a kind of error in all queues, of all types.
func TestChangeTasksOfAnError(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for _, queue := range []string{"default", "low"} {
			var all []*asynq.TaskRecord
			for n, state := range []asynq.TaskState{asynq.TaskStateRetry, asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateRetry} {
				record := &asynq.TaskRecord{
					ID: fmt.Sprint(queue, n), Type: []string{"mail", "image"}[n%2], State: state, LastErr: fmt.Sprintf("user %d is gone", n),
					LastFailedAt: time.Now(), At: time.Now().Add(time.Hour), MaxRetry: 5,
				}
				if n == 3 {
					record.LastErr = "no such order"
				}
				all = append(all, record)
			}
			if errs, err := insp.ImportTasks(t.Context(), queue, asynq.ImportOptions{IdempotencyKey: queue}, all); errors.Join(append(errs, err)...) != nil {
				t.Fatal(errs, err)
			}
		}
		d := drive(t, quick(client, insp))
		sizes := func() string {
			low, other := d.m.queue("low"), d.m.queue("default")
			if low == nil || other == nil {
				return ""
			}
			return fmt.Sprint(low.Pending, low.Retry, low.Archived, other.Pending, other.Retry, other.Archived)
		}
		d.keys("6")
		d.see("2 kinds of errors · 8 failed tasks", "user # is gone", "mail +1", "R A D all")
		d.keys("D")
		d.see("Delete all 6 failed tasks of all queues", "user # is gone", "This cannot be undone.")
		d.keys("n A")
		d.see("Archive all 4 retry tasks of all queues")
		d.keys("y")
		d.see("archived 4 tasks with this error")
		d.until("the tasks are archived", func() bool { return sizes() == "0 1 3 0 1 3" })
		d.keys("enter")
		d.see("Types: mail 4, image 2", "6 tasks, 6 archived")
		d.keys("A")
		d.see("all tasks with this error are archived")
		d.keys("R")
		d.see("Run all 6 failed tasks of all queues")
		d.keys("y")
		d.see("moved to pending: 6 tasks with this error")
		d.until("the tasks are pending", func() bool { return sizes() == "3 1 0 3 1 0" })
		d.see("No failed task has this error anymore.")
		d.keys("esc")
		d.see("1 kind of errors · 2 failed tasks")
		d.keys("D y")
		d.see("deleted 2 tasks with this error")
		d.until("the other tasks are deleted", func() bool { return sizes() == "3 0 0 3 0 0" })
	})
}

func TestRunSchedulerEntry(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		s := asynq.NewScheduler(r, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
		if _, err := s.Register("0 3 1 1 *", asynq.NewTask("db:vacuum", nil), asynq.Queue("low")); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		d := drive(t, quick(client, insp))
		d.keys("5")
		d.see("db:vacuum", "0 3 1 1 *", "low", "1 entry")
		d.keys("enter")
		d.see("No tasks enqueued yet.")
		d.keys("r y")
		d.see("enqueued task", "ENQUEUED", "s ago)")
		if q, err := insp.GetQueueInfo("low"); err != nil || q.Pending != 1 {
			t.Errorf("the queue is %+v, error %v", q, err)
		}
		d.keys("home enter")
		d.see("State         pending", "db:vacuum")
	})
}

func TestReadOnlyRejectsChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		enqueue(t, client, asynq.NewTask("x", nil), asynq.TaskID("kept"))
		o := quick(client, insp)
		o.ReadOnly = true
		d := drive(t, o)
		d.see("read-only", "default")
		d.lacks("pause/resume", "enqueue")
		for _, page := range []string{"1", "2", "3", "4", "5", "6", "2 enter"} {
			d.keys(page)
			d.see("asynq")
			for key := range verbs {
				d.keys(key)
				if d.m.dialog != nil || d.m.form != nil {
					t.Fatalf("%q on page %s is not rejected", key, page)
				}
				d.see("read-only:")
			}
			d.keys("y")
		}
		if got := stateOf(t, insp, "default", "kept"); got != "pending" {
			t.Errorf("the task is %q", got)
		}
		d.keys("?")
		d.see("changes are disabled")
	})
}
