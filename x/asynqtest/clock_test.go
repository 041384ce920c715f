package asynqtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

func TestTasksBecomeDueExactlyWithTheClock(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t, asynqtest.At(time.Date(2020, 2, 29, 12, 0, 0, 0, time.UTC)))
	for range 2 { // also if the clock is far from the host's
		enqueue(t, b, "a", "", asynq.TaskID("in"), asynq.ProcessIn(time.Hour))
		enqueue(t, b, "a", "", asynq.TaskID("at"), asynq.ProcessAt(b.Now().Add(2*time.Hour)))
		b.Advance(time.Hour - time.Second)
		wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)))
		b.Advance(time.Second)
		wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)), "in")
		b.Advance(time.Hour)
		wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)), "at")
	}
	enqueue(t, b, "a", "", asynq.TaskID("soon"), asynq.ProcessIn(time.Millisecond))
	b.Advance(time.Millisecond)
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)), "soon")
}

func TestFirstAdvanceKnowsTheHostsTime(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	b.SetTime(b.Now()) // moved
	if now := b.Now(); now.Nanosecond() != 0 || time.Until(now) > time.Second || time.Since(now) > time.Minute {
		t.Errorf("the clock starts at %v, the host's is at %v", now, time.Now())
	}
	before := b.Now()
	b.Advance(1500 * time.Millisecond)
	if got := b.Now().Sub(before); got != 2*time.Second {
		t.Errorf("moved by %v, want 2s", got)
	}

	b = asynqtest.Run(t)
	<-time.After(time.Until(b.Now()) + time.Millisecond) // until the host's clock is later than the fixed one; at most a second
	enqueue(t, b, "a", "", asynq.TaskID("x"), asynq.ProcessAt(time.Now().Add(time.Hour)))
	b.Advance(time.Hour)
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)), "x")
}

func TestUniquenessEndsWithTheClock(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	b.SetTime(b.Now())
	task := asynq.NewTask("a", nil, asynq.Unique(time.Hour))
	enqueueUnique := func() error {
		_, err := b.Client().Enqueue(task)
		return err
	}
	if err := enqueueUnique(); err != nil {
		t.Fatal(err)
	}
	b.Advance(time.Hour - time.Second)
	if err := enqueueUnique(); !errors.Is(err, asynq.ErrDuplicateTask) {
		t.Errorf("got %v", err)
	}
	b.Advance(time.Second)
	if err := enqueueUnique(); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestTimeMayGoBack(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	start := b.Now()
	b.Advance(48 * time.Hour)
	b.SetTime(start)
	if !b.Now().Equal(start) {
		t.Errorf("it is %v", b.Now())
	}
	enqueue(t, b, "a", "", asynq.TaskID("x"), asynq.ProcessIn(time.Hour))
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)))
	b.Advance(time.Hour)
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)), "x")
}

func TestAdvanceRefusesToGoBack(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it went back")
		}
	}()
	asynqtest.Run(t).Advance(-1)
}

func TestHandlerMayAdvanceTheClock(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "", asynq.TaskID("1"))
	enqueue(t, b, "a", "", asynq.TaskID("2"))
	enqueue(t, b, "a", "", asynq.TaskID("later"), asynq.ProcessIn(48*time.Hour))
	outcomes := b.Drain(t, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		b.Advance(24 * time.Hour)
		id, _ := asynq.GetTaskID(ctx)
		if info, err := b.Inspector().GetTaskInfo("default", id); err != nil || info.IsOrphaned {
			t.Errorf("the lease has ended: %+v, %v", info, err)
		}
		return ctx.Err()
	}))
	wantIDs(t, outcomes, "1", "2", "later")
	for _, o := range outcomes {
		if o.Err != nil {
			t.Errorf("got %v", o)
		}
	}
}
