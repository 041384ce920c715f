package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// seedTasks creates a task in nearly every state.
func seedTasks(w *world) {
	w.t.Helper()
	w.serveMail([]string{"failing", "done"}, func() {
		w.enqueue("email:failing", `{"user_id":9007199254740993}`, asynq.TaskID("failing"), asynq.MaxRetry(7), asynq.Queue("mail"))
		w.enqueue("email:done", `{"user_id":1}`, asynq.TaskID("done"), asynq.Retention(time.Hour), asynq.Queue("mail"),
			asynq.Timeout(time.Minute), asynq.Header("trace", "t-1"))
	})
	for _, id := range []string{"p1", "p2", "p3"} {
		w.enqueue("email:welcome", `{"user_id":`+id[1:]+`}`, asynq.TaskID(id), asynq.Queue("mail"))
	}
	w.enqueue("image", "\x00\xff", asynq.TaskID("binary"), asynq.Queue("mail"))
	w.enqueue("later", "two\nlines", asynq.TaskID("later"), asynq.ProcessIn(time.Hour), asynq.Queue("mail"))
	w.enqueue("report", "", asynq.TaskID("grouped"), asynq.Queue("mail"), asynq.Group("daily"))
	w.enqueue("old", "x", asynq.TaskID("old"), asynq.Queue("low"))
	if err := w.inspector.ArchiveTask("low", "old"); err != nil {
		w.t.Fatal(err)
	}
}

// serveMail runs a server of queue mail until len(ids) tasks have run. Tasks of types that end with
// "failing" fail, other tasks succeed with a result.
func (w *world) serveMail(ids []string, enqueue func()) {
	w.t.Helper()
	ran := make(chan struct{}, len(ids))
	srv := asynq.NewServer(w.opt, asynq.Config{
		Concurrency: 1, Queues: map[string]int{"mail": 1}, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		defer func() { ran <- struct{}{} }()
		if t.Type() == "progress" {
			return asynq.SetProgress(ctx, 0.25, "1 of 4")
		}
		if strings.HasSuffix(t.Type(), "failing") {
			return errors.New("dial tcp: i/o timed out")
		}
		_, err := t.ResultWriter().Write([]byte(`{"sent":true}`))
		return err
	}))
	if err != nil {
		w.t.Fatal(err)
	}
	defer srv.Shutdown()
	enqueue()
	for range ids {
		select {
		case <-ran:
		case <-time.After(time.Minute):
			w.t.Error("a task has not run after a minute")
			return
		}
	}
}

func TestTaskLs(t *testing.T) {
	w := newWorld(t)
	seedTasks(w)
	for name, args := range map[string]string{
		"task_ls":             "task ls",
		"task_ls_pending":     "task ls -q mail -s pending",
		"task_ls_page":        "task ls -q mail -s pending --page 2 --size 3",
		"task_ls_scheduled":   "task ls -q mail -s scheduled -o wide",
		"task_ls_retry":       "task ls -q mail -s retry",
		"task_ls_archived":    "task ls -q low -s archived",
		"task_ls_completed":   "task ls -q mail -s completed",
		"task_ls_group":       "task ls -q mail -g daily",
		"task_ls_active":      "task ls -q mail -s active",
		"task_ls_json":        "task ls -q mail -s pending --filter id:binary -o json",
		"task_ls_filter":      `task ls --filter type:email:* -o template={{.id}}\ {{.state}}`,
		"task_ls_all":         "task ls --all -o template={{.id}}",
		"task_ls_json_path":   "task ls --filter payload:user_id=9007199254740993 -o template={{.id}}",
		"task_ls_bad_filter":  "task ls --filter type:a)",
		"task_ls_bad_state":   "task ls -s done",
		"task_ls_bad_group":   "task ls -s retry -g x",
		"task_ls_no_queue":    "task ls -q nowhere -s pending",
		"task_ls_bad_page":    "task ls --page 0",
		"task_ls_scan_limit":  "task ls -q mail --max-scan 2 --filter id:none",
		"task_ls_ndjson_done": "task ls -q mail -s completed -o ndjson",
	} {
		w.golden(name, w.run(words(args)...))
	}
}

// words splits a command line at unescaped spaces.
func words(line string) []string {
	fields := strings.Split(strings.ReplaceAll(line, `\ `, "\x00"), " ")
	for n := range fields {
		fields[n] = strings.ReplaceAll(fields[n], "\x00", " ")
	}
	return fields
}

