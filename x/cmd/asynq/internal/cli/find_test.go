package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// A task is found by its ID, or by a unique prefix of it, in any queue. A prefix needs a
// confirmation if the command changes the task, and a terminal.
func TestFindTask(t *testing.T) {
	w := newWorld(t)
	for queue, ids := range map[string][]string{"mail": {"order-17", "order-18", "same", "abc"}, "low": {"invoice-9", "same"}} {
		for _, id := range ids {
			w.enqueue("a", "", asynq.Queue(queue), asynq.TaskID(id), asynq.ProcessIn(time.Hour))
		}
	}
	show := func(args ...string) result {
		return w.run(append([]string{"task", "inspect", "-o", "template={{.queue}} {{.id}}"}, args...)...)
	}
	for id, want := range map[string]string{"order-17": "mail order-17\n", "invoice-9": "low invoice-9\n", "invo": "low invoice-9\n"} {
		if r := show(id); r.out != want || r.code != ExitDone {
			t.Errorf("%s: %+v, want %q", id, r, want)
		}
	}
	w.golden("task_find_ambiguous", show("order-1"))
	w.golden("task_find_queues", show("same"))
	w.golden("task_find_none", show("nothing", "ab"))
	if r := show("-q", "low", "same"); r.out != "low same\n" {
		t.Errorf("in one queue: %+v", r)
	}
	w.golden("task_find_script", w.run("task", "delete", "invo"))
	w.inTerminal, w.in = true, "n\ny\n"
	w.golden("task_find_confirm", w.run("task", "delete", "invo", "invoice"))
	if _, err := w.inspector.GetTaskInfo("low", "invoice-9"); err == nil {
		t.Error("the task was not deleted")
	}
}

// The argument - reads IDs from standard input, as task ls --ids prints them.
func TestTaskIDsFromStdin(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"one", "two\nlines", `"three"`} {
		w.enqueue("a", "", asynq.Queue("mail"), asynq.TaskID(id), asynq.ProcessIn(time.Hour))
	}
	w.enqueue("a", "", asynq.Queue("mail"), asynq.TaskID("other"))
	list := w.run("task", "ls", "-q", "mail", "-s", "scheduled", "--ids")
	if strings.Count(list.out, "\n") != 3 || list.err != "" {
		t.Fatalf("%+v", list)
	}
	w.in = list.out + "\nnone\n"
	r := w.run("task", "delete", "-")
	if strings.Count(r.err, " deleted\n") != 3 || !strings.Contains(r.err, `"none"`) || r.code != ExitNotFound {
		t.Errorf("%+v", r)
	}
	q, err := w.inspector.GetQueueInfo("mail")
	if err != nil || q.Size != 1 || q.Pending != 1 {
		t.Errorf("the queue is %+v, error %v", q, err)
	}
	w.in = `"bad` + "\n"
	if r := w.run("task", "delete", "-"); r.code != ExitUsage || !strings.Contains(r.err, "line 1") {
		t.Errorf("a bad line: %+v", r)
	}
	if r := w.run("task", "update-payload", "-", "-l", "-"); r.code != ExitUsage {
		t.Errorf("two inputs: %+v", r)
	}
}

func TestCompletionOfValues(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.enqueue("video:cut", "", asynq.Queue("mail"), asynq.TaskID("video-1"))
	for line, want := range map[string]string{
		"task inspect vid":                   "video-1",
		"task delete -q reports vid":         "",
		"task enqueue -t v":                  "video:cut",
		"task ls --filter sta":               "state:",
		"task ls --filter type:vi":           "type:video:cut",
		"task ls --filter queue:m":           "queue:mail",
		"queue ls --sort mem":                "memory_usage_bytes",
		"queue ls --sort=-pending,-comp":     "-pending,-completed",
		"queue ls --filter pend":             "pending",
		"context test ":                      "",
		"task ls --filter state:sched":       "state:scheduled",
		"task ls --filter type:x\u00a0state": "",
	} {
		words := append([]string{"--uri", redisAddr, "--namespace", w.namespace, "__complete"}, strings.Split(line, " ")...)
		r := w.raw(t.Context(), words...)
		got, _, _ := strings.Cut(r.out, "\n:")
		if strings.HasPrefix(r.out, ":") {
			got = ""
		}
		if got != want {
			t.Errorf("asynq %s<TAB>: got %q, want %q", line, got, want)
		}
	}
	r := w.run("__complete", "task", "ls", "--filter", "type:a state:pen")
	if !strings.HasPrefix(r.out, "type:a state:pending\n") {
		t.Errorf("the last term: %+v", r)
	}
}

// The rows of a table are counted, and the listed part of the tasks is named, on a terminal only.
func TestCounts(t *testing.T) {
	w := newWorld(t)
	w.outTerminal, w.env["NO_COLOR"] = true, "1"
	for _, queue := range []string{"mail", "low"} {
		w.enqueue("a", "", asynq.Queue(queue), asynq.TaskID("gone"))
		if err := w.inspector.DeleteTask(queue, "gone"); err != nil {
			t.Fatal(err)
		}
	}
	w.golden("count_tasks_empty", w.run("task", "ls", "-q", "mail,low", "-s", "retry", "--page", "2", "--filter", "type:x"))
	for n := range 35 {
		w.enqueue("a", "", asynq.Queue("mail"), asynq.TaskID(fmt.Sprint("task", n)))
	}
	w.enqueue("a", "", asynq.Queue("low"))
	for args, want := range map[string]string{
		"task ls": "1–30 of 36; --page 2 shows more, --all all\n", "task ls --page 2": "31–36 of 36\n", "task ls --all": "1–36 of 36\n",
		"task ls -q mail -s pending": "1–30 of 35; --page 2 shows more, --all all\n", "task ls --filter id:task1": "1–1 of all queues, filter id:task1\n",
		"queue ls": "2 queues\n", "queue ls --filter pending>1": "1 of 2 queues\n", "queue ls -o json": "", "task ls -o json": "",
	} {
		if r := w.run(strings.Fields(args)...); r.err != want || r.code != ExitDone {
			t.Errorf("%s: %q, exit code %d, want %q", args, r.err, r.code, want)
		}
	}
}

// Rows are sorted by fields of their JSON.
func TestSortFlag(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	for by, want := range map[string]string{"pending": "default reports mail", "-pending": "mail default reports", "-archived,-queue": "default reports mail"} {
		r := w.run("queue", "ls", "--sort", by, "-o", "template={{.queue}}")
		if got := strings.Join(strings.Fields(r.out), " "); got != want || r.code != ExitDone {
			t.Errorf("--sort %s: %q, want %q; %+v", by, got, want, r)
		}
	}
	w.golden("queue_ls_bad_sort", w.run("queue", "ls", "--sort", "colour"))
	r := w.run("queue", "ls", "-o", "csv", "--sort", "-queue")
	lines := strings.Split(r.out, "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "queue,memory_usage_bytes,size,") || !strings.HasPrefix(lines[1], "reports,") || !strings.HasPrefix(lines[3], "default,") {
		t.Errorf("CSV: %q", lines)
	}
}
