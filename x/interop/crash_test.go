package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/x/interop/side"
)

const leaseKey = "asynq:{default}:lease"

// age lets the leases that are left have ended more than 30 s ago, as if the time had passed: the reference's last 30 s, and
// it recovers what ended 30 s before. No living process may hold a lease.
func (s *site) age() (n int) {
	s.Helper()
	ctx := context.Background()
	ids, err := s.redis.ZRange(ctx, leaseKey, 0, -1).Result()
	s.must(err)
	for _, id := range ids {
		s.must(s.redis.ZAddXX(ctx, leaseKey, redis.Z{Score: float64(time.Now().Add(-31 * time.Second).Unix()), Member: id}).Err())
	}
	return len(ids)
}

// TestACrashedServersTasksRunOnTheOtherSide shows that a server takes the tasks over of one of the other side that was killed.
func TestACrashedServersTasksRunOnTheOtherSide(t *testing.T) {
	bothWays(t, func(s *site, a, b side.Library) {
		r := newRecord()
		victim := s.spawn(r, a)
		for n := range 5 {
			s.enqueue(s.client(a), side.Task{Type: "block", ID: fmt.Sprint("t", n), Retention: time.Hour, Unique: time.Hour, Payload: []byte{byte(n)}})
		}
		s.eventually("all tasks to run", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.runs) == 5
		})
		victim.end(syscall.SIGKILL)
		if n := s.age(); n != 5 {
			s.Fatalf("the killed server leaves %d leases", n)
		}
		// The reference tells orphans in lists only.
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

// TestAQueueIsSharedThroughCrashes has servers of both sides on one queue, a third of them killed at random.
func TestAQueueIsSharedThroughCrashes(t *testing.T) {
	t.Parallel()
	const tasks = 400
	s, r := newSite(t), newRecord()
	clients := []side.Client{s.client(libraries["ours"]), s.client(libraries["theirs"])}
	for n := range tasks {
		s.enqueue(clients[n%2], side.Task{
			Type: "nap", Payload: fmt.Append(nil, rand.IntN(60)), ID: fmt.Sprint("t", n), Retention: time.Hour, ProcessIn: time.Duration(n%3) * time.Second / 2,
		})
	}
	left := 0
	for round := 0; ; round++ {
		var children []*child
		for range 3 {
			children = append(children, s.spawn(r, libraries["ours"]), s.spawn(r, libraries["theirs"]))
		}
		if round > 1 { // nobody dies any more
			s.eventually("all tasks to be completed", func() bool {
				q, err := s.inspector(libraries["ours"]).Queue("default")
				s.must(err)
				return q.Completed == tasks
			})
			for _, c := range children {
				c.end(syscall.SIGTERM)
			}
			break
		}
		for _, victim := range children[:2] {
			receive(s, victim.first, "each child to have a task")
			time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond) // at random is the point
			victim.end(syscall.SIGKILL)
			r.killed(victim)
		}
		for _, c := range children[2:] {
			c.end(syscall.SIGTERM)
		}
		left += s.age() // those that are left belong to the killed
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
