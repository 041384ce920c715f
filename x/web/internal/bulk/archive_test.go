package bulk_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
)

// fill leaves this much room in the archive of the default queue, which then has no other tasks.
func (s *site) fill(room int) {
	s.t.Helper()
	var tasks []*asynq.Task
	for i := range asynq.ArchiveMaxTasks - room {
		tasks = append(tasks, asynq.NewTask("old", nil, asynq.TaskID(fmt.Sprint("old", i))))
	}
	for _, r := range s.client.BatchEnqueueContext(context.Background(), tasks) {
		if r.Err != nil {
			s.t.Fatal(r.Err)
		}
	}
	done, err := s.inspector.ArchiveTasks(s.t.Context(), "default", asynq.TaskStatePending, asynq.TaskFilter{})
	if err != nil || done.Archived != len(tasks) || done.Discarded != 0 {
		s.t.Fatal(done, err)
	}
}

// Without consent, nothing is deleted from a full archive: tasks without room are left unchanged.
func TestFullArchiveKeepsItsTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.fill(3)
	s.enqueue(5)
	if n, err := s.Discards(t.Context(), "default", 5); n != 2 || err != nil {
		t.Errorf("%d would be deleted, %v", n, err)
	}
	if n, err := s.Discards(t.Context(), "none", 5); n != 0 || err != nil {
		t.Errorf("of a queue that is not there: %d, %v", n, err)
	}
	holds := func(pending, archived int) {
		t.Helper()
		info, err := s.inspector.GetQueueInfo("default")
		if err != nil || info.Pending != pending || info.Archived != archived {
			t.Fatalf("%d pending, %d archived, %v: want %d, %d", info.Pending, info.Archived, err, pending, archived)
		}
	}
	op := s.run(bulk.Spec{Kind: bulk.Archive, Queue: "default", State: "pending"})
	if op.Status != bulk.Failed || op.Changed != 3 || op.Discarded != 0 || !strings.Contains(op.Err, "archive is full") {
		t.Errorf("%+v", op)
	}
	holds(2, 10_000)
	op = s.run(bulk.Spec{Kind: bulk.Archive, Queue: "default", IDs: []string{"t0", "t1", "t2", "t3", "t4"}})
	if op.Changed != 0 || op.Failed != 5 || op.Discarded != 0 {
		t.Errorf("%+v", op)
	}
	holds(2, 10_000)
	op = s.run(bulk.Spec{Kind: bulk.Archive, Queue: "default", State: "pending", Filter: "type:even", DiscardOldest: true})
	if op.Status != bulk.Done || op.Changed+op.Failed > 2 || op.Discarded != op.Changed {
		t.Errorf("%+v", op)
	}
	for _, id := range []string{"t0", "t1", "t2", "t3", "t4"} {
		if info, err := s.inspector.GetTaskInfo("default", id); err == nil && info.State == asynq.TaskStatePending {
			op = s.run(bulk.Spec{Kind: bulk.Archive, Queue: "default", IDs: []string{id}, DiscardOldest: true})
			if op.Changed != 1 || op.Discarded != 1 {
				t.Errorf("%s: %+v", id, op)
			}
		}
	}
	holds(0, 10_000)
}
