package asynqtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/step"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// A task that sleeps for a day or waits for a signal holds no slot: other tasks run on the only
// one. It continues when the clock has moved, or when the signal comes.
func TestDrainOfSteps(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	charges := 0
	handler := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if task.Type() == "other" {
			return nil
		}
		_, err := step.Run(ctx, "charge", func(context.Context) (int, error) { charges++; return charges, nil })
		if err != nil {
			return err
		}
		if err := step.Sleep(ctx, "cool-off", 24*time.Hour); err != nil {
			return err
		}
		if ok, err := step.WaitSignal[bool](ctx, "approved", 72*time.Hour); err != nil || ok {
			return err
		}
		return errors.New("rejected")
	})
	enqueue(t, b, "order", "", asynq.TaskID("o"), asynq.MaxRetry(0))
	enqueue(t, b, "order", "", asynq.TaskID("late"), asynq.MaxRetry(0))
	enqueue(t, b, "other", "", asynq.TaskID("1"))
	wantIDs(t, b.Drain(t, handler), "o", "late", "1")
	b.Advance(24*time.Hour - 2*time.Second)
	enqueue(t, b, "other", "", asynq.TaskID("2"))
	wantIDs(t, b.Drain(t, handler), "2")
	b.Advance(2 * time.Second)
	for _, o := range b.Drain(t, handler) {
		if o.State != asynq.TaskStateRetry || !asynq.IsSnooze(o.Err) || o.Attempt != 1 {
			t.Errorf("%v", o)
		}
	}
	if err := b.Client().Signal(context.Background(), "default", "o", "approved", true); err != nil {
		t.Fatal(err)
	}
	if got := b.Drain(t, handler); len(got) != 1 || got[0].ID != "o" || got[0].Err != nil {
		t.Errorf("after the signal: %v", got)
	}
	b.Advance(72 * time.Hour)
	if got := b.Drain(t, handler); len(got) != 1 || got[0].State != asynq.TaskStateArchived || !errors.Is(got[0].Err, step.ErrSignalTimeout) {
		t.Errorf("after the timeout: %v", got)
	}
	if charges != 2 {
		t.Errorf("%d charges", charges)
	}
}