func TestTaskInspect(t *testing.T) {
	w := newWorld(t)
	seedTasks(w)
	for name, args := range map[string]string{
		"task_inspect":           "task inspect failing -q mail",
		"task_inspect_completed": "task inspect -q mail -i done",
		"task_inspect_binary":    "task inspect -q mail binary",
		"task_inspect_text":      "task inspect -q mail later",
		"task_inspect_json":      "task inspect -q mail done -o json",
		"task_inspect_several":   "task inspect -q mail p1 nothing p2 -o template={{.id}}={{.payload}}",
		"task_inspect_missing":   "task inspect -q nowhere x",
		"task_inspect_no_id":     "task inspect -q mail",
		"task_inspect_format":    "task inspect -q mail p1 --payload-format xml",
		"task_inspect_not_json":  "task inspect -q mail later --payload-format json",
	} {
		w.golden(name, w.run(words(args)...))
	}
	if r := w.run("task", "inspect", "-q", "mail", "binary", "--raw"); r.out != "\x00\xff" || r.err != "" || r.code != 0 {
		t.Errorf("--raw: %+v", r)
	}
}

// An active task is shown with its server, other tasks without.
func TestTaskInspectActive(t *testing.T) {
	w := newWorld(t)
	server, end := w.startActiveTask("mail", "busy")
	worker := server.ActiveWorkers[0]
	const stamp = "2006-01-02 15:04:05Z"
	r := w.run("task", "inspect", "-q", "mail", "busy")
	for _, want := range []string{
		fmt.Sprintf("\nServer:        %s:%d\n", server.Host, server.PID),
		"\nStarted:       " + worker.Started.UTC().Format(stamp) + " (",
		"\nTimes out:     " + worker.Deadline.UTC().Format(stamp) + " (in ",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("got %+v; want %q in it", r, want)
		}
	}
	r = w.run("task", "inspect", "-q", "mail", "busy", "-o", "template={{with .worker}}{{.server_id}} {{.host}} {{.pid}} {{.start_time}} {{.deadline}}{{end}}")
	want := fmt.Sprintf("%s %s %d %s %s\n", server.ID, server.Host, server.PID,
		worker.Started.UTC().Format(time.RFC3339Nano), worker.Deadline.UTC().Format(time.RFC3339Nano))
	if r.out != want {
		t.Errorf("got %+v; want %q", r, want)
	}
	end()
	w.enqueue("later", "", asynq.Queue("mail"), asynq.TaskID("idle"))
	if r := w.run("task", "inspect", "-q", "mail", "idle", "-o", "template={{.worker}}"); r.out != "<no value>\n" {
		t.Errorf("a pending task: %+v; want no worker", r)
	}
}

func TestTaskChanges(t *testing.T) {
	w := newWorld(t)
	seedTasks(w)
	for _, step := range []struct{ name, args string }{
		{"task_run", "task run -q mail failing later missing"},
		{"task_run_again", "task run -q mail failing"},
		{"task_archive", "task archive -q mail p1 -i p2"},
		{"task_delete", "task rm -q mail p1"},
		{"task_delete_again", "task delete -q mail p1"},
		{"task_reschedule", "task reschedule -q mail p3 --process-in 1h"},
		{"task_reschedule_when", "task reschedule -q mail p3"},
		{"task_reschedule_bad", "task reschedule -q mail p3 --process-at soon"},
		{"task_update", "task update-payload -q mail p3 -l new"},
		{"task_update_limits", "task update -q mail p3 -l newer --retry 3 --timeout 1m --retention 1h --expires-in 48h --process-in 2h"},
		{"task_update_nothing", "task update -q mail p3"},
		{"task_update_unfit", "task update-payload -q mail binary -l new"},
		{"task_cancel", "task cancel x --archive"},
		{"task_cancel_inactive", "task cancel -q mail binary"},
		{"task_cancel_both", "task cancel x --archive --delete"},
		{"task_changed", "task ls --all -o template={{.id}}\\ {{.state}}\\ {{.payload}}"},
	} {
		w.golden(step.name, w.run(words(step.args)...))
	}
}

func TestTaskAll(t *testing.T) {
	w := newWorld(t)
	seedTasks(w)
	for _, step := range []struct{ name, args, in string }{
		{"task_deleteall_dry", "task deleteall -q mail -s pending,scheduled --dry-run", ""},
		{"task_deleteall_refused", "task deleteall -q mail -s pending", ""},
		{"task_deleteall_no", "task deleteall -q mail -s pending", "n\n"},
		{"task_deleteall_filter", "task deleteall -q mail -s pending --filter payload:user_id=2 --yes", ""},
		{"task_archiveall", "task archiveall -q mail -s pending --filter -type:image", "y\n"},
		{"task_archiveall_none", "task archiveall -q mail -s pending --filter type:nothing --yes", ""},
		{"task_runall", "task runall -q mail,low -s retry,archived --yes", ""},
		{"task_runall_group", "task runall -q mail -g daily --yes", ""},
		{"task_runall_pending", "task runall -q mail -s pending --yes", ""},
		{"task_all_scope", "task deleteall --yes", ""},
		{"task_all_nowhere", "task deleteall -q nowhere -s pending --yes", ""},
		{"task_all_end", "task ls --all -o template={{.id}}\\ {{.state}}", ""},
	} {
		w.in, w.inTerminal = step.in, step.in != ""
		w.golden(step.name, w.run(words(step.args)...))
	}
}
