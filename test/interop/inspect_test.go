package interop

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

var states = []string{"pending", "active", "scheduled", "retry", "archived", "completed", "aggregating"}

// makeAll creates two tasks in each state with a library, with IDs of the state and 1 or 2. Its
// server keeps running.
func makeAll(s *env, l side.Library) {
	s.Helper()
	client, inspector := s.client(l), s.inspector(l)
	s.serve(l, side.Config{RetryDelay: time.Hour}, func(ctx context.Context, j *side.Job) error {
		switch {
		case j.Type == "active":
			<-ctx.Done()
			return errors.New("canceled")
		case (j.Type == "retry" || j.Type == "archived") && j.Retried == 0:
			return errors.New("failed")
		}
		return j.WriteResult([]byte("result of " + j.ID))
	})
	deadline := time.Now().Add(24 * time.Hour)
	both := func(state string, task side.Task) {
		for _, n := range []string{"1", "2"} {
			task.Type, task.ID = state, state+n
			task.Payload, task.Headers = []byte("payload "+n), map[string]string{"n": n}
			s.enqueue(client, task)
		}
		for _, n := range []string{"1", "2"} {
			s.await(inspector, state+n, state)
		}
	}
	both("active", side.Task{})
	both("retry", side.Task{MaxRetry: 3, Unique: time.Hour})
	both("archived", side.Task{MaxRetry: -1, Timeout: time.Minute})
	both("completed", side.Task{Retention: time.Hour, Deadline: deadline})
	both("scheduled", side.Task{ProcessIn: time.Hour})
	both("aggregating", side.Task{Group: "g"})
	s.must(inspector.Pause("default"))
	// A server that is fetching during the pause may take one more task.
	proctest.Eventually(s, "a task to stay pending", func() bool {
		info := s.enqueue(client, side.Task{Type: "probe", Timeout: time.Minute})
		time.Sleep(100 * time.Millisecond)
		_, err := inspector.Task("default", info.ID)
		if err != nil {
			return false
		}
		s.must(inspector.Delete("default", info.ID))
		return true
	})
	both("pending", side.Task{Unique: time.Hour})
}

// TestInspectorsAgree verifies that both inspectors return the same information.
func TestInspectorsAgree(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		makeAll(s, a)
		mine, other := s.inspector(a), s.inspector(b)
		same := func(what string, f func(i side.Inspector) (any, error)) {
			s.Helper()
			x, err := f(mine)
			s.must(err)
			y, err := f(other)
			s.must(err)
			if diff := cmp.Diff(x, y); diff != "" {
				s.Errorf("%s (-%s +%s):\n%s", what, a.Name(), b.Name(), diff)
			}
		}
		for _, state := range states {
			same("list of "+state, func(i side.Inspector) (any, error) {
				tasks, err := i.List("default", state, "g")
				if err == nil && len(tasks) != 2 {
					s.Errorf("%d tasks are %s", len(tasks), state)
				}
				for _, task := range tasks {
					if task.State == "pending" {
						task.NextProcessAt = time.Time{} // set to the current time
					}
				}
				// The reference documents that it lists the newest archived and completed tasks
				// first, but lists them last.
				slices.SortFunc(tasks, func(x, y *side.Info) int { return strings.Compare(x.ID, y.ID) })
				return tasks, err
			})
			same("task "+state, func(i side.Inspector) (any, error) {
				info, err := i.Task("default", state+"1")
				if err == nil && state == "pending" {
					info.NextProcessAt = time.Time{} // set to the current time
				}
				return info, err
			})
		}
		same("queue", func(i side.Inspector) (any, error) { return i.Queue("default") })
		same("queues", func(i side.Inspector) (any, error) { return i.Queues() })
		same("groups", func(i side.Inspector) (any, error) { return i.Groups("default") })
		same("history", func(i side.Inspector) (any, error) { return i.History("default", 3) })
		proctest.Eventually(s, "the server to publish its workers", func() bool {
			servers, err := other.Servers()
			return err == nil && len(servers) == 1 && len(servers[0].Workers) == 2
		})
		same("servers", func(i side.Inspector) (any, error) {
			servers, err := i.Servers()
			if err == nil && (len(servers) != 1 || servers[0].PID != os.Getpid() || servers[0].Workers["active1"] != "active" || servers[0].Status != "active") {
				s.Errorf("servers: %+v", servers)
			}
			return servers, err
		})
		s.must(other.Cancel("active1"))
		s.must(other.Cancel("active2"))
		s.await(other, "active1", "retry")
	})
}

