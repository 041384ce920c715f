package asynq_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

var allStates = []asynq.TaskState{
	asynq.TaskStateScheduled, asynq.TaskStateAggregating, asynq.TaskStatePending, asynq.TaskStateActive, asynq.TaskStateRetry,
	asynq.TaskStateArchived, asynq.TaskStateCompleted,
}

// seedForExport creates tasks in all states except active, with all fields that a task can have.
func seedForExport(env *testenv.Env) {
	env.T.Helper()
	do := func(id string, opts ...asynq.Option) {
		env.T.Helper()
		task := asynq.NewTaskWithHeaders("type:"+id, []byte(id+"\x00\xff\n"), map[string]string{"trace": "tr-" + id, "ü": ""})
		if _, err := env.Client.Enqueue(task, append(opts, asynq.TaskID(id))...); err != nil {
			env.T.Fatal(err)
		}
	}
	do("done", asynq.Retention(time.Hour), asynq.Timeout(time.Minute))
	do("failing", asynq.MaxRetry(7), asynq.Unique(time.Hour))
	ran := make(chan struct{}, 2)
	srv := env.Serve(asynq.Config{
		DisableStats: true, // an export has none
		Concurrency:  1, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }, AttemptLog: 5,
	}, func(_ context.Context, task *asynq.Task) error {
		defer func() { ran <- struct{}{} }()
		if task.Type() == "type:failing" {
			return errors.New("two\nlines")
		}
		_, err := task.ResultWriter().Write([]byte("result\x00"))
		return err
	})
	<-ran
	<-ran
	srv.Shutdown()
	do("pending1", asynq.Deadline(time.Now().Add(time.Hour)))
	do("pending2", asynq.Unique(time.Hour), asynq.MaxRetry(0))
	do("pending3")
	do("later", asynq.ProcessIn(time.Hour), asynq.Unique(time.Minute))
	do("later in group", asynq.ProcessIn(time.Hour), asynq.Group("g"))
	do("grouped1", asynq.Group("g"))
	do("grouped2", asynq.Group("h:x"), asynq.Unique(time.Hour))
	do("old")
	if err := env.Inspector().ArchiveTask("default", "old"); err != nil {
		env.T.Fatal(err)
	}
}

// exportAll exports the default queue, pending tasks oldest first.
func exportAll(env *testenv.Env) (records []*asynq.TaskRecord) {
	env.T.Helper()
	for _, state := range allStates {
		var some []*asynq.TaskRecord
		for r, err := range env.Inspector().ExportTasks(context.Background(), "default", state, asynq.TaskFilter{}) {
			if err != nil {
				env.T.Fatal(err)
			}
			some = append(some, r)
		}
		if state == asynq.TaskStateAggregating { // the order of groups is random
			slices.SortFunc(some, func(a, b *asynq.TaskRecord) int { return strings.Compare(a.ID, b.ID) })
		}
		records = append(records, some...)
	}
	for n, r := range records {
		r.Number = int64(n)
	}
	return records
}

var settledAt = regexp.MustCompile(` settled:\S+?([ \]])`)

// tasksIn returns the keys and values of tasks in Redis.
func tasksIn(env *testenv.Env) map[string]string {
	env.T.Helper()
	keys := env.Snapshot(env.T)
	for key, value := range keys {
		for _, other := range []string{"processed", "failed", "marker", "import:", "groups_due", "groups_swept", "unblock", "asynq:servers", "asynq:workers"} {
			if strings.Contains(key, other) && !strings.Contains(key, "}:t:") {
				delete(keys, key)
			}
		}
		if _, ok := keys[key]; ok {
			keys[key] = settledAt.ReplaceAllString(value, "$1")
		}
	}
	return keys
}

