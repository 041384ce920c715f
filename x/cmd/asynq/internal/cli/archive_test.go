package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
)

// fillArchive fills the archive of a queue up to room tasks below the limit.
func (w *world) fillArchive(queue string, room int) {
	w.t.Helper()
	tasks := make([]*asynq.Task, asynq.ArchiveMaxTasks-room)
	for n := range tasks {
		tasks[n] = asynq.NewTask("old", nil)
	}
	for _, r := range w.client.BatchEnqueueContext(w.t.Context(), tasks, asynq.Queue(queue)) {
		if r.Err != nil {
			w.t.Fatal(r.Err)
		}
	}
	if _, err := w.inspector.ArchiveAllPendingTasks(queue); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantStates(pending, archived int) {
	w.t.Helper()
	q, err := w.inspector.GetQueueInfo("mail")
	if err != nil || q.Pending != pending || q.Archived != archived {
		w.t.Errorf("%+v, error %v; want %d pending and %d archived tasks", q, err, pending, archived)
	}
}

// Archiving deletes tasks of a full archive only with --discard-oldest, and reports how many.
func TestArchiveAllDiscards(t *testing.T) {
	w := newWorld(t)
	w.fillArchive("mail", 2)
	for n := range 5 {
		w.enqueue("new", "", asynq.Queue("mail"), asynq.TaskID(fmt.Sprint("new", n)))
	}
	w.enqueue("other", "", asynq.Queue("mail"))
	const what = "rchive 6 tasks (pending) of queue \"mail\" and delete 4 tasks from the archive, oldest first"
	check := func(code int, want string, args ...string) {
		t.Helper()
		r := w.run(append([]string{"task", "archiveall", "-q", "mail", "-s", "pending"}, args...)...)
		if r.code != code || r.out != "" || !strings.Contains(r.err, want) {
			t.Errorf("%v: %+v; want code %d and %q", args, r, code, want)
		}
	}
	check(ExitDone, "would a"+what, "--dry-run")
	check(ExitDone, "--discard-oldest", "--dry-run")
	check(ExitUsage, "this would a"+what, "--yes")
	check(ExitUsage, "--discard-oldest", "--yes")
	check(ExitUsage, "delete 3 tasks from the archive", "--filter", "type:new", "--yes")
	w.in, w.inTerminal = "y\n", true
	check(ExitUsage, "this would a"+what)
	w.wantStates(6, 9998)

	w.in = "n\n"
	check(ExitFailed, "A"+what+" (limit: 10,000 tasks) in ", "--discard-oldest")
	w.wantStates(6, 9998)
	w.in, w.inTerminal = "", false
	check(ExitDone, "1 task archived\n", "--filter", "type:other", "--yes")
	w.wantStates(5, 9999)
	check(ExitDone, "5 tasks archived, 4 tasks deleted from the archive\n", "--discard-oldest", "--yes")
	w.wantStates(0, 10000)
}

// The same applies to tasks selected by ID.
func TestArchiveDiscards(t *testing.T) {
	w := newWorld(t)
	w.fillArchive("mail", 1)
	for _, id := range []string{"a", "b", "c"} {
		w.enqueue("new", "", asynq.Queue("mail"), asynq.TaskID(id))
	}
	r := w.run("task", "archive", "-q", "mail", "a", "b", "none")
	if r.code != ExitUsage || !strings.Contains(r.err, "this would archive 2 tasks and delete 1 task from the archive of queue \"mail\", oldest first") ||
		!strings.Contains(r.err, "--discard-oldest") {
		t.Errorf("got %+v", r)
	}
	w.wantStates(3, 9999)
	if r := w.run("task", "archive", "-q", "mail", "a"); r.code != ExitDone {
		t.Errorf("one task that fits: %+v", r)
	}
	r = w.run("task", "archive", "-q", "mail", "b", "c", "--discard-oldest")
	if r.code != ExitDone || !strings.Contains(r.err, "2 tasks deleted from the archive of queue \"mail\", oldest first\n") {
		t.Errorf("got %+v", r)
	}
	w.wantStates(0, 10000)
}

// Help states how many tasks an archive keeps.
func TestArchiveHelp(t *testing.T) {
	w := newWorld(t)
	for _, command := range []string{"archive", "archiveall"} {
		r := w.run("task", command, "--help")
		if !strings.Contains(r.out, "--discard-oldest") || !strings.Contains(r.out, "10000") {
			t.Errorf("task %s --help: %s", command, r.out)
		}
	}
}
