package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	limits "github.com/asynq-go/asynq/x/rate"
)

func TestLimitLs(t *testing.T) {
	w := newWorld(t)
	w.golden("limit_ls_empty", w.run("limit", "ls"))
	l := limits.NewLimiter(w.opt, "mail:api", limits.Limit{Events: 10, Per: time.Hour, Burst: 10})
	for _, key := range []string{"tenant:1", "tenant:2", "tenant:2"} {
		if _, err := l.Allow(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	r := w.run("limit", "ls", "--sort", "key", "-o", "template={{.kind}} {{.scope}} {{.key}} {{.tokens}} {{.next_turn}}")
	if want := "rate mail:api tenant:1 9 <no value>\nrate mail:api tenant:2 8 <no value>\n"; r.out != want || r.code != ExitDone {
		t.Errorf("%+v, want %q", r, want)
	}
	if r := w.run("limit", "ls", "--max-scan", "-1"); r.code != ExitUsage {
		t.Errorf("%+v", r)
	}
	if r := w.run("limit", "ls"); !strings.Contains(r.out, "9 left") || r.code != ExitDone {
		t.Errorf("%+v", r)
	}
}

func TestLockLs(t *testing.T) {
	w := newWorld(t)
	w.golden("lock_ls_empty", w.run("lock", "ls"))
	w.enqueue("email", "1", asynq.Queue("mail"), asynq.TaskID("plain"))
	w.enqueue("email", "2", asynq.Queue("mail"), asynq.TaskID("unique"), asynq.Unique(time.Hour))
	w.enqueue("email", "3", asynq.Queue("low"), asynq.TaskID("keyed"), asynq.UniqueKey("doc-7", 2*time.Hour), asynq.ProcessIn(time.Hour))
	r := w.run("lock", "ls", "--sort", "ttl_seconds", "-o", "template={{.queue}} {{.task_id}} {{.state}} {{.type}}")
	if want := "mail unique pending email\nlow keyed scheduled email\n"; r.out != want || r.code != ExitDone {
		t.Errorf("%+v, want %q", r, want)
	}
	r = w.run("lock", "ls", "-q", "mail")
	if !strings.Contains(r.out, "in 59m") && !strings.Contains(r.out, "in 1h0m0s") || strings.Contains(r.out, "plain") || strings.Contains(r.out, "keyed") {
		t.Errorf("%+v", r)
	}
	if r := w.run("lock", "ls", "--max-scan", "1"); r.code != ExitFailed || !strings.Contains(r.err, "--max-scan reached") {
		t.Errorf("%+v", r)
	}
	if r := w.run("lock", "ls", "-q", "none"); r.code != ExitNotFound {
		t.Errorf("%+v", r)
	}
}
