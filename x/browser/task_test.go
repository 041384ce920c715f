package browser_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// What can be done with one task, each as a person does it.
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
		b.says("The task is pending", "pending")
		is(t, id, asynq.TaskStatePending)
	})
	t.Run("archive", func(t *testing.T) {
		t.Parallel()
		id := s.add(t, "a", "", later)
		b := on(t, id)
		b.click("main button", "Archive")
		b.says("The task is in the archive")
		is(t, id, asynq.TaskStateArchived)
	})
	t.Run("delete", func(t *testing.T) {
		t.Parallel()
		id := s.add(t, "a", "", later)
		b := on(t, id)
		b.excuse("404") // a look at it, after it has gone and before the page has
		b.click("main button", "Delete…")
		b.asked("Delete the task", "It cannot be brought back.")
		b.click("#ask a", "Leave it")
		b.until(`!document.getElementById("ask").open`)
		is(t, id, asynq.TaskStateScheduled)
		b.click("main button", "Delete…")
		b.asked("Delete the task")
		b.click("#ask button", "Delete")
		b.says("The task is deleted.")
		is(t, id, 0)
	})
	t.Run("reschedule", func(t *testing.T) {
		t.Parallel()
		id := s.add(t, "a", "", later)
		b := on(t, id)
		b.click("main summary", "Reschedule")
		b.write("main input[name=in]", "soon")
		b.keys("\r")
		b.says("“soon” is no length of time")
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
		b.says("This is not JSON, at line 1")
		b.excuse("422")
		b.until(`document.querySelector("textarea[name=payload]").value === ` + quote(strings.TrimSuffix(after, "}")))
		b.write("textarea[name=payload]", after)
		b.click("main button", "Indent JSON")
		b.until(`document.querySelector("textarea[name=payload]").value.includes('\n')`)
		b.until(`document.querySelector("textarea[name=payload]").value.includes("12345678901234567891")`)
		b.click("main button", "Compact")
		b.until(`!document.querySelector("textarea[name=payload]").value.includes('\n')`)
		b.click("main button.solid", "Save")
		b.says("The task has its new payload.")
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
		b.says("Enqueue a task", "a copy of")
		b.click("main button.solid", "Enqueue")
		b.says("The task is pending in the queue clones")
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

// worker starts a server that takes tasks of a queue, each of which waits until it is told to end.
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
}

// A task that is being processed is canceled from its page, and from that of the servers.
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
	b.says("Its handler is asked to end")
	s.reaches(t, ids[0], asynq.TaskStateRetry)

	b.visit(q("/task", "queue", "default", "id", ids[1]))
	b.click("main button", "Cancel and archive")
	b.says("if it then fails, the task is archived")
	s.reaches(t, ids[1], asynq.TaskStateArchived)

	b.visit(q("/task", "queue", "default", "id", ids[2]))
	b.click("main button", "Cancel and delete…")
	b.asked("cannot be brought back")
	b.excuse("404")
	b.click("#ask button", "Cancel and delete")
	b.says("There is no task")
	proctest.Eventually(t, "the task to be gone", func() bool { return s.state(t, "default", ids[2]) == 0 })

	b.visit("/servers")
	b.click(`main button[aria-label="Cancel task `+ids[3]+`"]`, "Cancel")
	b.says("The server was told to cancel task " + ids[3])
	s.reaches(t, ids[3], asynq.TaskStateRetry)
}
