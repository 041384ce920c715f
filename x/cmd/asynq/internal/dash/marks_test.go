package dash

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
)

func TestMarks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for n := range 4 {
			enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("mail"), asynq.TaskID(fmt.Sprint("task", n)))
		}
		d := drive(t, quick(client, insp))
		d.see("mail")
		d.keys("enter")
		d.see("▌task0", "1–4 of 4")
		d.keys("m down m")
		d.see("●task0", "●task2", "2 tasks marked")
		d.keys("a")
		d.see("Archive the marked 2 tasks of queue mail?")
		d.keys("y")
		d.see("archived 2 of 2 tasks", "1–2 of 2")
		d.lacks("marked")
		for id, want := range map[string]string{"task0": "archived", "task1": "pending", "task2": "archived", "task3": "pending"} {
			if got := stateOf(t, insp, "mail", id); got != want {
				t.Errorf("%s is %s, want %s", id, got, want)
			}
		}
		d.keys("M")
		d.see("2 tasks marked")
		d.keys("esc")
		d.lacks("marked")
		d.keys("M r")
		d.see("the task is already pending")
		// A task that is gone fails, and the others are changed.
		if err := insp.DeleteTask("mail", "task1"); err != nil {
			t.Fatal(err)
		}
		d.keys("d y")
		d.see("deleted 1 of 2 tasks", "task not found")
		d.keys("right right right right")
		d.see("▌task")
		d.keys("m left")
		d.lacks("marked") // another page
	})
}

func TestSortRows(t *testing.T) {
	t.Parallel()
	m := stage(140, 40).on(page{view: viewQueues}, body{})
	names := func() string {
		var all []string
		for _, r := range m.shown.rows {
			all = append(all, r.key[:3])
		}
		return strings.Join(all, " ")
	}
	order := names()
	for i, want := range []string{"cri def leg odd rep", "odd leg def cri rep", "leg cri def rep odd"} { // QUEUE, NOTE, PENDING
		m.Update(keyNamed("s"))
		if got := names(); got != want && i != 1 { // the order of notes is that of their texts
			t.Errorf("after %d keys: %s, want %s", i+1, got, want)
		}
	}
	if title := m.shown.cols[2].title; title != "PENDING ▼" {
		t.Errorf("the title is %q", title)
	}
	m.Update(keyNamed("S"))
	if got := names(); got != "rep def cri leg odd" {
		t.Errorf("reversed: %s", got)
	}
	for range 20 {
		if m.page().sortBy == "" {
			break
		}
		m.Update(keyNamed("s"))
	}
	if got := names(); got != order {
		t.Errorf("after the last column: %s, want %s", got, order)
	}
}

func TestJump(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for queue, id := range map[string]string{"mail": "order-17", "low": "order-18", "mailing": "invoice-9"} {
			enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue(queue), asynq.TaskID(id), asynq.ProcessIn(time.Hour))
		}
		d := drive(t, quick(client, insp))
		d.see("3 queues")
		jump := func(text string) {
			d.keys(":")
			d.typed(text)
			d.see(":" + text)
			d.keys("enter")
		}
		jump("servers")
		d.see("Servers and active tasks")
		jump("mail")
		d.see("▌order-17")
		jump("mailin")
		d.see("▌invoice-9")
		jump("order-18")
		d.see("low › order-18", "State         scheduled")
		jump("invo")
		d.see("mailing › invoice-9")
		jump("order")
		d.see(`several IDs begin with "order"`)
		jump("nothing")
		d.see(`no task "nothing" in 3 queues`)
		d.keys(":")
		d.typed("x")
		d.keys("esc")
		d.lacks(":x")
	})
}

