package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// The states are those that TaskInfo tells, of any number of tasks, and in their order; what is wrong with one leaves the others alone.
func TestTaskStates(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b := context.Background(), r.Broker()
		seedAllStates(t, r)
		r.Client().HSet(ctx, b.Keys("q").Task("odd"), "state", "confused")
		r.Client().Set(ctx, b.Keys("q").Task("text"), "no hash", 0)
		names := []rdb.TaskName{{Queue: "q", ID: "odd"}, {Queue: "q", ID: "text"}, {Queue: "nowhere", ID: "t1"}}
		for i := range 1200 { // in three pipelines
			names = append(names, rdb.TaskName{Queue: "q", ID: fmt.Sprint("t", 1+i%9)})
		}
		states, errs := b.TaskStates(ctx, names)
		if errs[0] == nil || errs[1] == nil || !errors.Is(errs[2], rdb.ErrTaskGone) || errors.Is(errs[0], rdb.ErrTaskGone) || errors.Is(errs[1], rdb.ErrTaskGone) {
			t.Errorf("errors %v", errs[:3])
		}
		want := make(map[string]wire.State)
		for i := range 9 {
			id := fmt.Sprint("t", i+1)
			if info, err := b.TaskInfo(ctx, "q", id); err == nil {
				want[id] = info.State
			}
		}
		if len(want) != 8 {
			t.Fatalf("states of the seed: %v", want)
		}
		for i, name := range names[3:] {
			if got := states[3+i]; got != want[name.ID] || (errs[3+i] == nil) != (got != 0) {
				t.Fatalf("task %s is %v, want %v: %v", name.ID, got, want[name.ID], errs[3+i])
			}
		}
	})
}
