package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/step"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/acltest"
)

// A worker uses steps, and a producer sends signals, with the additional permissions of
// docs/ACL.md.
func TestACLSteps(t *testing.T) {
	t.Parallel()
	r := acltest.Start(t)
	r.Grant("worker", "names of fields: add `")
	r.Grant("producer", "(`Client.Signal`) needs `")
	client := asynq.NewClient(r.As("producer"))
	observer := asynq.NewInspector(r.As("observer"))
	t.Cleanup(func() { _, _ = client.Close(), observer.Close() })
	suspended, done := make(chan error, 10), make(chan struct{})
	srv := asynq.NewServer(r.As("worker"), asynq.Config{LogLevel: asynq.FatalLevel})
	err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		_, err := step.Run(ctx, "a", func(context.Context) (string, error) { return strings.Repeat("x", 1<<19), nil })
		if err == nil {
			_, err = step.Run(ctx, "b", func(context.Context) (string, error) { return strings.Repeat("y", 1<<19), nil })
		}
		if err == nil {
			err = step.Sleep(ctx, "nap", 0)
		}
		if err == nil {
			_, err = step.WaitSignal[int](ctx, "go", time.Hour)
		}
		if err != nil {
			suspended <- err
			return err
		}
		close(done)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	if _, err := client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("a")); err != nil {
		t.Fatal(err)
	}
	if err := <-suspended; !asynq.IsSnooze(err) {
		t.Fatal(err)
	}
	if steps, err := observer.TaskSteps(t.Context(), "default", "a"); err != nil || len(steps.Steps) != 4 {
		t.Errorf("steps %v, error %v", steps, err)
	}
	for i := range 100 { // so many fields that signals are counted
		name := "go"
		if i < 99 {
			name = strings.Repeat("s", i+1)
		}
		if err := client.Signal(t.Context(), "default", "a", name, i); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-done:
	case err := <-suspended:
		t.Error(err)
	case <-time.After(time.Minute):
		t.Error("the task does not continue")
	}
	for _, entry := range r.Denied() {
		t.Errorf("ACL LOG: %s", entry)
	}
}
