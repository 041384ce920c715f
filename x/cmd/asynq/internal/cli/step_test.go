package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/step"
)

// task inspect shows the steps of a task, its signals, and what it waits for.
func TestTaskInspectSteps(t *testing.T) {
	w := newWorld(t)
	client := asynq.NewClient(w.opt)
	defer func() { _ = client.Close() }()
	suspended := make(chan error, 10)
	srv := asynq.NewServer(w.opt, asynq.Config{Queues: map[string]int{"mail": 1}, LogLevel: asynq.FatalLevel})
	if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		_, err := step.Run(ctx, "charge", func(context.Context) (map[string]string, error) {
			return map[string]string{"id": "c1", "note": strings.Repeat("x", 300)}, nil
		})
		if err == nil {
			err = step.Sleep(ctx, "nap", 0)
		}
		if err == nil {
			_, err = step.WaitSignal[int](ctx, "approved", time.Hour)
		}
		suspended <- err
		return err
	})); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Enqueue(asynq.NewTask("order", nil), asynq.Queue("mail"), asynq.TaskID("a")); err != nil {
		t.Fatal(err)
	}
	if err := <-suspended; !asynq.IsSnooze(err) {
		t.Fatal(err)
	}
	srv.Shutdown()
	if err := client.Signal(context.Background(), "mail", "a", "other", "early\x1b"); err != nil {
		t.Fatal(err)
	}
	r := w.run("task", "inspect", "-q", "mail", "a")
	for _, want := range []string{
		"Awaits signal: approved\n", "Steps (3):\n", "Z  charge: {\"id\":\"c1\",\"note\":\"xxx", "xxx… (321 B)\n", "Z  nap: slept until 2",
		"Z  approved: waits for its signal until 2", "Signals (1):\n  other: \"early\\u001b\"\n",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	var row struct {
		Steps   []stepRow
		Signals []signalRow
		Awaits  string
	}
	r = w.run("task", "inspect", "-q", "mail", "a", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &row); err != nil || len(row.Steps) != 3 || len(row.Signals) != 1 || row.Awaits != "approved" {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestStepText(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, s := range map[string]asynq.TaskStep{
		"sleeps until 2026-01-02 03:04:06Z": {Kind: asynq.StepSleep, Until: at.Add(time.Second)},
		"slept until 2026-01-02 03:04:05Z":  {Kind: asynq.StepSleep, Until: at},
		"timed out at 2026-01-02 03:04:05Z": {Kind: asynq.StepTimeout, Until: at},
		"later":                             {Kind: "later"},
	} {
		if got := stepText(s, false, at); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := stepText(asynq.TaskStep{Kind: asynq.StepWait}, true, at); got != "has its signal" {
		t.Errorf("%q", got)
	}
}
