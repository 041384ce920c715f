package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

func TestTaskEnqueue(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(file, []byte("from a file\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ name, args, in string }{
		{"task_enqueue", `task enqueue -t mail -l {"a":1} --id a --retry 3 --queue q --timeout 5s --retention 1h -H x=y -H z= --unique 1h`, ""},
		{"task_enqueue_twice", `task enqueue -t mail -l {"a":1} --id a --queue q`, ""},
		{"task_enqueue_duplicate", `task enqueue -t mail -l {"a":1} --queue q --unique 1h`, ""},
		{"task_enqueue_kept", `task enqueue -t mail -l {"a":1} --queue q --unique 1h --on-duplicate keep`, ""},
		{"task_enqueue_policy_alone", `task enqueue -t mail --on-duplicate replace`, ""},
		{"task_enqueue_stdin", "task enqueue --type_name later --payload - --id b --process_in 1h --group g -o json", "from\nstdin"},
		{"task_enqueue_file", "task enqueue -t file --id c -l @" + file, ""},
		{"task_enqueue_at", "task enqueue -t at --id d -l @@at --process_at 2100-01-02T03:04:05Z --deadline 4102444800", ""},
		{"task_enqueue_no_type", "task enqueue -l x", ""},
		{"task_enqueue_header", "task enqueue -t x -H nothing", ""},
		{"task_enqueue_times", "task enqueue -t x --process-at 2100-01-02 --process-in 1h", ""},
		{"task_enqueue_unique", "task enqueue -t x --unique 0s", ""},
		{"task_enqueue_blank", "task enqueue -t x --queue \\ ", ""},
		{"task_enqueue_end", "task inspect -q q a", ""},
	} {
		w.in = step.in
		w.golden(step.name, w.run(words(step.args)...))
	}
	w.in = ""
	if r := w.run("task", "inspect", "c", "--raw"); r.out != "from a file\x00" {
		t.Errorf("from a file: %+v", r)
	}
	if r := w.run("task", "inspect", "d", "--raw"); r.out != "@at" {
		t.Errorf("with @@: %+v", r)
	}
	if r := w.run("task", "enqueue", "-t", "x", "-l", "@/does/not/exist"); r.code != ExitFailed || r.out != "" {
		t.Errorf("no such file: %+v", r)
	}
}

func TestTaskEnqueueBatch(t *testing.T) {
	w := newWorld(t)
	w.in = `{"type":"a","payload":{"n": 9007199254740993},"id":"1","headers":{"h":"v"}}

{"payload":"text","id":"2","queue":"other","process_in":"1h","max_retry":1}
{"payload_base64":"AP8=","id":"3","retention":60}
{"type":"a","id":"1"}
{"type":"a","tpye":"b"}
{"type":
{"id":"4","process_at":"soon"}
{"id":"5","payload":1,"payload_base64":"AA=="}
{"id":"6"} {"id":"7"}
{"id":"8","queue":""}
{"id":"8","max_retry":"many"}
{"id":"9","payload":[1, 2],"group":"g","unique":"1h","process_at":4102444800,"deadline":"2100-01-01T00:00:00Z"}`
	w.golden("task_batch_dry", w.run("task", "enqueue", "--batch", "-", "-t", "default", "-q", "low", "--dry-run"))
	if queues, err := w.inspector.Queues(); err != nil || len(queues) != 0 {
		t.Errorf("after a dry run: queues %v, error %v; want none", queues, err)
	}
	if r := w.run("task", "enqueue", "-t", "x", "--dry-run"); r.code != ExitUsage {
		t.Errorf("--dry-run without --batch: %+v", r)
	}
	w.golden("task_batch", w.run("task", "enqueue", "--batch", "-", "-t", "default", "-q", "low"))
	w.golden("task_batch_ndjson", w.run("task", "enqueue", "--batch", "-", "-t", "default", "-q", "low", "-o", "ndjson"))
	w.golden("task_batch_payload", w.run("task", "enqueue", "--batch", "-", "-l", "x"))
	w.golden("task_batch_file", w.run("task", "enqueue", "--batch", "/does/not/exist"))
	w.golden("task_batch_end", w.run("task", "ls", "--all", "-o", "template={{.id}} {{.queue}} {{.state}} {{.type}} {{.payload}}{{.payload_base64}}"))
	w.in = strings.Repeat(`{"type":"many"}`+"\n", 1201)
	if r := w.run("task", "enqueue", "--batch", "-", "-q", "many", "-o", "ndjson"); r.code != 0 || r.err != "" || strings.Count(r.out, "\n") != 1201 {
		t.Errorf("1,201 lines: exit %d, %s", r.code, r.err)
	}
	if q, err := w.inspector.GetQueueInfo("many"); err != nil || q.Pending != 1201 {
		t.Errorf("got %+v, error %v", q, err)
	}
}

func TestTaskEnqueueBatchModes(t *testing.T) {
	w := newWorld(t)
	w.in = `{"id":"1","idempotency_key":"k","idempotency_ttl":"1h"}
{"id":"2","idempotency_key":"k"}
{"id":"3","unique":"1h","unique_key":"doc","payload":"old","on_duplicate":"replace"}
{"id":"4","unique":"1h","unique_key":"doc","payload":"new","on_duplicate":"replace"}
{"id":"5","debounce":{"key":"d","quiet":"1h","max_wait":7200}}
{"id":"6","throttle":{"key":"t","window":3600}}
{"id":"7","throttle":{"key":"t","window":3600}}
{"id":"8","expires_in":"1h"}
{"id":"9","unique":"1h"}
{"id":"10","unique":"1h","throttle":{"key":"t","window":3600}}
{"id":"11","unique_key":"doc"}
{"id":"12","unique":"1h","on_duplicate":"drop"}
{"id":"13","idempotency_ttl":"1h"}
{"id":"14","debounce":{"key":"","quiet":"1h"}}
{"id":"15","throttle":{"key":"t"}}
{"id":"16","expires_in":0}
{"id":"17","debounce":{"key":"d","wait":1}}`
	batch := []string{"task", "enqueue", "--batch", "-", "-t", "doc", "-o", "ndjson"}
	w.golden("task_batch_modes_dry", w.run(append(batch, "--dry-run")...))
	w.golden("task_batch_modes", w.run(batch...))
	end := w.run("task", "ls", "--all", "-o", "template={{.id}} {{.state}} {{.payload}}")
	lines := strings.SplitAfter(end.out, "\n") // the order of the calls for the modes is not fixed
	slices.Sort(lines)
	end.out = strings.Join(lines, "")
	w.golden("task_batch_modes_end", end)
	if info, err := w.inspector.GetTaskInfo("default", "8"); err != nil || info.ExpiresAt.IsZero() {
		t.Errorf("the task expires: %+v, error %v", info, err)
	}
	w.in = `{"id":"20","throttle":{"key":"t","window":3600}}`
	if r := w.run("task", "enqueue", "--batch", "-", "-t", "doc", "-o", "ndjson", "--unique", "1h"); !strings.Contains(r.out, `"id":"6"`) {
		t.Errorf("the line does not take precedence over the flag: %+v", r)
	}
}

func TestTaskWait(t *testing.T) {
	w := newWorld(t)
	seedTasks(w)
	w.golden("task_wait", w.run("task", "wait", "-q", "mail", "done"))
	w.golden("task_wait_archived", w.run("task", "wait", "-q", "low", "old", "-o", "json"))
	w.golden("task_wait_missing", w.run("task", "wait", "-q", "mail", "done", "nothing"))
	w.golden("task_wait_timeout", w.run("task", "wait", "-q", "mail", "done", "later", "--timeout", "50ms", "--interval", "10ms"))
	w.golden("task_wait_interval", w.run("task", "wait", "later", "--interval", "0s"))

	w.enqueue("email:x", "", asynq.Queue("mail"), asynq.TaskID("now"))
	result := make(chan result, 1)
	go func() { result <- w.run("task", "wait", "-q", "mail", "now", "--interval", "10ms", "--timeout", "20s") }()
	w.serveMail(make([]string, 5), func() {})                 // now, p1 to p3, binary
	if r := <-result; r.code != 0 && r.code != ExitNotFound { // it may have run before the first poll
		t.Errorf("got %+v", r)
	}
}

func TestCron(t *testing.T) {
	w := newWorld(t)
	s := asynq.NewScheduler(w.opt, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	id, err := s.Register("@every 1h", asynq.NewTask("tick", []byte(`{"a":1}`)), asynq.Queue("cron"), asynq.MaxRetry(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	proctest.Eventually(t, "the entry of the scheduler", func() bool {
		entries, err := w.inspector.SchedulerEntries()
		return err == nil && len(entries) == 1
	})
	w.golden("cron_ls", w.run("cron", "ls"))
	w.golden("cron_ls_template", w.run("cron", "ls", "-o", "template={{.spec}} {{.task_type}} {{.task_payload}} {{.options}} {{.prev_enqueue_at}}"))
	w.golden("cron_history_empty", w.run("cron", "history", id))
	w.golden("cron_run_dry", w.run("cron", "run", id, "nothing", "--dry-run"))
	if queues, err := w.inspector.Queues(); err != nil || len(queues) != 0 {
		t.Errorf("after a dry run: queues %v, error %v; want none", queues, err)
	}
	w.golden("cron_run", w.run("cron", "run", id))
	w.golden("cron_history", w.run("cron", "history", id))
	w.golden("cron_history_unknown", w.run("cron", "history", "nothing"))
	w.golden("cron_run_unknown", w.run("cron", "run", "nothing"))
	w.inTerminal = false
	w.golden("cron_pause_unconfirmed", w.run("cron", "pause", id))
	w.golden("cron_pause_dry", w.run("cron", "pause", id, "--dry-run"))
	w.golden("cron_pause", w.run("cron", "pause", id, "--yes"))
	w.golden("cron_ls_paused", w.run("cron", "ls"))
	w.golden("cron_resume", w.run("cron", "resume", id))
	w.golden("cron_resume_unknown", w.run("cron", "resume", "nothing"))
	if r := w.run("__complete", "cron", "pause", ""); !strings.Contains(r.out, id) {
		t.Errorf("completion: %+v", r)
	}
}

func TestDoctor(t *testing.T) {
	w := newWorld(t)
	w.golden("doctor_empty", w.run("doctor"))
	w.enqueue("x", "", asynq.TaskID("lost"), asynq.Queue("mail"))
	lose := func() {
		if err := w.redis.LRem(t.Context(), w.namespace+":{mail}:pending", 0, "lost").Err(); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	w.golden("doctor", w.run("doctor"))
	w.golden("doctor_json", w.run("doctor", "-o", "json", "-q", "mail"))
	w.golden("doctor", w.run("doctor", "--repair", "--dry-run", "--yes"))
	w.in, w.inTerminal = "n\n", true
	w.golden("doctor_repair_no", w.run("doctor", "--repair"))
	w.golden("doctor", w.run("doctor")) // without --repair there is no prompt
	w.in, w.inTerminal = "", false
	w.golden("doctor_repair", w.run("doctor", "--repair"))
	w.golden("doctor_repaired", w.run("doctor"))
	lose()
	w.inTerminal = true
	w.golden("doctor_repair", w.run("doctor", "--repair", "--yes"))
	w.golden("doctor_nowhere", w.run("doctor", "-q", "nowhere"))
}