// TestInspectorChangesTasks verifies that one library can run, archive, delete and
// cancel tasks of the other.
func TestInspectorChangesTasks(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		makeAll(s, a)
		mine, other := s.inspector(a), s.inspector(b)
		becomes := func(id, state string) {
			s.Helper()
			if info := s.task(mine, id); info.State != state {
				s.Errorf("task %s is %s, not %s", id, info.State, state)
			}
		}
		for _, id := range []string{"retry1", "archived1", "scheduled1", "aggregating1"} {
			s.must(other.Run("default", id))
			becomes(id, "pending")
		}
		for _, id := range []string{"retry2", "scheduled2", "pending2"} {
			s.must(other.Archive("default", id))
			becomes(id, "archived")
		}
		for _, id := range []string{"completed1", "archived2", "aggregating2"} {
			s.must(other.Delete("default", id))
			if _, err := mine.Task("default", id); !errors.Is(err, a.Errors().TaskNotFound) {
				s.Errorf("the deleted task %s: %v", id, err)
			}
		}
		for _, id := range []string{"active1", "no such task"} {
			if err := other.Delete("default", id); err == nil {
				s.Errorf("deleted %s", id)
			}
		}
		if groups, err := mine.Groups("default"); err != nil || len(groups) != 0 {
			s.Errorf("groups: %v, %v", groups, err)
		}
		if n, err := other.RunAll("default", "archived", ""); err != nil || n != 3 {
			s.Errorf("ran %d archived tasks, %v", n, err)
		}
		if n, err := other.DeleteAll("default", "completed", ""); err != nil || n != 1 {
			s.Errorf("deleted %d completed tasks, %v", n, err)
		}
		if err := other.DeleteQueue("default", false); !errors.Is(err, b.Errors().QueueNotEmpty) {
			s.Errorf("deleted the queue: %v", err)
		}
		before, err := mine.Queue("default")
		s.must(err)
		if before.Pending != 8 || !before.Paused {
			s.Errorf("queue: %+v", before)
		}
		// Now the server of the same library processes them.
		s.must(other.Unpause("default"))
		s.must(other.Cancel("active1"))
		s.await(mine, "active1", "retry")
		s.must(other.Cancel("active2"))
		s.await(mine, "active2", "retry")
		proctest.Eventually(s, "all to be done", func() bool {
			q, err := mine.Queue("default")
			s.must(err)
			return q.Pending == 0 && q.Active == 0
		})
		after, err := other.Queue("default")
		s.must(err)
		if want := before.Processed + 8 + 2; after.Processed != want || after.Retry != 2 || after.Archived != 1 { // archived1 failed again
			s.Errorf("queue: %+v, processed not %d", after, want)
		}
		s.must(other.DeleteQueue("default", true))
		if _, err := mine.Task("default", "retry2"); !errors.Is(err, a.Errors().QueueNotFound) {
			s.Errorf("a task of the deleted queue: %v", err)
		}
	})
}

// TestSchedulers verifies that the other library lists scheduler entries and
// enqueue events, and runs the tasks.
func TestSchedulers(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		jobs := make(chan *side.Job, 100)
		s.serve(b, side.Config{Queues: []string{"periodic"}}, handTo(jobs))
		sched := a.Scheduler(s.addr)
		id, err := sched.Register("@every 1s", side.Task{Type: "tick", Payload: []byte("p"), Queue: "periodic", Headers: map[string]string{"h": "v"}})
		s.must(err)
		s.must(sched.Start())
		s.Cleanup(sched.Shutdown)
		j := receive(s, jobs, "a tick")
		if j.Type != "tick" || string(j.Payload) != "p" || j.Headers["h"] != "v" {
			s.Errorf("the tick arrived as %+v", j)
		}
		for name, l := range libraries {
			i := s.inspector(l)
			var entries []side.Entry
			proctest.Eventually(s, "the entry to be seen", func() bool {
				entries, err = i.Entries()
				return err == nil && len(entries) == 1
			})
			e := entries[0]
			if e.ID != id || e.Spec != "@every 1s" || e.Type != "tick" || string(e.Payload) != "p" || !strings.Contains(strings.Join(e.Options, " "), `Queue("periodic")`) {
				s.Errorf("%s: entry %+v", name, e)
			}
			proctest.Eventually(s, "the event to be seen", func() bool {
				ids, err := i.Events(id)
				return err == nil && slices.Contains(ids, j.ID)
			})
		}
	})
}
