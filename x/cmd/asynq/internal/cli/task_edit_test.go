package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// editor sets an editor that runs a shell script with the file as $1.
func (w *world) editor(script string) {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "editor")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nset -e\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is executed
		w.t.Fatal(err)
	}
	w.env["EDITOR"] = path
}

func (w *world) task(queue, id string) *asynq.TaskInfo {
	w.t.Helper()
	t, err := w.inspector.GetTaskInfo(queue, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

func TestTaskEdit(t *testing.T) {
	w := newWorld(t)
	if r := w.run("task", "edit", "x"); r.code != ExitUsage || !strings.Contains(r.err, "set EDITOR") {
		t.Errorf("without an editor: %+v", r)
	}
	w.enqueue("email", `{"user":1,"big":12345678901234567890}`, asynq.Queue("mail"), asynq.TaskID("one"), asynq.ProcessIn(time.Hour), asynq.MaxRetry(4))
	before := w.task("mail", "one")
	w.editor(`cat "$1" >&2`)
	w.golden("task_edit_nothing", w.run("task", "edit", "one"))
	if after := w.task("mail", "one"); !bytes.Equal(after.Payload, before.Payload) || after.MaxRetry != 4 {
		t.Errorf("the task is %+v", after)
	}
	w.editor(`sed -i 's/"user": 1/"user": 2/; s/max_retry: 4/max_retry: 7/; s/queue: mail/queue: low/; s/^process_at:.*/process_at: 2099-01-02T03:04:05Z/' "$1"`)
	if r := w.run("task", "edit", "one"); r.code != ExitDone || r.err != "task \"one\" of queue \"low\" updated\n" {
		t.Errorf("%+v", r)
	}
	after := w.task("low", "one")
	if got := string(after.Payload); got != `{"user":2,"big":12345678901234567890}` || after.MaxRetry != 7 || after.NextProcessAt.UTC().Format(time.RFC3339) != "2099-01-02T03:04:05Z" {
		t.Errorf("the task is %+v, payload %s", after, got)
	}
	for script, want := range map[string]string{
		`sed -i 's/"user": 2/"user": /' "$1"`:      "no longer valid JSON",
		`sed -i 's/max_retry: 7/retries: 7/' "$1"`: `unknown setting "retries"`,
		`sed -i 's/timeout: .*/timeout: x/' "$1"`:  "timeout: ",
		`echo x > "$1"`: "empty line before the payload is missing",
	} {
		w.editor(script)
		r := w.run("task", "edit", "one")
		_, path, kept := strings.Cut(r.err, "the edited text is in ")
		if r.code != ExitFailed || !strings.Contains(r.err, want) || !kept {
			t.Errorf("%s: %+v, want %q", script, r, want)
		}
		if err := os.Remove(strings.TrimSpace(path)); err != nil {
			t.Error(err)
		}
	}
	w.editor("exit 1")
	if r := w.run("task", "edit", "one"); r.code != ExitFailed || !strings.Contains(r.err, "nothing was changed") {
		t.Errorf("a failing editor: %+v", r)
	}
}

// A task that has changed since it was read is not overwritten.
func TestTaskEditConflict(t *testing.T) {
	w := newWorld(t)
	w.enqueue("email", "a", asynq.TaskID("one"), asynq.ProcessIn(time.Hour))
	waiting := filepath.Join(t.TempDir(), "go")
	w.editor(`sed -i 's/^a$/edited/' "$1"; touch "` + waiting + `.in"; while [ ! -e "` + waiting + `" ]; do sleep 0.01; done`)
	changed := make(chan error, 1)
	go func() {
		for {
			if _, err := os.Stat(waiting + ".in"); err == nil {
				break
			}
			select {
			case <-t.Context().Done():
				return
			case <-time.After(pollEvery):
			}
		}
		_, err := w.inspector.UpdateTask(t.Context(), "default", "one", []byte("theirs"))
		changed <- err
		_ = os.WriteFile(waiting, nil, 0o600)
	}()
	r := w.run("task", "edit", "one")
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	if r.code != ExitFailed || !strings.Contains(r.err, "has changed in the meantime") || string(w.task("default", "one").Payload) != "theirs" {
		t.Errorf("%+v, payload %s", r, w.task("default", "one").Payload)
	}
	_, path, _ := strings.Cut(r.err, "the edited text is in ")
	_ = os.Remove(strings.TrimSpace(path))
}

func TestTaskMoveAndCopy(t *testing.T) {
	w := newWorld(t)
	w.enqueue("email", "payload", asynq.Queue("mail"), asynq.TaskID("one"), asynq.MaxRetry(3), asynq.Timeout(time.Minute), asynq.Header("trace", "t1"))
	w.golden("task_move", w.run("task", "move", "one", "--to", "low"))
	w.golden("task_move_nowhere", w.run("task", "move", "none", "--to", "low"))
	if got := w.task("low", "one"); got.State != asynq.TaskStatePending {
		t.Errorf("the task is %v", got.State)
	}
	r := w.run("task", "copy", "one", "--process-in", "1h", "--to", "debug")
	id := strings.TrimSpace(r.out)
	if r.code != ExitDone || id == "" || id == "one" || !strings.Contains(r.err, `task "one" of queue "low" copied to queue "debug", scheduled`) {
		t.Fatalf("%+v", r)
	}
	c := w.task("debug", id)
	if string(c.Payload) != "payload" || c.Type != "email" || c.MaxRetry != 3 || c.Timeout != time.Minute || c.Headers["trace"] != "t1" || c.State != asynq.TaskStateScheduled {
		t.Errorf("the copy is %+v", c)
	}
}

// tail shows the outcomes of tasks, and counts those that leave nothing in Redis.
func TestTaskTail(t *testing.T) {
	w := newWorld(t)
	w.processTasks("mail", 1, 1) // before the command
	ctx, cancel := context.WithCancel(t.Context())
	drawn, done := newSignalWriter("", 1, func() {}), make(chan int, 1)
	go func() {
		done <- Run(ctx, []string{"--uri", redisAddr, "--namespace", w.namespace, "task", "tail", "--interval", "100ms",
			"-o", "template={{.outcome}} {{.queue}} {{.id}} {{.succeeded}} {{.failed}}"},
			Streams{In: strings.NewReader(""), Out: drawn, Err: drawn, Env: func(string) (string, bool) { return "", false }})
	}()
	has := func(text string) func() bool { return func() bool { return strings.Contains(drawn.String(), text) } }
	started := has("other low ")
	proctest.Eventually(t, "the first outcome", func() bool {
		w.processTasks("low", 1, 0) // until the command has started
		return started()
	})
	stop := w.serve("mail", func(_ context.Context, t *asynq.Task) error {
		if t.Type() == "fail" {
			return errors.New("as asked")
		}
		return nil
	})
	w.enqueue("ok", "", asynq.Queue("mail"), asynq.TaskID("kept"), asynq.Retention(time.Hour))
	w.enqueue("fail", "", asynq.Queue("mail"), asynq.TaskID("again"))
	w.enqueue("fail", "", asynq.Queue("mail"), asynq.TaskID("last"), asynq.MaxRetry(0))
	for _, want := range []string{"completed mail kept 1 0\n", "retry mail again 0 1\n", "archived mail last 0 1\n"} {
		proctest.Eventually(t, want, has(want))
	}
	stop()
	cancel()
	if code := <-done; code != ExitDone || strings.Contains(drawn.String(), "asynq:") {
		t.Errorf("exit code %d, %s", code, drawn)
	}
}
