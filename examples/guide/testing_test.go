package guide_test

import (
	"context"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/examples/guide"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// The test needs no Redis server and does not sleep.
func TestReminder(t *testing.T) {
	b := asynqtest.Run(t)

	if _, err := guide.Remind(t.Context(), b.Client(), b.Now().Add(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.AssertEnqueued(t, asynqtest.Task{Type: "email:reminder", State: asynq.TaskStateScheduled})

	send := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	if ran := b.Drain(t, send); len(ran) != 0 {
		t.Errorf("ran early: %v", ran)
	}
	b.Advance(24 * time.Hour)
	if ran := b.Drain(t, send); len(ran) != 1 || ran[0].Err != nil {
		t.Errorf("ran %v, want one reminder", ran)
	}
}
