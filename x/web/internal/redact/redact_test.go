package redact_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/redact"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func TestRedact(t *testing.T) {
	t.Parallel()
	f := redact.New(func(queue, typename string, data []byte) []byte {
		switch {
		case len(data) == 0:
			t.Error("asked about nothing")
		case typename == "broken":
			panic("no")
		}
		return []byte(strings.ReplaceAll(string(data), "secret", queue))
	}, quiet)
	for _, c := range []struct {
		typename, data, want string
		redacted             bool
	}{
		{"a", "a secret", "a q", true}, {"a", "plain", "plain", false}, {"a", "", "", false}, {"broken", "a secret", "", true},
	} {
		if got, redacted := f.Bytes("q", c.typename, []byte(c.data)); string(got) != c.want || redacted != c.redacted {
			t.Errorf("%+v: %q, redacted: %v", c, got, redacted)
		}
	}
	task := &asynq.TaskInfo{Queue: "q", Type: "a", Payload: []byte("secret"), Result: []byte("secret 2")}
	if seen := f.Task(task); string(seen.Payload) != "q" || string(seen.Result) != "q 2" || string(task.Payload) != "secret" {
		t.Errorf("%+v of %+v", seen, task)
	}
}

func TestWithoutRedactAllIsShown(t *testing.T) {
	t.Parallel()
	f := redact.New(nil, quiet)
	if got, redacted := f.Bytes("q", "a", []byte("b")); f != nil || string(got) != "b" || redacted {
		t.Errorf("%q, redacted: %v", got, redacted)
	}
	if task := (&asynq.TaskInfo{}); f.Task(task) != task {
		t.Error("a task is copied")
	}
}

func TestQueueOf(t *testing.T) {
	t.Parallel()
	task := asynq.NewTask("a", nil, asynq.Queue("of the task"))
	for want, e := range map[string]*asynq.SchedulerEntry{
		"default":     {},
		"of the task": {Task: task, Opts: []asynq.Option{asynq.MaxRetry(1)}},
		"its own":     {Task: task, Opts: []asynq.Option{asynq.Queue("other"), asynq.Queue("its own")}},
	} {
		if got := redact.QueueOf(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
