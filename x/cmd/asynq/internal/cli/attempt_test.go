package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// task inspect shows failed attempts and the progress.
func TestTaskInspectAttempts(t *testing.T) {
	w := newWorld(t)
	i := asynq.NewInspector(w.opt)
	defer func() { _ = i.Close() }()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	record := &asynq.TaskRecord{ID: "a", Type: "report", State: asynq.TaskStateArchived, At: at, Attempts: []asynq.AttemptInfo{
		{Ended: at, Kind: asynq.AttemptLeaseExpired, Err: "asynq: task lease expired"},
		{Started: at, Ended: at.Add(1500 * time.Millisecond), Kind: asynq.AttemptFailed, Err: "two\nlines\x1b[31m", Server: "host:17\x1b"},
	}}
	if errs, err := i.ImportTasks(context.Background(), "mail", asynq.ImportOptions{IdempotencyKey: "x"}, []*asynq.TaskRecord{record}); errors.Join(append(errs, err)...) != nil {
		t.Fatal(errs, err)
	}
	w.golden("task_inspect_attempts", w.run("task", "inspect", "-q", "mail", "a"))
	w.golden("task_inspect_attempts_yaml", w.run("task", "inspect", "-q", "mail", "a", "-o", "yaml"))
	exported := w.run("export", "mail")
	if want := `"attempts":[{"started":null,"ended":"2026-01-02T03:04:05.678Z","kind":"lease_expired",`; !strings.Contains(exported.out, want) {
		t.Errorf("the export does not contain %s: %s", want, exported.out)
	}
}

func TestTaskInspectProgress(t *testing.T) {
	w := newWorld(t)
	w.serveMail([]string{"a"}, func() {
		client := asynq.NewClient(w.opt)
		defer func() { _ = client.Close() }()
		if _, err := client.Enqueue(asynq.NewTask("progress", nil), asynq.Queue("mail"), asynq.TaskID("a"), asynq.Retention(time.Hour)); err != nil {
			t.Error(err)
		}
	})
	var row struct{ Progress *progressRow }
	r := w.run("task", "inspect", "-q", "mail", "a", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &row); err != nil || row.Progress == nil || row.Progress.Fraction != 0.25 || row.Progress.Note != "1 of 4" {
		t.Errorf("%v: %+v", err, r)
	}
	if r := w.run("task", "inspect", "-q", "mail", "a"); !strings.Contains(r.out, "Progress:      [#####---------------] 25%, 1 of 4 (20") {
		t.Errorf("%+v", r)
	}
}

func TestProgressText(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for fraction, want := range map[float64]string{
		0: "[--------------------] 0%", 0.049: "[--------------------] 4%", 0.999: "[###################-] 99%", 1: "[####################] 100%",
	} {
		if got := progressText(&asynq.TaskProgress{Fraction: fraction, At: at}); got != want+" (2026-01-02 03:04:05Z)" {
			t.Errorf("%v: %q", fraction, got)
		}
	}
}
