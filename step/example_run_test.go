package step_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// The code of the examples does what the documents say.
func TestExamples(t *testing.T) {
	t.Parallel()
	b, ctx := asynqtest.Run(t), context.Background()
	var log []string
	orders := &Orders{
		Pay: func(_ context.Context, key string) (Charge, error) {
			log = append(log, "pay "+key)
			return Charge{ID: "c1", Amount: 7}, nil
		},
		Ship: func(_ context.Context, c Charge, a Approval) error {
			log = append(log, "ship "+c.ID+" "+a.By)
			return nil
		},
		Stop: func(_ context.Context, c Charge) error {
			log = append(log, "stop "+c.ID)
			return nil
		},
	}
	for _, id := range []string{"o1", "o2"} {
		if _, err := b.Client().Enqueue(asynq.NewTask("order", nil), asynq.TaskID(id)); err != nil {
			t.Fatal(err)
		}
	}
	b.Drain(t, orders)
	b.Advance(24 * time.Hour)
	b.Drain(t, orders)
	if err := Approve(ctx, b.Client(), "o1", "ann"); err != nil {
		t.Error(err)
	}
	b.Drain(t, orders)
	if err := Approve(ctx, b.Client(), "o1", "ann"); err == nil {
		t.Error("approved a closed order")
	}
	b.Advance(72 * time.Hour)
	b.Drain(t, orders)

	failed := false
	if _, err := b.Client().Enqueue(asynq.NewTask("import", nil)); err != nil {
		t.Fatal(err)
	}
	b.Drain(t, Pages(func(_ context.Context, page int) (int, error) {
		if page == 2 && !failed {
			failed = true
			return 0, errors.New("timeout")
		}
		log = append(log, "page "+string(rune('0'+page)))
		return 3 - page, nil
	}))
	want := []string{"pay o1/charge", "pay o2/charge", "ship c1 ann", "stop c1", "page 1", "page 2", "page 3"}
	if len(log) != len(want) {
		t.Fatalf("%q, want %q", log, want)
	}
	for i := range want {
		if log[i] != want[i] {
			t.Errorf("%q, want %q", log, want)
		}
	}
}
