package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// pagesOf returns the IDs on all pages, and how many there are.
func pagesOf(s *site, state asynq.TaskState, filter asynq.TaskFilter, n int) (ids []string, pages int) {
	s.t.Helper()
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		page, err := s.inspector().TasksAfter(context.Background(), "default", state, filter, cursor, n)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(page.Tasks) > n {
			s.t.Errorf("a page of %d has %d tasks", n, len(page.Tasks))
		}
		ids, cursor = append(ids, infoIDs(page.Tasks)...), page.Next
	}
	return ids, pages
}

func TestInspectorTasksAfter(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueueMany(40)
		s.later(700)
		for _, tc := range []struct {
			state   asynq.TaskState
			filter  asynq.TaskFilter
			n       int
			want, p int // tasks, pages
		}{
			{asynq.TaskStatePending, asynq.TaskFilter{}, 7, 40, 6},
			{asynq.TaskStatePending, asynq.TaskFilter{}, 40, 40, 1},
			{asynq.TaskStatePending, asynq.TaskFilter{MaxScan: 11}, 1000, 40, 4},
			{asynq.TaskStateScheduled, asynq.TaskFilter{}, 300, 700, 3},
			{asynq.TaskStateScheduled, asynq.TaskFilter{Type: "later:3"}, 30, 70, 3},
			{asynq.TaskStateScheduled, asynq.TaskFilter{Type: "none", MaxScan: 250}, 30, 0, 4},
			{asynq.TaskStateRetry, asynq.TaskFilter{}, 10, 0, 1},
		} {
			var want []string
			for task, err := range s.inspector().Tasks(context.Background(), "default", tc.state, asynq.TaskFilter{Type: tc.filter.Type}) {
				if err != nil {
					s.t.Fatal(err)
				}
				want = append(want, task.ID)
			}
			got, pages := pagesOf(s, tc.state, tc.filter, tc.n)
			if len(got) != tc.want || !slices.Equal(got, want) || pages != tc.p {
				s.t.Errorf("%v, %d a page: %d pages with %v, want %d with %v", tc.state, tc.n, pages, got, tc.p, want)
			}
		}
	})
}

func TestInspectorTasksAfterRefuses(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueueMany(3)
		i := s.inspector()
		page, err := i.TasksAfter(context.Background(), "default", asynq.TaskStatePending, asynq.TaskFilter{}, "", 1)
		if err != nil || page.Next == "" {
			s.t.Fatal(page, err)
		}
		for _, cursor := range []string{"x", "!", "bnVsbA", "eyJuIjotMX0", "eyJzIjoiKCJ9"} {
			if _, err := i.TasksAfter(context.Background(), "default", asynq.TaskStatePending, asynq.TaskFilter{}, cursor, 1); !errors.Is(err, asynq.ErrCursor) {
				s.t.Errorf("cursor %q: %v", cursor, err)
			}
		}
		if _, err := i.TasksAfter(context.Background(), "default", asynq.TaskStateRetry, asynq.TaskFilter{}, page.Next, 1); !errors.Is(err, asynq.ErrCursor) {
			s.t.Errorf("the cursor of another state: %v", err)
		}
		if _, err := i.TasksAfter(context.Background(), "none", asynq.TaskStateRetry, asynq.TaskFilter{}, "", 1); !errors.Is(err, asynq.ErrQueueNotFound) {
			s.t.Errorf("no such queue: %v", err)
		}
		for _, n := range []int{-1, 0, 1001} {
			if _, err := i.TasksAfter(context.Background(), "default", asynq.TaskStatePending, asynq.TaskFilter{}, "", n); err == nil {
				s.t.Errorf("a page of %d tasks is no error", n)
			}
		}
	})
}

// later schedules n tasks of ten types.
func (s *site) later(n int) {
	s.t.Helper()
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		tasks[i] = asynq.NewTask(fmt.Sprint("later:", i%10), nil, asynq.TaskID(fmt.Sprint("s", i)), asynq.ProcessIn(time.Hour))
	}
	for i, r := range s.client.BatchEnqueueContext(context.Background(), tasks) {
		if r.Err != nil {
			s.t.Fatalf("enqueue of task %d: %v", i, r.Err)
		}
	}
}