// A queue with tasks is deleted only after its name is typed.
func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("mail"))
		enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("odd\x1b[2J"))
		enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("empty"), asynq.TaskID("1"))
		if err := insp.DeleteTask("empty", "1"); err != nil {
			t.Fatal(err)
		}
		d := drive(t, quick(client, insp))
		d.see("3 queues", "▌empty")
		d.keys("d")
		d.see("Delete queue empty?", "y yes")
		d.keys("y")
		d.see("deleted queue empty", "2 queues", "▌mail")
		d.keys("d")
		d.see("Delete queue mail and its 1 task?", "Type mail to confirm:", "cannot be undone")
		d.keys("y enter")
		if d.m.dialog == nil {
			t.Fatal("y confirms")
		}
		d.keys("backspace")
		d.typed("mail")
		d.keys("enter")
		d.see("deleted queue mail and its 1 task", "1 queue ·")
		d.keys("d")
		d.see("Type delete to confirm:")
		d.typed("delete")
		d.keys("enter")
		d.see("No queues yet")
	})
}

func TestEditPayload(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		enqueue(t, client, asynq.NewTask("x", []byte(`{"user":1}`)), asynq.Queue("mail"), asynq.TaskID("first"))
		o := quick(client, insp)
		d := drive(t, o)
		d.see("mail")
		d.keys("enter")
		d.see("▌first")
		d.keys("E")
		d.see("set EDITOR")
		d.m.editor = []string{"edit"}
		edit := func(from, to string) {
			d.m.runEditor = func(c *exec.Cmd, done func(error) tea.Msg) tea.Cmd {
				path := c.Args[len(c.Args)-1]
				text, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600)
				}
				return func() tea.Msg { return done(err) }
			}
			d.keys("E")
		}
		edit("none", "")
		d.see("nothing was changed")
		edit(`"user": 1`, `"user": `)
		d.see("no longer valid JSON")
		edit(`"user": 1`, `"user": 2`)
		d.see("Change the payload of task first (x) of queue mail?")
		d.keys("y")
		d.see("changed the payload", `{"user":2}`)
		edit(`"user": 2`, `"user": 3`)
		d.see("Change the payload")
		if _, err := insp.UpdateTask(t.Context(), "mail", "first", []byte("theirs")); err != nil {
			t.Fatal(err)
		}
		d.keys("y")
		d.see("has changed in the meantime")
	})
}

func TestCopy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		enqueue(t, client, asynq.NewTask("x", []byte("payload")), asynq.Queue("mail"), asynq.TaskID("first"), asynq.MaxRetry(3))
		d := drive(t, quick(client, insp))
		d.see("mail")
		d.keys("enter")
		d.see("▌first")
		d.keys("C")
		d.see("Enqueue a copy of task first (x) of queue mail?")
		d.keys("y")
		d.see("enqueued task", "1–2 of 2")
		tasks, err := insp.ListPendingTasks("mail")
		if err != nil || len(tasks) != 2 || tasks[1].ID == "first" || string(tasks[1].Payload) != "payload" || tasks[1].MaxRetry != 3 {
			t.Errorf("%v, error %v", tasks, err)
		}
		for _, step := range []struct{ keys, want string }{{"y", "copied the ID"}, {"Y", "copied the payload"}, {"M y", "copied 2 IDs"}} {
			d.keys(step.keys)
			d.see(step.want)
		}
	})
}

// The clipboard receives the IDs of the selected or marked tasks, or the name of the queue.
func TestClipboard(t *testing.T) {
	t.Parallel()
	m := stage(80, 24).on(page{view: viewTasks, queue: "critical", state: asynq.TaskStateRetry}, body{tasks: stageTasks(asynq.TaskStateRetry)})
	got := func() string { return fmt.Sprint(m.yank(false)()) }
	if id := m.shown.rows[0].ref.id; got() != id {
		t.Errorf("got %q, want %q", got(), id)
	}
	m.Update(keyNamed("m"))
	m.Update(keyNamed("m"))
	if want := m.shown.rows[0].ref.id + "\n" + m.shown.rows[1].ref.id + "\n"; got() != want {
		t.Errorf("got %q, want %q", got(), want)
	}
	m = stage(80, 24).on(page{view: viewQueues}, body{})
	if got() != "critical" {
		t.Errorf("got %q", got())
	}
}
