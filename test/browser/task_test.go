package browser_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// All actions on a task, as a user performs them.
func TestTaskActions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	later := asynq.ProcessIn(time.Hour)

	// on opens a task in a tab.
	on := func(t *testing.T, id string) *tab {
		t.Helper()
		b := open(t, s.url)
		b.visit(q("/task", "queue", "default", "id", id))
		return b
	}
	is := func(t *testing.T, id string, want asynq.TaskState) {
		t.Helper()
		if got := s.state(t, "default", id); got != want {
			t.Errorf("the task is %v, want %v", got, want)
		}
	}
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		id := s.add(t, "a", "", later)
		b := on(t, id)
		b.click("main button", "Run now")
		b.says("Task moved to pending", "pending")
		is(t, id, asynq.TaskStatePending)
	})
	t.Run("archive", func(t *testing.T) {
		t.Parallel()
		id := s.add(t, "a", "", later)
		b := on(t, id)
		b.click("main button", "Archive")
		b.says("Task archived")
		is(t, id, asynq.TaskStateArchived)
	})
	t.Run("delete", func(t *testing.T) {
		t.Parallel()
		id := s.add(t, "a", "", later)
		b := on(t, id)
		b.excuse("404") // a reload after the task is deleted and before the page changes
		b.click("main button", "Delete…")
		b.asked("Delete task", "This cannot be undone.")
		b.click("#ask a", "Cancel")
		b.until(`!document.getElementById("ask").open`)
		is(t, id, asynq.TaskStateScheduled)
		b.click("main button", "Delete…")
		b.asked("Delete task")
		b.click("#ask button", "Delete")
		b.says("Task deleted.")
		is(t, id, 0)
	})
	t.Run("reschedule", func(t *testing.T) {
		t.Parallel()
		id := s.add(t, "a", "", later)
		b := on(t, id)
		b.click("main summary", "Reschedule")
		b.write("main input[name=in]", "soon")
		b.keys("\r")
		b.says("“soon” is not a duration")
		b.click("main summary", "Reschedule")
		b.write("main input[name=in]", "3d")
		b.keys("\r")
		b.says("The task runs in 3d")
		info, err := s.inspector.GetTaskInfo("default", id)
		if err != nil {
			t.Fatal(err)
		}
		if in := time.Until(info.NextProcessAt); in < 71*time.Hour || in > 73*time.Hour {
			t.Errorf("it runs in %v", in)
		}
	})
	t.Run("edit", func(t *testing.T) {
		t.Parallel()
		const before, after = `{"n":12345678901234567890,"x":1e400}`, `{"n":12345678901234567891,"x":1e400}`
		id := s.add(t, "a", before, later)
		b := on(t, id)
		b.says("12345678901234567890", "1e400")
		b.click("main a", "Edit payload")
		b.until(`document.querySelector("textarea[name=payload]").value === ` + quote(before))
		b.write("textarea[name=payload]", strings.TrimSuffix(after, "}"))
		b.click("main button.solid", "Save")
		b.says("Not valid JSON at line 1")
		b.excuse("422")
		b.until(`document.querySelector("textarea[name=payload]").value === ` + quote(strings.TrimSuffix(after, "}")))
		b.write("textarea[name=payload]", after)
		b.click("main button", "Indent JSON")
		b.until(`document.querySelector("textarea[name=payload]").value.includes('\n')`)
		b.until(`document.querySelector("textarea[name=payload]").value.includes("12345678901234567891")`)
		b.click("main button", "Compact")
		b.until(`!document.querySelector("textarea[name=payload]").value.includes('\n')`)
		b.click("main button.solid", "Save")
		b.says("Payload saved.")
		info, err := s.inspector.GetTaskInfo("default", id)
		if err != nil {
			t.Fatal(err)
		}
		if string(info.Payload) != after || info.State != asynq.TaskStateScheduled {
			t.Errorf("the payload is %s, of a task that is %v", info.Payload, info.State)
		}
	})
	t.Run("clone", func(t *testing.T) {
		t.Parallel()
		const payload = "{\"n\":12345678901234567890}"
		info, err := s.client.Enqueue(asynq.NewTaskWithHeaders("a:clone", []byte(payload), map[string]string{"trace": "t:1", "odd:name": "two\nlines"}),
			asynq.Queue("clones"), asynq.MaxRetry(3), asynq.Timeout(time.Minute), asynq.Retention(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, s.url)
		b.visit(q("/task", "queue", "clones", "id", info.ID))
		b.click("main a", "Clone…")
		b.says("Enqueue a task", "copy of")
		b.click("main button.solid", "Enqueue")
		b.says("The task is pending in queue clones")
		tasks, err := s.inspector.ListPendingTasks("clones")
		if err != nil {
			t.Fatal(err)
		}
		if len(tasks) != 2 {
			t.Fatalf("there are %d tasks", len(tasks))
		}
		for _, c := range tasks {
			if string(c.Payload) != payload || c.Type != "a:clone" || c.MaxRetry != 3 || c.Timeout != time.Minute || c.Retention != time.Hour ||
				c.Headers["trace"] != "t:1" || c.Headers["odd:name"] != "two\nlines" {
				t.Errorf("one of them is %+v", c)
			}
		}
	})
}

// worker starts the only server, which processes a queue. Each handler waits until its context is
// canceled.
func (s *site) worker(t *testing.T, queue string, slots int) {
	t.Helper()
	server := asynq.NewServer(s.redis, asynq.Config{
		Concurrency: slots, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	s.subscribed(t, 1)
}

// An active task is canceled from its page, and from the page of servers.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := []string{s.add(t, "a", ""), s.add(t, "a", ""), s.add(t, "a", ""), s.add(t, "a", "")}
	s.worker(t, "default", len(ids))
	for _, id := range ids {
		s.reaches(t, id, asynq.TaskStateActive)
	}
	b := open(t, s.url)
	b.visit(q("/task", "queue", "default", "id", ids[0]))
	b.click("main button[value=cancel]", "Cancel")
	b.says("Cancellation requested")
	s.reaches(t, ids[0], asynq.TaskStateRetry)

	b.visit(q("/task", "queue", "default", "id", ids[1]))
	b.click("main button", "Cancel and archive")
	b.says("If the handler returns an error, the task is archived")
	s.reaches(t, ids[1], asynq.TaskStateArchived)

	b.visit(q("/task", "queue", "default", "id", ids[2]))
	b.click("main button", "Cancel and delete…")
	b.asked("cannot be undone")
	b.excuse("404")
	b.click("#ask button", "Cancel and delete")
	b.says("There is no task")
	proctest.Eventually(t, "the task to be gone", func() bool { return s.state(t, "default", ids[2]) == 0 })

	b.visit("/servers")
	b.click(`main button[aria-label="Cancel task `+ids[3]+`"]`, "Cancel")
	b.says("Cancellation of task " + ids[3] + " requested")
	s.reaches(t, ids[3], asynq.TaskStateRetry)
}
