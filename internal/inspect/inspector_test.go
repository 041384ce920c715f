package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestTaskInfo(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		redistest.SeedStates(t, r)
		states := map[string]wire.State{
			"t1": wire.StatePending, "t2": wire.StateActive, "t3": wire.StateScheduled, "t4": wire.StateRetry,
			"t5": wire.StateArchived, "t6": wire.StateCompleted, "t7": wire.StateAggregating,
		}
		for id, want := range states {
			info, err := in.TaskInfo(ctx, "q", id)
			if err != nil {
				t.Errorf("%s: %v", id, err)
				continue
			}
			if diff := cmp.Diff(redistest.Message("q", id), info.Message); diff != "" {
				t.Errorf("%s (-want +got):\n%s", id, diff)
			}
			waits := want == wire.StateScheduled || want == wire.StateRetry
			if info.State != want || info.Orphaned || info.Result != nil || info.ProcessAt.IsZero() == waits {
				t.Errorf("%s: %+v", id, info)
			}
			if waits && (time.Until(info.ProcessAt) < 50*time.Second || time.Until(info.ProcessAt) > time.Hour) {
				t.Errorf("%s is to be processed at %v", id, info.ProcessAt)
			}
		}
		if err := b.WriteResult(ctx, "q", "t2", "f2", []byte("half")); err != nil {
			t.Error(err)
		}
		redistest.ExpireLeases(t, r, time.Hour, "t2")
		if info, err := in.TaskInfo(ctx, "q", "t2"); err != nil || !info.Orphaned || string(info.Result) != "half" {
			t.Errorf("with a lease that has ended: %+v, error %v", info, err)
		}
		if _, err := in.TaskInfo(ctx, "q", "missing"); !errors.Is(err, script.ErrTaskGone) {
			t.Errorf("of no task: %v", err)
		}
	})
}

func TestTaskInfoOfBrokenTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		redistest.Must(t, r.Client().Set(ctx, "asynq:{q}:t:string", "no task", 0))
		if _, err := in.TaskInfo(ctx, "q", "string"); !errors.Is(err, script.ErrTaskGone) {
			t.Errorf("of another type: %v", err)
		}
		for field, value := range map[string]string{"state": "finished", "msg": "\xff"} {
			r.Enqueue(t, "q", 1)
			redistest.Must(t, r.Client().HSet(ctx, "asynq:{q}:t:t1", field, value))
			if info, err := in.TaskInfo(ctx, "q", "t1"); err == nil {
				t.Errorf("with a broken %s: %+v", field, info)
			}
			redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:t:t1"))
		}
	})
}

func TestQueues(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 1)
		r.Enqueue(t, "r", 1)
		names, err := b.Queues(ctx)
		if slices.Sort(names); err != nil || !slices.Equal(names, []string{"q", "r"}) {
			t.Errorf("queues: %v, error %v", names, err)
		}
		for name, want := range map[string]bool{"q": true, "r": true, "s": false} {
			if got, err := b.QueueExists(ctx, name); got != want || err != nil {
				t.Errorf("%s exists: %v, error %v", name, got, err)
			}
		}
	})
}

func TestPause(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		r.Enqueue(t, "q", 1)
		for i, step := range []struct {
			call func(context.Context, string) (bool, error)
			want bool
			code script.Code
		}{{in.Pause, true, script.CodePaused}, {in.Pause, false, script.CodePaused}, {in.Unpause, true, script.CodeOK}, {in.Unpause, false, script.CodeOK}} {
			got, err := step.call(ctx, "q")
			if got != step.want || err != nil {
				t.Errorf("step %d: %v, error %v", i, got, err)
			}
			if f := redistest.Fetch(t, b, rdb.Fetch{N: 1}); f.Code != step.code {
				t.Errorf("step %d: a fetch gets the code %d", i, f.Code)
			}
		}
	})
}

// TaskStates returns the states that TaskInfo returns, for any number of tasks, in their order. An
// error of one task does not affect the others.
func TestTaskStates(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		redistest.SeedStates(t, r)
		r.Client().HSet(ctx, b.Keys("q").Task("odd"), "state", "confused")
		r.Client().Set(ctx, b.Keys("q").Task("text"), "no hash", 0)
		names := []inspect.TaskName{{Queue: "q", ID: "odd"}, {Queue: "q", ID: "text"}, {Queue: "nowhere", ID: "t1"}}
		for i := range 1200 { // in three pipelines
			names = append(names, inspect.TaskName{Queue: "q", ID: fmt.Sprint("t", 1+i%9)})
		}
		states, errs := in.TaskStates(ctx, names)
		if errs[0] == nil || errs[1] == nil || !errors.Is(errs[2], script.ErrTaskGone) || errors.Is(errs[0], script.ErrTaskGone) || errors.Is(errs[1], script.ErrTaskGone) {
			t.Errorf("errors %v", errs[:3])
		}
		want := make(map[string]wire.State)
		for i := range 9 {
			id := fmt.Sprint("t", i+1)
			if info, err := in.TaskInfo(ctx, "q", id); err == nil {
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
