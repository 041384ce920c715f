package interop

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

// TestUniqueLockIsShared verifies that a unique task of one library is a duplicate for the other
// until its lock is released, in any way.
func TestUniqueLockIsShared(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		mine, other := s.client(a), s.client(b)
		inspector := s.inspector(b)
		lock := func(id string, in time.Duration) side.Task {
			return side.Task{Type: "t", Payload: []byte("p"), ID: id, Unique: time.Hour, ProcessIn: in}
		}
		refused := func(when string) {
			s.Helper()
			for _, in := range []time.Duration{0, time.Hour} {
				if _, err := other.Enqueue(lock("second", in)); !errors.Is(err, b.Errors().Duplicate) {
					s.Errorf("%s, a second one in %v: %v", when, in, err)
				}
			}
			if _, err := inspector.Task("default", "second"); !errors.Is(err, b.Errors().TaskNotFound) && !errors.Is(err, b.Errors().QueueNotFound) {
				s.Errorf("%s, the refused task is there: %v", when, err)
			}
		}
		s.enqueue(mine, lock("pending", 0))
		refused("while the first is pending")
		s.enqueue(other, side.Task{Type: "t", Payload: []byte("q"), Unique: time.Hour, ID: "another"})
		s.must(inspector.Delete("default", "pending"))

		s.enqueue(mine, lock("scheduled", time.Hour))
		refused("while the first is scheduled")
		s.must(inspector.Archive("default", "scheduled"))
		refused("while the first is archived")
		s.must(inspector.Run("default", "scheduled"))
		refused("after the first was run")
		for _, id := range []string{"scheduled", "another"} {
			s.must(inspector.Delete("default", id))
		}

		s.enqueue(mine, lock("first", 0)) // all locks are released
		release := make(chan struct{})
		running := make(chan string, 1)
		s.serve(b, side.Config{}, func(ctx context.Context, j *side.Job) error {
			running <- j.ID
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		})
		receive(s, running, "the task to run")
		refused("while the first runs")
		close(release)
		proctest.Eventually(s, "the lock to be free", func() bool {
			_, err := other.Enqueue(lock("second", time.Hour))
			return err == nil
		})
		if _, err := mine.Enqueue(lock("third", 0)); !errors.Is(err, a.Errors().Duplicate) {
			s.Errorf("the other side's lock: %v", err)
		}
	})
}

// TestUniqueLockExpires verifies that both libraries release a lock when it expires.
func TestUniqueLockExpires(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		task := side.Task{Type: "t", Payload: []byte("p"), Unique: time.Second}
		first := s.enqueue(s.client(a), task)
		var second *side.Info
		proctest.Eventually(s, "the lock to expire", func() (ok bool) {
			info, err := s.client(b).Enqueue(task)
			second = info
			return err == nil
		})
		// The first task does not release the lock of the second.
		task.Unique = time.Hour
		s.must(s.inspector(b).Delete("default", second.ID))
		third := s.enqueue(s.client(b), task)
		s.must(s.inspector(b).Delete("default", first.ID))
		if _, err := s.client(a).Enqueue(task); !errors.Is(err, a.Errors().Duplicate) {
			s.Errorf("the lock of %s: %v", third.ID, err)
		}
	})
}

// TestUniqueLockOfGroupedTask verifies how the lock of a task in a group is released. The reference
// does not store it in the hash of the task, and does not release it when the group is aggregated
// or the task deleted: its clients are rejected until it expires. Clients of this library take over
// a lock whose holder is gone.
func TestUniqueLockOfGroupedTask(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		mine, other := s.client(a), s.client(b)
		task := side.Task{Type: "t", Payload: []byte("p"), ID: "first", Group: "g", Unique: time.Hour}
		s.enqueue(mine, task)
		s.check() // the lock has a holder
		task.ID = "second"
		if _, err := other.Enqueue(task); !errors.Is(err, b.Errors().Duplicate) {
			s.Errorf("a second one: %v", err)
		}
		srv := s.serve(b, side.Config{Aggregate: aggregateMembers}, work)
		proctest.Eventually(s, "the group to be aggregated", func() bool {
			_, err := s.inspector(b).Task("default", "first")
			return errors.Is(err, b.Errors().TaskNotFound)
		})
		srv.Shutdown()
		// Only the client of this library takes over the lock.
		task.ID, task.Group = "third", ""
		s.enqueue(s.client(libraries["ours"]), task)
	})
}

// TestTaskIDConflict verifies that a task ID of one library conflicts with the other's
// in every state, until the task is gone.
func TestTaskIDConflict(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		mine, other, inspector := s.client(a), s.client(b), s.inspector(b)
		tries := map[string]side.Task{"at once": {}, "later": {ProcessIn: time.Hour}, "grouped": {Group: "g"}}
		if b.Name() == "ours" {
			// The reference keeps the lock of a task that it rejected for its ID until the lock
			// expires.
			tries["unique"], tries["unique later"] = side.Task{Unique: time.Hour}, side.Task{Unique: time.Hour, ProcessIn: time.Hour}
		}
		refused := func(when string) {
			s.Helper()
			for name, task := range tries {
				task.Type, task.ID = "t", "id"
				if _, err := other.Enqueue(task); !errors.Is(err, b.Errors().IDConflict) {
					s.Errorf("%s, %s: %v", when, name, err)
				}
			}
		}
		gone := func() {
			s.Helper()
			s.must(inspector.Delete("default", "id"))
		}
		for name, task := range map[string]side.Task{"pending": {}, "scheduled": {ProcessIn: time.Hour}, "aggregating": {Group: "g"}} {
			task.Type, task.ID = "t", "id"
			s.enqueue(mine, task)
			s.await(inspector, "id", name)
			refused("while it is " + name)
			gone()
		}
		srv := s.serve(b, side.Config{}, work)
		s.enqueue(mine, side.Task{Type: "t", ID: "id", Retention: time.Hour})
		s.await(inspector, "id", "completed")
		refused("while it is completed")
		gone()
		s.enqueue(mine, side.Task{Type: "flaky", ID: "id", MaxRetry: -1})
		s.await(inspector, "id", "archived")
		refused("while it is archived")
		gone()
		s.enqueue(mine, side.Task{Type: "block", ID: "id", MaxRetry: -1})
		s.await(inspector, "id", "active")
		refused("while it is active")
		proctest.Eventually(s, "it to be canceled", func() bool { // the server may not have subscribed yet
			s.must(inspector.Cancel("id"))
			info, err := inspector.Task("default", "id")
			return err == nil && info.State == "archived"
		})
		srv.Shutdown()
		// The same ID in another queue is another task.
		s.enqueue(other, side.Task{Type: "t", ID: "id", Queue: "other"})
	})
}
