package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// stored are tasks of queue q in every state that they can be imported in.
func stored(t *testing.T, now time.Time) []*rdb.StoredTask {
	t.Helper()
	var tasks []*rdb.StoredTask
	for n, state := range []wire.State{
		wire.StatePending, wire.StatePending, wire.StateScheduled, wire.StateRetry, wire.StateArchived, wire.StateCompleted, wire.StateAggregating,
	} {
		id := fmt.Sprintf("%v%d", state, n)
		task := &rdb.StoredTask{ID: id, State: state, Message: redistest.Encode(t, redistest.Message("q", id))}
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
		}
		tasks = append(tasks, task)
	}
	return tasks
}

func importIDs(tasks []*rdb.StoredTask) (ids []string, numbers []int64) {
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
		want := stored(t, time.Now())
		ids, numbers := importIDs(want)
		importAll := func(name string, replace bool) []rdb.Code {
			t.Helper()
			codes, err := b.ImportTasks(ctx, "q", name, replace, numbers, want)
			noError(t, err)
			return codes
		}
		same := func() {
			t.Helper()
			got, err := b.ExportTasks(ctx, "q", ids)
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
		all := func(code rdb.Code) []rdb.Code { return slices.Repeat([]rdb.Code{code}, len(want)) }

		if got := importAll("a", false); !slices.Equal(got, all(rdb.CodeOK)) {
			t.Errorf("got %v", got)
		}
		same()
		if got := importAll("a", false); !slices.Equal(got, all(rdb.CodeAlready)) {
			t.Errorf("repeated: %v", got)
		}
		if got := importAll("b", false); !slices.Equal(got, all(rdb.CodeConflict)) {
			t.Errorf("another import: %v", got)
		}
		if got := importAll("c", true); !slices.Equal(got, all(rdb.CodeOK)) {
			t.Errorf("replacing: %v", got)
		}
		same()

		// What ran and is gone does not come back with the same import. That is the point of it.
		codes, err := b.DeleteTasks(ctx, "q", ids)
		if noError(t, err); codes[0] != rdb.CodeOK {
			t.Fatalf("delete: %v", codes)
		}
		if got := importAll("a", false); !slices.Equal(got, all(rdb.CodeAlready)) {
			t.Errorf("after the tasks are gone: %v", got)
		}
		if got, err := b.ExportTasks(ctx, "q", ids); err != nil || slices.ContainsFunc(got, func(t *rdb.StoredTask) bool { return t != nil }) {
			t.Errorf("a task came back: %v, error %v", got, err)
		}
	})
}

func TestImportTasksRefuses(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		seedChanges(t, r)
		task := func(id string) *rdb.StoredTask {
			return &rdb.StoredTask{ID: id, State: wire.StatePending, Message: redistest.Encode(t, redistest.Message("q", id))}
		}
		locked := task("locked")
		locked.UniqueKey, locked.LockedUntil = "asynq:{q}:unique:test:scheduled", time.Now().Add(time.Hour)
		ended := task("ended")
		ended.UniqueKey, ended.LockedUntil = locked.UniqueKey, time.Now().Add(-time.Hour)
		foreign := task("foreign")
		foreign.UniqueKey, foreign.LockedUntil = "elsewhere", time.Now().Add(time.Hour)
		tasks := []*rdb.StoredTask{locked, ended, foreign, task("active"), task("stagedG"), task("new"), task("new")}
		_, numbers := importIDs(tasks)
		codes, err := b.ImportTasks(ctx, "q", "x", true, numbers, tasks)
		want := []rdb.Code{
			rdb.CodeDuplicate, rdb.CodeOK, rdb.CodeOK, rdb.CodeActive, rdb.CodeStaged, rdb.CodeOK, rdb.CodeConflict,
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
		var tasks []*rdb.StoredTask
		for n := range 700 {
			id := fmt.Sprintf("t%03d", n)
			tasks = append(tasks, &rdb.StoredTask{ID: id, State: wire.StatePending, Message: redistest.Encode(t, redistest.Message("q", id))})
		}
		ids, numbers := importIDs(tasks)
		_, err := b.ImportTasks(ctx, "q", "x", false, numbers, tasks)
		noError(t, err)
		slices.Reverse(ids)
		if got := r.Client().LRange(ctx, b.Keys("q").Pending(), 0, -1).Val(); !slices.Equal(got, ids) {
			t.Errorf("got %v", got)
		}
	})
}
