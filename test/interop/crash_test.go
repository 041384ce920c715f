package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

const leaseKey = "asynq:{default}:lease"

// age makes the remaining leases expire more than 30 s in the past: leases of the reference last 30
// s, and it recovers those that expired 30 s ago. No running process may hold a lease.
func (s *env) age() (n int) {
	s.Helper()
	ctx := context.Background()
	ids, err := s.redis.ZRange(ctx, leaseKey, 0, -1).Result()
	s.must(err)
	for _, id := range ids {
		s.must(s.redis.ZAddXX(ctx, leaseKey, redis.Z{Score: float64(time.Now().Add(-31 * time.Second).Unix()), Member: id}).Err())
	}
	return len(ids)
}

// TestCrashedServerTasksAreRecovered verifies that a server recovers the tasks of a killed
// server of the other library.
func TestCrashedServerTasksAreRecovered(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		r := newRecord()
		victim := s.spawn(r, a)
		for n := range 5 {
			s.enqueue(s.client(a), side.Task{Type: "block", ID: fmt.Sprint("t", n), Retention: time.Hour, Unique: time.Hour, Payload: []byte{byte(n)}})
		}
		proctest.Eventually(s, "all tasks to run", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.runs) == 5
		})
		victim.end(syscall.SIGKILL)
		if n := s.age(); n != 5 {
			s.Fatalf("the killed server leaves %d leases", n)
		}
		// The reference reports orphans in lists only.
		list, err := s.inspector(b).List("default", "active", "")
		s.must(err)
		for _, info := range list {
			if !info.Orphaned {
				s.Errorf("a task of the killed server: %+v", info)
			}
		}
		s.serve(b, side.Config{}, func(_ context.Context, j *side.Job) error {
			if j.Retried != 1 {
				return fmt.Errorf("the crash is failure %d", j.Retried)
			}
			return nil
		})
		for n := range 5 {
			info := s.await(s.inspector(a), fmt.Sprint("t", n), "completed")
			if info.Retried != 1 || info.LastErr == "" {
				s.Errorf("after the crash: %+v", info)
			}
		}
		q, err := s.inspector(a).Queue("default")
		s.must(err)
		if q.Processed != 10 || q.Failed != 5 || q.Active != 0 || q.Completed != 5 {
			s.Errorf("queue: %+v", q)
		}
	})
}

// TestSharedQueueWithCrashes runs servers of both libraries on one queue and kills a third of
// them at random.
//
// One server recovers all tasks of the killed servers before the others start, to avoid the defect
// of the reference that TestReferenceRequeuesRunningTask shows.
func TestSharedQueueWithCrashes(t *testing.T) {
	t.Parallel()
	s, r := newEnv(t), newRecord()
	clients := []side.Client{s.client(libraries["ours"]), s.client(libraries["theirs"])}
	tasks := 0
	enqueue := func(n int) {
		for range n {
			s.enqueue(clients[tasks%2], side.Task{
				Type: "nap", Payload: fmt.Append(nil, rand.IntN(60)), ID: fmt.Sprint("t", tasks), Retention: time.Hour,
				ProcessIn: time.Duration(tasks%3) * time.Second / 2,
			})
			tasks++
		}
	}
	left := 0
	heir := func(l side.Library) *child {
		c := s.spawn(r, l)
		proctest.Eventually(s, "the leases of the killed to be gone", func() bool {
			enqueue(1)
			before := fmt.Sprint(time.Now().Add(-10 * time.Second).Unix())
			n, err := s.redis.ZCount(context.Background(), leaseKey, "-inf", before).Result()
			s.must(err)
			return n == 0
		})
		return c
	}
	for round := range 2 {
		first, second := libraries["ours"], libraries["theirs"]
		if round > 0 {
			first, second = second, first
		}
		children := []*child{heir(first), s.spawn(r, second)}
		for range 2 {
			children = append(children, s.spawn(r, first), s.spawn(r, second))
		}
		enqueue(100)
		for _, victim := range children[:2] {
			proctest.Eventually(s, "the victim to have a task", func() bool {
				enqueue(4) // so that tasks are active when servers are killed
				select {
				case <-victim.first:
					return true
				default:
					return false
				}
			})
			for end := time.Now().Add(time.Duration(rand.IntN(100)) * time.Millisecond); time.Now().Before(end); {
				enqueue(4)
				time.Sleep(5 * time.Millisecond)
			}
			victim.end(syscall.SIGKILL)
			r.killed(victim)
		}
		for _, c := range children[2:] {
			c.end(syscall.SIGTERM)
		}
		left += s.age() // remaining leases of killed servers
	}
	children := []*child{heir(libraries["ours"]), s.spawn(r, libraries["theirs"])}
	proctest.Eventually(s, "all tasks to be completed", func() bool {
		q, err := s.inspector(libraries["ours"]).Queue("default")
		s.must(err)
		return q.Completed == tasks
	})
	for _, c := range children {
		c.end(syscall.SIGTERM)
	}
	failed := 0
	for name, l := range libraries {
		q, err := s.inspector(l).Queue("default")
		s.must(err)
		list, err := s.inspector(l).List("default", "completed", "")
		s.must(err)
		failed = 0
		for _, task := range list {
			failed += task.Retried
		}
		if len(list) != tasks || q.Completed != tasks || q.Active+q.Pending+q.Retry+q.Scheduled+q.Archived != 0 || q.Failed != failed || q.Processed != tasks+failed || failed != left {
			s.Errorf("%s: %d completed, %d attempts failed, %d were cut off, queue %+v", name, len(list), failed, left, q)
		}
	}
	if n := r.ended(); n != tasks {
		s.Errorf("%d tasks have run to their end", n)
	}
	for _, o := range r.overlaps() {
		s.Errorf("run twice at once: %s", o)
	}
	byLibrary := make(map[string]int)
	for _, runs := range r.runs {
		byLibrary[runs[0].child.name]++
	}
	s.Logf("%d attempts cut off; first attempts: %v", failed, byLibrary)
	if byLibrary["ours"] == 0 || byLibrary["theirs"] == 0 {
		s.Errorf("one side has run nothing: %v", byLibrary)
	}
}