// Exported tasks that are imported again have the same keys and values in Redis.
func TestExportAndImportQueue(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		seedForExport(env)
		exported := time.Now()
		records, want := exportAll(env), tasksIn(env)
		if len(records) != 10 {
			env.T.Fatalf("exported %d tasks", len(records))
		}
		if err := i.DeleteQueue("default", true); err != nil {
			env.T.Fatal(err)
		}
		for range 2 { // the second import has no effect
			errs, err := i.ImportTasks(ctx, "default", asynq.ImportOptions{IdempotencyKey: "x"}, records[:4])
			if err != nil {
				env.T.Fatal(err, errs)
			}
		}
		errs, err := i.ImportTasks(ctx, "default", asynq.ImportOptions{IdempotencyKey: "x"}, records)
		if err != nil {
			env.T.Fatal(err)
		}
		for n, err := range errs {
			if n < 4 && !errors.Is(err, asynq.ErrTaskImported) || n >= 4 && err != nil {
				env.T.Errorf("%s: %v", records[n].ID, err)
			}
		}
		if diff := cmp.Diff(want, tasksIn(env)); diff != "" {
			env.T.Errorf("keys in Redis (-exported +imported):\n%s", diff)
		}
		again := exportAll(env)
		slack := 5 * time.Second
		if env.IsMini() {
			slack += time.Since(exported) // the TTLs of its locks do not elapse
		}
		for n := range again {
			if d := again[n].LockedUntil.Sub(records[n].LockedUntil).Abs(); d > slack {
				env.T.Errorf("%s: locked until %v, before: %v", again[n].ID, again[n].LockedUntil, records[n].LockedUntil)
			}
			again[n].LockedUntil = records[n].LockedUntil
		}
		if diff := cmp.Diff(records, again); diff != "" {
			env.T.Errorf("second export:\n%s", diff)
		}
	})
}

func TestImportTasksRejectsAndReplaces(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("there")
		env.Enqueue("held", asynq.Unique(time.Hour))
		var held *asynq.TaskRecord
		for r, err := range i.ExportTasks(ctx, "default", asynq.TaskStatePending, asynq.TaskFilter{Type: "held"}) {
			if err != nil {
				env.T.Fatal(err)
			}
			held = r
		}
		if held == nil || held.UniqueKey == "" {
			env.T.Fatalf("exported %+v", held)
		}
		task := func(id string, change func(*asynq.TaskRecord)) *asynq.TaskRecord {
			r := &asynq.TaskRecord{ID: id, Type: "new", State: asynq.TaskStateArchived}
			change(r)
			return r
		}
		records := []*asynq.TaskRecord{
			task("there", func(*asynq.TaskRecord) {}),
			task("second holder", func(r *asynq.TaskRecord) { r.UniqueKey, r.LockedUntil = held.UniqueKey, held.LockedUntil }),
			task("active", func(r *asynq.TaskRecord) { r.State = asynq.TaskStateActive }),
			task("grouped", func(r *asynq.TaskRecord) { r.State = asynq.TaskStateAggregating }),
			task("no type", func(r *asynq.TaskRecord) { r.Type = " " }),
			task("", func(*asynq.TaskRecord) {}),
			task("number", func(r *asynq.TaskRecord) { r.Number = -1 }),
			task("state", func(r *asynq.TaskRecord) { r.State = 99 }),
			task("\xff", func(*asynq.TaskRecord) {}),
		}
		for n, r := range records {
			if r.Number == 0 {
				r.Number = int64(n)
			}
		}
		errs, err := i.ImportTasks(ctx, "default", asynq.ImportOptions{IdempotencyKey: "x"}, records)
		if err != nil {
			env.T.Fatal(err)
		}
		for n, err := range errs {
			if err == nil {
				env.T.Errorf("%q was imported", records[n].ID)
			}
		}
		if !errors.Is(errs[0], asynq.ErrTaskIDConflict) || !errors.Is(errs[1], asynq.ErrDuplicateTask) {
			env.T.Errorf("got %v and %v", errs[0], errs[1])
		}
		errs, err = i.ImportTasks(ctx, "default", asynq.ImportOptions{IdempotencyKey: "x", Replace: true}, records[:1])
		if err != nil || errs[0] != nil || env.State("there") != "archived" {
			env.T.Errorf("replace: %v, %v; the task is in state %s", errs, err, env.State("there"))
		}
		if _, err := i.ImportTasks(ctx, "default", asynq.ImportOptions{}, nil); err == nil {
			env.T.Error("accepted an import without an IdempotencyKey")
		}
	})
}

func TestTaskFilterMatchAndScanned(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.EnqueueMany(450)
		calls, last := 0, 0
		filter := asynq.TaskFilter{
			Match:   func(t *asynq.TaskInfo) bool { return strings.HasSuffix(t.ID, "7") },
			Scanned: func(n int) { calls, last = calls+1, n },
		}
		n, err := env.Inspector().DeleteTasks(context.Background(), "default", asynq.TaskStatePending, filter)
		if n != 45 || err != nil || calls < 3 || last != 450 {
			env.T.Errorf("deleted %d tasks, error %v, scanned %d in %d calls", n, err, last, calls)
		}
	})
}
