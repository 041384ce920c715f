package ui

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/step"
)

// The page of a task shows its steps and signals, without their values.
func TestTaskShowsSteps(t *testing.T) {
	s := newSite(t)
	suspended := make(chan error, 10)
	srv := asynq.NewServer(s.opt, asynq.Config{Logger: asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))})
	if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		_, err := step.Run(ctx, "charge <1>", func(context.Context) (string, error) { return "secret", nil })
		if err == nil {
			err = step.Sleep(ctx, "nap", 0)
		}
		if err == nil {
			_, err = step.WaitSignal[int](ctx, "early", 0)
		}
		if err == nil {
			_, err = step.WaitSignal[int](ctx, "approved", time.Hour)
		}
		suspended <- err
		return err
	})); err != nil {
		t.Fatal(err)
	}
	client := asynq.NewClient(s.opt)
	t.Cleanup(func() { _ = client.Close() })
	s.enqueue(asynq.NewTask("order", nil), asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	for _, name := range []string{"early", "other"} {
		if err := client.Signal(t.Context(), "default", "x", name, 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.get("/task?queue=default&id=x").text("section", "aria-labelledby", "steps"); got != "Steps early signal other signal" {
		t.Errorf("%q", got)
	}
	inspector := asynq.NewInspector(s.opt)
	t.Cleanup(func() { _ = inspector.Close() })
	if err := inspector.RunTask("default", "x"); err != nil {
		t.Fatal(err)
	}
	if err := <-suspended; !asynq.IsSnooze(err) {
		t.Fatal(err)
	}
	srv.Shutdown()
	a := s.get("/task?queue=default&id=x")
	text := a.text("section", "aria-labelledby", "steps")
	for _, want := range []string{"charge <1> done", "nap slept until", "approved waits for its signal until", "other signal"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("a value is shown: %q", text)
	}
	s.enqueue(asynq.NewTask("order", nil), asynq.TaskID("y"))
	if got := s.get("/task?queue=default&id=y"); len(got.all("section", "aria-labelledby", "steps")) != 0 {
		t.Error("a task without steps shows some")
	}
}
