package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
)

// The exit code of status is that of the worst cause that is not muted.
func TestStatus(t *testing.T) {
	w := newWorld(t)
	if r := w.run("status"); r.code != ExitDone || r.out != "ok: no problems\n" {
		t.Errorf("without tasks: %+v", r)
	}
	w.enqueue("report:build", "", asynq.Queue("mail"))
	r := w.run("status")
	if r.code != exitTrouble || !strings.HasPrefix(r.out, "trouble: No server is running: 1 queue has 1 task\n  - Queue \"mail\" has 1 task, but no server") || !strings.Contains(r.out, "\n  id no-server\n") {
		t.Errorf("without a server: %+v", r)
	}
	if r := w.run("status", "-o", "json"); r.code != exitTrouble || !strings.Contains(r.out, `"status": "trouble"`) || !strings.Contains(r.out, `"id": "no-server"`) {
		t.Errorf("as JSON: %+v", r)
	}

	if r := w.run("status", "mute", "no-server", "--for", "1h", "--by", "ann", "--note", "migration"); r.code != ExitDone || !strings.Contains(r.err, `"no-server" muted until `) {
		t.Errorf("mute: %+v", r)
	}
	if r := w.run("status"); r.code != ExitDone || r.out != "ok: no problems\n1 muted cause: use --muted to show\n" {
		t.Errorf("muted: %+v", r)
	}
	if r := w.run("status", "--muted"); r.code != ExitDone || !strings.Contains(r.out, "by ann: migration\n") {
		t.Errorf("with muted ones: %+v", r)
	}
	if r := w.run("status", "unmute", "no-server", "unknown"); r.code != ExitNotFound || !strings.Contains(r.err, `"no-server" unmuted`) || !strings.Contains(r.err, `"unknown" is not muted`) {
		t.Errorf("unmute: %+v", r)
	}
	w.run("status", "mute", "no-server")
	if r := w.run("status", "--muted"); !strings.Contains(r.out, "acknowledged until it is gone") {
		t.Errorf("acknowledged: %+v", r)
	}
	if r := w.run("status", "mute", "no-server", "--for", "-1h"); r.code != ExitUsage {
		t.Errorf("a negative time: %+v", r)
	}
}

func TestStatusWarning(t *testing.T) {
	w := newWorld(t)
	seedQueues(w) // reports is paused, and without a task that is ready
	w.enqueue("x", "", asynq.Queue("reports"))
	if r := w.run("status", "mute", "no-server"); r.code != ExitDone {
		t.Fatalf("%+v", r)
	}
	if r := w.run("status"); r.code != exitWarning || !strings.HasPrefix(r.out, `warning: Queue "reports" is paused, and 1 task is waiting`) {
		t.Errorf("%+v", r)
	}
}

func TestStatusSettings(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "health.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		`{"wait_notice": "soon"}`: `wait_notice: "soon" is not a duration`, `{"x": 1}`: `unknown setting "x"`, `{`: "not a JSON object",
	} {
		write(text)
		for _, args := range [][]string{{"status", "--settings", file}, {"web", "--health-settings", file}} {
			if r := w.run(args...); r.code == ExitDone || !strings.Contains(r.err, want) {
				t.Errorf("%q of %s: %+v", args[0], text, r)
			}
		}
	}
	write(`{"wait_notice": "2m"}`)
	if r := w.run("status", "--settings", file, "--threshold", "wait_warning=3m"); r.code != ExitDone {
		t.Errorf("%+v", r)
	}
	if r := w.run("status", "--settings", file, "--threshold", "wait-warning=1m"); r.code != exitUnknown || !strings.Contains(r.err, "wait_notice must not be above wait_warning") {
		t.Errorf("%+v", r)
	}
	if r := w.run("status", "--settings", file+"x"); r.code != exitUnknown {
		t.Errorf("%+v", r)
	}
}

func TestStatusUnknown(t *testing.T) {
	w := newWorld(t)
	r := w.raw(t.Context(), "--uri", "redis://127.0.0.1:1?max_retries=-1", "status")
	if r.code != exitUnknown || !strings.HasPrefix(r.out, "trouble: Redis is unreachable: ") {
		t.Errorf("%+v", r)
	}
}
