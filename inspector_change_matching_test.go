package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestInspectorChangesMatchingTasks(t *testing.T) {
	type change = func(*asynq.Inspector, context.Context, string, asynq.TaskState, asynq.TaskFilter) (int, error)
	for name, tc := range map[string]struct {
		change change
		to     string // the state afterwards; empty: gone
	}{
		"run":     {(*asynq.Inspector).RunTasks, "pending"},
		"archive": {(*asynq.Inspector).ArchiveTasks, "archived"},
		"delete":  {(*asynq.Inspector).DeleteTasks, ""},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				const n = 600
				var tasks []*asynq.Task
				for i := range 2 * n {
					typ, id := []string{"mail:a", "image:b"}[i%2], fmt.Sprintf("t%04d", i)
					tasks = append(tasks, asynq.NewTask(typ, fmt.Append(nil, i), asynq.TaskID(id), asynq.ProcessIn(time.Hour), asynq.Unique(time.Hour)))
				}
				for _, result := range s.client.BatchEnqueueContext(context.Background(), tasks) {
					if result.Err != nil {
						s.t.Fatal(result.Err)
					}
				}
				i := s.inspector()
				filter := asynq.TaskFilter{Type: "mail:*"}
				got, err := tc.change(i, context.Background(), "default", asynq.TaskStateScheduled, asynq.TaskFilter{Type: "mail:*", MaxScan: 100})
				if got != 50 || !errors.Is(err, asynq.ErrScanLimit) {
					s.t.Errorf("with a bound: %d tasks, error %v", got, err)
				}
				if got, err := tc.change(i, context.Background(), "default", asynq.TaskStateScheduled, filter); got != n-50 || err != nil {
					s.t.Errorf("%d tasks, error %v; want %d", got, err, n-50)
				}
				if got, err := tc.change(i, context.Background(), "default", asynq.TaskStateScheduled, filter); got != 0 || err != nil {
					s.t.Errorf("once more: %d tasks, error %v", got, err)
				}
				for _, task := range []struct{ id, want string }{{"t0000", tc.to}, {"t1198", tc.to}, {"t0001", "scheduled"}, {"t1199", "scheduled"}} {
					if state := s.state(task.id); state != task.want {
						s.t.Errorf("%s is %q, want %q", task.id, state, task.want)
					}
				}
				if _, err := tc.change(i, context.Background(), "default", asynq.TaskStateActive, asynq.TaskFilter{}); err == nil {
					s.t.Error("a change of active tasks is accepted")
				}
				if _, err := tc.change(i, context.Background(), "nowhere", asynq.TaskStateScheduled, filter); !errors.Is(err, asynq.ErrQueueNotFound) {
					s.t.Errorf("no such queue: %v", err)
				}
			})
		})
	}
}
