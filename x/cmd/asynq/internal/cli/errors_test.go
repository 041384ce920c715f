package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/failures"
)

// seedErrors creates failed tasks: queue "mail" has two kinds of errors, "low" one of them. It
// returns the ID of the kind that both have.
func (w *world) seedErrors() (id string) {
	w.t.Helper()
	at := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	put := func(queue string, n int, state asynq.TaskState, typename, text string) {
		record := &asynq.TaskRecord{
			ID: fmt.Sprint(queue, n), Type: typename, State: state, LastErr: text, LastFailedAt: at.Add(time.Duration(n) * time.Minute),
			At: time.Now().Add(time.Hour), MaxRetry: 5, Retried: 2,
		}
		errs, err := w.inspector.ImportTasks(w.t.Context(), queue, asynq.ImportOptions{IdempotencyKey: record.ID}, []*asynq.TaskRecord{record})
		if err := errors.Join(append(errs, err)...); err != nil {
			w.t.Fatal(err)
		}
	}
	put("mail", 1, asynq.TaskStateRetry, "email:send", "POST https://hooks.example.com/v1/users/17?key=s3cret: 503 Service Unavailable")
	put("mail", 2, asynq.TaskStateArchived, "email:send", "POST https://hooks.example.com/v1/users/4711?key=s3cret: 503 Service Unavailable")
	put("mail", 3, asynq.TaskStateRetry, "email:send", "no such user")
	put("low", 4, asynq.TaskStateRetry, "webhook", "POST https://hooks.example.com/v1/users/99: 503 Service Unavailable")
	return failures.ID(asynq.ErrorKind("POST https://hooks.example.com/v1/users/17: 503 Service Unavailable"))
}

func TestErrors(t *testing.T) {
	w := newWorld(t)
	w.golden("errors_empty", w.run("errors"))
	id := w.seedErrors()
	for name, args := range map[string]string{
		"errors":               "errors",
		"errors_wide":          "errors -o wide",
		"errors_json":          "errors -q low -o json",
		"errors_limit":         "errors --limit 1",
		"errors_filter":        "errors --filter archived=0",
		"errors_filter_none":   "errors --filter archived>9",
		"errors_sort":          "errors --sort kind -o csv",
		"errors_nowhere":       "errors -q nowhere",
		"errors_bad_limit":     "errors --limit -1",
		"errors_max_scan":      "errors --max-scan 2",
		"errors_unknown":       "errors inspct",
		"errors_inspect":       "errors inspect " + id,
		"errors_inspect_yaml":  "errors inspect -q low -o yaml " + id[:5],
		"errors_inspect_wrong": "errors inspect 00 " + id,
		"errors_run_dry":       "errors run --dry-run " + id,
		"errors_run_no":        "errors run " + id,
		"errors_run_unknown":   "errors run -q low --yes 00",
	} {
		w.golden(name, w.run(strings.Fields(args)...))
	}
}

func TestErrorsChange(t *testing.T) {
	w := newWorld(t)
	id := w.seedErrors()
	sizes := func() string {
		text := ""
		for _, queue := range []string{"mail", "low"} {
			q, err := w.inspector.GetQueueInfo(queue)
			if err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprint(queue, q.Pending, q.Retry, q.Archived, " ")
		}
		return strings.TrimSpace(text)
	}
	for _, step := range []struct{ args, want, sizes string }{
		{"errors run --dry-run " + id, "would run 3 tasks (retry, archived)", "mail0 2 1 low0 1 0"},
		{"errors archive -q low --yes " + id, "1 task archived", "mail0 2 1 low0 0 1"},
		{"errors archive -q low --yes " + id, "all tasks with this error are archived", "mail0 2 1 low0 0 1"},
		{"errors run --yes " + id[:6], "requires the whole ID of the kind: " + id, "mail0 2 1 low0 0 1"},
		{"errors run --yes " + id, "3 tasks moved to pending", "mail2 1 0 low1 0 0"},
		{"errors delete --yes " + id, "no retry or archived task has an error", "mail2 1 0 low1 0 0"},
		{"errors delete --yes " + failures.ID("no such user"), "1 task deleted", "mail2 0 0 low1 0 0"},
	} {
		r := w.run(strings.Fields(step.args)...)
		if !strings.Contains(r.err, step.want) || sizes() != step.sizes {
			t.Errorf("%s: %+v, %s; want %q, %s", step.args, r, sizes(), step.want, step.sizes)
		}
	}
}

// Archiving the tasks of an error deletes no older tasks from a full archive without consent.
func TestErrorsArchiveIsFull(t *testing.T) {
	w := newWorld(t)
	w.fillArchive("mail", 0)
	id := w.seedErrors()
	r := w.run("errors", "archive", "--yes", id)
	if r.code != ExitUsage || !strings.Contains(r.err, "--discard-oldest") {
		t.Errorf("got %+v", r)
	}
	if r := w.run("errors", "archive", "--yes", "--discard-oldest", id); r.code != ExitDone || !strings.Contains(r.err, "2 tasks archived, ") {
		t.Errorf("got %+v", r)
	}
}

func TestErrorsCompletion(t *testing.T) {
	w := newWorld(t)
	id := w.seedErrors()
	if r := w.run("__complete", "errors", "run", id[:3]); !strings.HasPrefix(r.out, id+"\n") {
		t.Errorf("got %+v", r)
	}
}

// `errors inspect` counts the failed attempts of the last 24 hours, also those of tasks that failed
// before, if servers have counted them.
func TestErrorsInspectAttempts(t *testing.T) {
	w := newWorld(t)
	w.serveMail([]string{"a", "b"}, func() {
		w.enqueue("failing", "", asynq.Queue("mail"), asynq.MaxRetry(3))
		w.enqueue("also:failing", "", asynq.Queue("mail"), asynq.MaxRetry(0))
	})
	id := failures.ID("dial tcp: i/o timed out")
	for _, queue := range []string{"", "mail"} {
		args := []string{"errors", "inspect", id}
		if queue != "" {
			args = append(args, "-q", queue)
		}
		if r := w.run(args...); !regexp.MustCompile(`Failed attempts: +2 in the last 24 hours, \d+-.*Z to \d+-.*Z\n`).MatchString(r.out) {
			t.Errorf("%q: got %+v", args, r)
		}
	}
	if r := w.run("errors", "inspect", id, "-o", "template={{.failed_attempts_24h.count}}"); r.out != "2\n" {
		t.Errorf("got %+v", r)
	}
}
