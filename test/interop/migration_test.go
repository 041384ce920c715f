package interop

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

// TestRollingMigration replaces the servers of the reference with this library's, one
// by one, and back, while clients of both enqueue: no task is lost or stuck.
func TestRollingMigration(t *testing.T) {
	t.Parallel()
	s, r := newEnv(t), newRecord()
	old, own := libraries["theirs"], libraries["ours"]
	var fleet []*child
	for range 3 {
		fleet = append(fleet, s.spawn(r, old))
	}

	var producers sync.WaitGroup
	done := make(chan struct{})
	enqueued := make([][]string, 2) // IDs, by producer
	members := make([]int, 2)
	for n, l := range []side.Library{old, own} {
		client := s.client(l)
		producers.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				task := side.Task{Type: "nap", Payload: []byte("20"), ID: l.Name() + strconv.Itoa(i), Retention: time.Hour}
				switch i % 5 {
				case 1:
					task.Type = "flaky"
				case 2:
					task.ProcessIn = time.Second
				case 3:
					task.Unique = time.Hour
					task.Payload = []byte(strconv.Itoa(i % 50)) // some are duplicates
				case 4:
					task.Group, task.Payload = "g", []byte(task.ID)
				}
				_, err := client.Enqueue(task)
				switch {
				case errors.Is(err, l.Errors().Duplicate) && task.Unique != 0:
				case err != nil:
					s.Errorf("enqueue: %v", err)
				case task.Group != "":
					members[n]++
				default:
					enqueued[n] = append(enqueued[n], task.ID)
				}
				select {
				case <-done:
					return
				case <-tick.C:
				}
			}
		})
	}
	receive(s, fleet[0].first, "the system to run")
	replace := func(l side.Library) {
		for n := range fleet {
			next := s.spawn(r, l)
			receive(s, next.first, "a new server to have a task")
			fleet[n].end(syscall.SIGTERM)
			fleet[n] = next
		}
	}
	replace(own)
	replace(old)
	close(done)
	producers.Wait()

	inspector := s.inspector(own)
	want := slices.Concat(enqueued...)
	proctest.Eventually(s, "all to be done", func() bool {
		q, err := inspector.Queue("default")
		s.must(err)
		return q.Active+q.Pending+q.Retry+q.Scheduled+q.Aggregating == 0
	})
	for _, c := range fleet {
		c.end(syscall.SIGTERM)
	}
	completed, err := inspector.List("default", "completed", "")
	s.must(err)
	state := make(map[string]*side.Info, len(completed))
	failed := 0
	for _, info := range completed {
		state[info.ID] = info
		failed += info.Retried
	}
	flaky := 0
	for _, id := range want {
		switch info := state[id]; {
		case info == nil:
			s.Errorf("task %s is lost", id)
		case info.Type == "flaky":
			flaky++
		}
	}
	q, err := inspector.Queue("default")
	s.must(err)
	if failed != flaky || q.Failed != failed || q.Processed != len(completed)+failed || q.Archived != 0 {
		s.Errorf("%d completed, %d flaky, %d failed attempts, queue %+v", len(completed), flaky, failed, q)
	}
	for id, n := range r.members {
		if n != 1 {
			s.Errorf("the grouped task %s came %d times", id, n)
		}
	}
	if n := members[0] + members[1]; len(r.members) != n {
		s.Errorf("%d grouped tasks of %d came", len(r.members), n)
	}
	for _, o := range r.overlaps() {
		s.Errorf("run twice at once: %s", o)
	}
	s.Logf("%d tasks and %d in groups", len(want), len(r.members))
}
