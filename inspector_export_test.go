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
)

var allStates = []asynq.TaskState{
	asynq.TaskStateScheduled, asynq.TaskStateAggregating, asynq.TaskStatePending, asynq.TaskStateActive, asynq.TaskStateRetry,
	asynq.TaskStateArchived, asynq.TaskStateCompleted,
}

// seedForExport makes tasks in all states but active, with all that a task can have.
func seedForExport(s *site) {
	s.t.Helper()
	do := func(id string, opts ...asynq.Option) {
		s.t.Helper()
		task := asynq.NewTaskWithHeaders("type:"+id, []byte(id+"\x00\xff\n"), map[string]string{"trace": "tr-" + id, "ü": ""})
		if _, err := s.client.Enqueue(task, append(opts, asynq.TaskID(id))...); err != nil {
			s.t.Fatal(err)
		}
	}
	do("done", asynq.Retention(time.Hour), asynq.Timeout(time.Minute))
	do("failing", asynq.MaxRetry(7), asynq.Unique(time.Hour))
	ran := make(chan struct{}, 2)
	srv := s.serve(asynq.Config{
		Concurrency: 1, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	}, func(_ context.Context, task *asynq.Task) error {
		defer func() { ran <- struct{}{} }()
		if task.Type() == "type:failing" {
			return errors.New("out of\nluck")
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
	if err := s.inspector().ArchiveTask("default", "old"); err != nil {
		s.t.Fatal(err)
	}
}

// exportAll exports the default queue, pending tasks the oldest first.
func exportAll(s *site) (records []*asynq.TaskRecord) {
	s.t.Helper()
	for _, state := range allStates {
		var some []*asynq.TaskRecord
		for r, err := range s.inspector().ExportTasks(context.Background(), "default", state, asynq.TaskFilter{}) {
			if err != nil {
				s.t.Fatal(err)
			}
			if state == asynq.TaskStatePending {
				some = append([]*asynq.TaskRecord{r}, some...)
			} else {
				some = append(some, r)
			}
		}
		if state == asynq.TaskStateAggregating { // groups come in any order
			slices.SortFunc(some, func(a, b *asynq.TaskRecord) int { return strings.Compare(a.ID, b.ID) })
		}
		records = append(records, some...)
	}
	for n, r := range records {
		r.Number = int64(n)
	}
	return records
}

var settled = regexp.MustCompile(` settled:\S+?([ \]])`)

// tasksIn is what Redis holds of tasks, key by key.
func tasksIn(s *site) map[string]string {
	s.t.Helper()
	keys := s.Snapshot(s.t)
	for key, value := range keys {
		for _, other := range []string{"processed", "failed", "marker", "import:", "groups_due", "groups_swept", "rouse", "asynq:servers", "asynq:workers"} {
			if strings.Contains(key, other) && !strings.Contains(key, "}:t:") {
				delete(keys, key)
			}
		}
		if _, ok := keys[key]; ok {
			keys[key] = settled.ReplaceAllString(value, "$1")
		}
	}
	return keys
}

// What was exported and is imported again is the same in Redis, key by key.
func TestExportedQueueIsImportedAsItWas(t *testing.T) {
	everywhere(t, func(s *site) {
		ctx, i := context.Background(), s.inspector()
		seedForExport(s)
		exported := time.Now()
		records, want := exportAll(s), tasksIn(s)
		if len(records) != 10 {
			s.t.Fatalf("exported %d tasks", len(records))
		}
		if err := i.DeleteQueue("default", true); err != nil {
			s.t.Fatal(err)
		}
		for range 2 { // the second time nothing changes
			errs, err := i.ImportTasks(ctx, "default", asynq.ImportOptions{Name: "x"}, records[:4])
			if err != nil {
				s.t.Fatal(err, errs)
			}
		}
		errs, err := i.ImportTasks(ctx, "default", asynq.ImportOptions{Name: "x"}, records)
		if err != nil {
			s.t.Fatal(err)
		}
		for n, err := range errs {
			if n < 4 && !errors.Is(err, asynq.ErrTaskImported) || n >= 4 && err != nil {
				s.t.Errorf("%s: %v", records[n].ID, err)
			}
		}
		if diff := cmp.Diff(want, tasksIn(s)); diff != "" {
			s.t.Errorf("in Redis (-exported +imported):\n%s", diff)
		}
		again := exportAll(s)
		slack := 5 * time.Second
		if s.IsMini() {
			slack += time.Since(exported) // time stands still for its locks
		}
		for n := range again {
			if d := again[n].LockedUntil.Sub(records[n].LockedUntil).Abs(); d > slack {
				s.t.Errorf("%s: locked until %v, and was until %v", again[n].ID, again[n].LockedUntil, records[n].LockedUntil)
			}
			again[n].LockedUntil = records[n].LockedUntil
		}
		if diff := cmp.Diff(records, again); diff != "" {
			s.t.Errorf("exported again:\n%s", diff)
		}
	})
}

func TestImportTasksRefusesAndReplaces(t *testing.T) {
	everywhere(t, func(s *site) {
		ctx, i := context.Background(), s.inspector()
		s.enqueue("there")
		s.enqueue("held", asynq.Unique(time.Hour))
		var held *asynq.TaskRecord
		for r, err := range i.ExportTasks(ctx, "default", asynq.TaskStatePending, asynq.TaskFilter{Type: "held"}) {
			if err != nil {
				s.t.Fatal(err)
			}
			held = r
		}
		if held == nil || held.UniqueKey == "" {
			s.t.Fatalf("exported %+v", held)
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
		errs, err := i.ImportTasks(ctx, "default", asynq.ImportOptions{Name: "x"}, records)
		if err != nil {
			s.t.Fatal(err)
		}
		for n, err := range errs {
			if err == nil {
				s.t.Errorf("%q was imported", records[n].ID)
			}
		}
		if !errors.Is(errs[0], asynq.ErrTaskIDConflict) || !errors.Is(errs[1], asynq.ErrDuplicateTask) {
			s.t.Errorf("got %v and %v", errs[0], errs[1])
		}
		errs, err = i.ImportTasks(ctx, "default", asynq.ImportOptions{Name: "x", Replace: true}, records[:1])
		if err != nil || errs[0] != nil || s.state("there") != "archived" {
			s.t.Errorf("replacing: %v, %v; the task is %s", errs, err, s.state("there"))
		}
		if _, err := i.ImportTasks(ctx, "default", asynq.ImportOptions{}, nil); err == nil {
			s.t.Error("an import without a name is accepted")
		}
	})
}

func TestTaskFilterMatchAndLooked(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueueMany(450)
		looked, last := 0, 0
		filter := asynq.TaskFilter{
			Match:  func(t *asynq.TaskInfo) bool { return strings.HasSuffix(t.ID, "7") },
			Looked: func(n int) { looked, last = looked+1, n },
		}
		n, err := s.inspector().DeleteTasks(context.Background(), "default", asynq.TaskStatePending, filter)
		if n != 45 || err != nil || looked < 3 || last != 450 {
			s.t.Errorf("deleted %d, error %v, looked at %d in %d calls", n, err, last, looked)
		}
	})
}
