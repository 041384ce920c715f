package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// The order of task ls does not depend on how the tasks are selected. --reverse reverses it.
func TestTaskLsOrder(t *testing.T) {
	w := newWorld(t)
	var want []string
	add := func(state string, opts ...asynq.Option) {
		for n := range 5 {
			id := fmt.Sprint(state, n)
			w.enqueue("x", "", append(opts, asynq.Queue("mail"), asynq.TaskID(id))...)
			want = append(want, id)
		}
	}
	for n := range 5 {
		w.enqueue("x", "", asynq.Queue("mail"), asynq.TaskID(fmt.Sprint("scheduled", n)), asynq.ProcessIn(time.Duration(n+1)*time.Hour))
		want = append(want, fmt.Sprint("scheduled", n))
	}
	add("aggregating", asynq.Group("g"))
	add("active")
	receiver := asynq.NewReceiver(w.opt, asynq.ReceiverConfig{Queues: map[string]int{"mail": 1}, LogLevel: asynq.FatalLevel})
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(receiver.Shutdown)
	for range 5 {
		if leases, err := receiver.Receive(t.Context(), 1, "mail"); err != nil || len(leases) != 1 {
			t.Fatalf("%d leases, error %v", len(leases), err)
		}
	}
	active := slices.Clone(want[len(want)-5:])
	want = want[:len(want)-5]
	add("pending")
	want = append(want, active...)
	for n := range 5 {
		id := fmt.Sprint("archived", n)
		w.enqueue("x", "", asynq.Queue("mail"), asynq.TaskID(id))
		if err := w.inspector.ArchiveTask("mail", id); err != nil {
			t.Fatal(err)
		}
	}
	want = append(want, w.archived("mail")...)
	of := func(state string) []string {
		return slices.DeleteFunc(slices.Clone(want), func(id string) bool { return !strings.HasPrefix(id, state) })
	}
	check := func(want []string, args ...string) {
		t.Helper()
		reversed := slices.Clone(want)
		slices.Reverse(reversed)
		for _, more := range [][]string{nil, {"--filter", "type:x"}} {
			line := append(append([]string{"task", "ls", "-o", "template={{.id}}"}, args...), more...)
			if got := strings.Fields(w.run(line...).out); !slices.Equal(got, want) {
				t.Errorf("%v: got %v, want %v", line, got, want)
			}
			line = append(line, "--reverse")
			if got := strings.Fields(w.run(line...).out); !slices.Equal(got, reversed) {
				t.Errorf("%v: got %v, want %v", line, got, reversed)
			}
		}
	}
	for _, state := range []string{"pending", "active", "scheduled", "archived"} {
		check(of(state), "-q", "mail", "-s", state)
		check(of(state), "-q", "mail", "-s", state, "--all")
	}
	check(of("aggregating"), "-q", "mail", "-g", "g")
	check(want, "--all")
	check(want, "-q", "mail")
	for n, page := range []string{"1", "2"} {
		part := want[n*15 : min((n+1)*15, len(want))]
		if got := strings.Fields(w.run("task", "ls", "-o", "template={{.id}}", "--size", "15", "--page", page).out); !slices.Equal(got, part) {
			t.Errorf("page %s: got %v, want %v", page, got, part)
		}
	}
}

// archived lists the archived tasks of a queue, newest first.
func (w *world) archived(queue string) []string {
	w.t.Helper()
	tasks, err := w.inspector.ListArchivedTasks(queue, asynq.NewestFirst())
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}
