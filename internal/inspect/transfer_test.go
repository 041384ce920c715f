package inspect_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// stored returns tasks of queue q in every state that can be imported.
func stored(t *testing.T, now time.Time) []*inspect.StoredTask {
	t.Helper()
	var tasks []*inspect.StoredTask
	for n, state := range []wire.State{
		wire.StatePending, wire.StatePending, wire.StateScheduled, wire.StateRetry, wire.StateArchived, wire.StateCompleted, wire.StateAggregating,
	} {
		id := fmt.Sprintf("%v%d", state, n)
		task := &inspect.StoredTask{ID: id, State: state, Message: redistest.Encode(t, redistest.Message("q", id))}
		switch state {
		case wire.StatePending:
			task.PendingSince = fmt.Sprint(now.Add(time.Duration(n) * time.Nanosecond).UnixNano())
		case wire.StateAggregating:
			task.Group = "g"
			fallthrough
		default:
			task.Score = fmt.Sprint(now.Unix() + int64(n))
		}
		if n%2 == 1 {
			task.UniqueKey = "asynq:{q}:unique:test:" + id
			task.LockedUntil = now.Add(time.Hour).Truncate(time.Second)
			task.Result = []byte("result of " + id)
			task.Log = []byte("log:3\n{log of " + id + "}")
		}
		tasks = append(tasks, task)
	}
	return tasks
}

func importIDs(tasks []*inspect.StoredTask) (ids []string, numbers []int64) {
	for n, task := range tasks {
		ids, numbers = append(ids, task.ID), append(numbers, int64(n))
	}
	return ids, numbers
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		want := stored(t, time.Now())
		ids, numbers := importIDs(want)
		importAll := func(name string, replace bool) []script.Code {
			t.Helper()
			codes, err := in.ImportTasks(ctx, "q", name, replace, numbers, want)
			noError(t, err)
			return codes
		}
		same := func() {
			t.Helper()
			got, err := in.ExportTasks(ctx, "q", ids)
			noError(t, err)
			for n := range got {
				if d := got[n].LockedUntil.Sub(want[n].LockedUntil).Abs(); d > time.Minute {
					t.Errorf("%s: locked until %v, want %v", ids[n], got[n].LockedUntil, want[n].LockedUntil)
				}
				got[n].LockedUntil = want[n].LockedUntil
				if len(got[n].Result) == 0 {
					got[n].Result = nil
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
		all := func(code script.Code) []script.Code { return slices.Repeat([]script.Code{code}, len(want)) }

		if got := importAll("a", false); !slices.Equal(got, all(script.CodeOK)) {
			t.Errorf("got %v", got)
		}
		same()
		if got := importAll("a", false); !slices.Equal(got, all(script.CodeAlready)) {
			t.Errorf("repeated: %v", got)
		}
		if got := importAll("b", false); !slices.Equal(got, all(script.CodeConflict)) {
			t.Errorf("another import: %v", got)
		}
		if got := importAll("c", true); !slices.Equal(got, all(script.CodeOK)) {
			t.Errorf("replacing: %v", got)
		}
		same()

		// Repeating the import does not create tasks again that ran and are gone. This is its
		// purpose.
		codes, err := apply(b, inspect.Delete, ids...)
		if noError(t, err); codes[0] != script.CodeOK {
			t.Fatalf("delete: %v", codes)
		}
		if got := importAll("a", false); !slices.Equal(got, all(script.CodeAlready)) {
			t.Errorf("after the tasks are gone: %v", got)
		}
		if got, err := in.ExportTasks(ctx, "q", ids); err != nil || slices.ContainsFunc(got, func(t *inspect.StoredTask) bool { return t != nil }) {
			t.Errorf("a task came back: %v, error %v", got, err)
		}
	})
}

func TestImportTasksRefuses(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		seedChanges(t, r)
		task := func(id string) *inspect.StoredTask {
			return &inspect.StoredTask{ID: id, State: wire.StatePending, Message: redistest.Encode(t, redistest.Message("q", id))}
		}
		locked := task("locked")
		locked.UniqueKey, locked.LockedUntil = "asynq:{q}:unique:test:scheduled", time.Now().Add(time.Hour)
		ended := task("ended")
		ended.UniqueKey, ended.LockedUntil = locked.UniqueKey, time.Now().Add(-time.Hour)
		foreign := task("foreign")
		foreign.UniqueKey, foreign.LockedUntil = "elsewhere", time.Now().Add(time.Hour)
		tasks := []*inspect.StoredTask{locked, ended, foreign, task("active"), task("stagedG"), task("new"), task("new")}
		_, numbers := importIDs(tasks)
		codes, err := inspect.New(b).ImportTasks(ctx, "q", "x", true, numbers, tasks)
		want := []script.Code{
			script.CodeDuplicate, script.CodeOK, script.CodeOK, script.CodeActive, script.CodeStaged, script.CodeOK, script.CodeConflict,
		}
		if err != nil || !slices.Equal(codes, want) {
			t.Errorf("got %v, want %v, error %v", codes, want, err)
		}
		if r.Client().Exists(ctx, "elsewhere").Val() != 0 {
			t.Error("a lock was taken that is not the queue's")
		}
	})
}

// 700 tasks are imported in calls of 250, in their order.
func TestImportTasksOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		var tasks []*inspect.StoredTask
		for n := range 700 {
			id := fmt.Sprintf("t%03d", n)
			tasks = append(tasks, &inspect.StoredTask{ID: id, State: wire.StatePending, Message: redistest.Encode(t, redistest.Message("q", id))})
		}
		ids, numbers := importIDs(tasks)
		_, err := inspect.New(b).ImportTasks(ctx, "q", "x", false, numbers, tasks)
		noError(t, err)
		slices.Reverse(ids)
		if got := r.Client().LRange(ctx, b.Keys("q").Pending(), 0, -1).Val(); !slices.Equal(got, ids) {
			t.Errorf("got %v", got)
		}
	})
}
