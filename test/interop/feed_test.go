package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

// handTo returns a handler that sends its jobs to a channel.
func handTo(jobs chan<- *side.Job) side.Handler {
	return func(_ context.Context, j *side.Job) error {
		jobs <- j
		return nil
	}
}

// TestTaskArrivesUnchanged verifies that type, payload, headers and settings of a task reach the
// handler of the other library.
func TestTaskArrivesUnchanged(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		payloads := map[string][]byte{
			"empty": {}, "text": []byte("häßlich"), "zeros": {0, 0, 0}, "not UTF-8": {0xff, 0xfe, 0}, "long": make([]byte, 1<<20), "nil": nil,
		}
		headers := map[string]string{"trace": "00-ab", "empty": "", "ünï": "cödé"}
		jobs := make(chan *side.Job, len(payloads))
		s.serve(b, side.Config{Queues: []string{"default", "other"}}, handTo(jobs))
		client := s.client(a)
		sent := make(map[string]string)
		for name, p := range payloads {
			info := s.enqueue(client, side.Task{Type: name, Payload: p, Headers: headers, Queue: "other", MaxRetry: 7})
			sent[name] = info.ID
		}
		for range payloads {
			j := receive(s, jobs, "all tasks to run")
			if !bytes.Equal(j.Payload, payloads[j.Type]) || !maps.Equal(j.Headers, headers) {
				s.Errorf("%s arrived as %.100q with headers %q", j.Type, j.Payload, j.Headers)
			}
			if j.ID != sent[j.Type] || j.Queue != "other" || j.Retried != 0 || j.MaxRetry != 7 {
				s.Errorf("%s arrived as %s of queue %s, attempt %d of %d", j.Type, j.ID, j.Queue, j.Retried, j.MaxRetry)
			}
		}
	})
}

// TestScheduledTask verifies that the other library honors the scheduled time.
func TestScheduledTask(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		client, mine, other := s.client(a), s.inspector(a), s.inspector(b)
		info := s.enqueue(client, side.Task{Type: "t", ID: "soon", ProcessIn: 2 * time.Second})
		later := s.enqueue(client, side.Task{Type: "t", ID: "later", ProcessIn: time.Hour})
		due := s.task(other, "soon").NextProcessAt
		if !due.Equal(s.task(mine, "soon").NextProcessAt) || due.Sub(info.NextProcessAt).Abs() > time.Second {
			s.Errorf("due at %v, the other side says %v", info.NextProcessAt, due)
		}
		jobs := make(chan *side.Job, 2)
		s.serve(b, side.Config{}, handTo(jobs))
		if j := receive(s, jobs, "the task to run"); j.ID != "soon" || time.Now().Before(due) {
			s.Errorf("task %s ran at %v, before %v", j.ID, time.Now(), due)
		}
		if got := s.task(other, "later"); got.State != "scheduled" || got.NextProcessAt.Sub(later.NextProcessAt).Abs() > time.Second {
			s.Errorf("the later task is %+v", got)
		}
	})
}

// TestUniqueLockIsReleased verifies that the other library releases the lock of a completed
// task.
func TestUniqueLockIsReleased(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		client := s.client(a)
		go1 := make(chan struct{})
		jobs := make(chan *side.Job, 2)
		s.serve(b, side.Config{}, func(ctx context.Context, j *side.Job) error {
			jobs <- j
			select {
			case <-go1:
			case <-ctx.Done():
			}
			if j.Retried == 0 {
				return errors.New("once more, still unique")
			}
			return nil
		})
		task := side.Task{Type: "t", Payload: []byte("p"), Unique: time.Hour}
		s.enqueue(client, task)
		receive(s, jobs, "the task to run")
		if _, err := client.Enqueue(task); !errors.Is(err, a.Errors().Duplicate) {
			s.Errorf("a second one while it runs: %v", err)
		}
		close(go1)
		receive(s, jobs, "the task to run again")
		proctest.Eventually(s, "the lock to be given up", func() bool {
			_, err := client.Enqueue(task)
			if err != nil && !errors.Is(err, a.Errors().Duplicate) {
				s.Fatal(err)
			}
			return err == nil
		})
	})
}

// TestGroupAggregation verifies that the other library aggregates grouped tasks,
// each once.
func TestGroupAggregation(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		client, mine, other := s.client(a), s.inspector(a), s.inspector(b)
		var want []string
		for n := range 5 {
			want = append(want, fmt.Sprint("m", n))
			s.enqueue(client, side.Task{Type: "t", Payload: []byte(want[n]), Group: "g", ID: want[n]})
		}
		for name, i := range map[string]side.Inspector{"own": mine, "other": other} {
			if groups, err := i.Groups("default"); err != nil || groups["g"] != 5 {
				s.Errorf("groups by the %s inspector: %v, %v", name, groups, err)
			}
		}
		jobs := make(chan *side.Job, 10)
		s.serve(b, side.Config{Aggregate: aggregateMembers}, handTo(jobs))
		got := strings.Fields(string(receive(s, jobs, "the group to be aggregated").Payload))
		if slices.Sort(got); !slices.Equal(got, want) {
			s.Errorf("aggregated: %q", got)
		}
		if _, err := other.Task("default", "m0"); !errors.Is(err, b.Errors().TaskNotFound) {
			s.Errorf("a member after the aggregation: %v", err)
		}
		// Their IDs can be used again.
		s.enqueue(client, side.Task{Type: "t", Payload: []byte("m1"), Group: "g", ID: "m1"})
		j := receive(s, jobs, "the next aggregation")
		if string(j.Payload) != "m1 " {
			s.Errorf("then aggregated: %q", j.Payload)
		}
	})
}

// TestResult verifies that a task is retained with the result that the other library's
// handler wrote.
func TestResult(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		result := []byte{'r', 0, 0xff}
		s.serve(b, side.Config{}, func(_ context.Context, j *side.Job) error { return j.WriteResult(result) })
		began := time.Now().Add(-time.Second)
		s.enqueue(s.client(a), side.Task{Type: "t", ID: "kept", Retention: time.Hour}, side.Task{Type: "t", ID: "brief", Retention: time.Second})
		for name, l := range libraries {
			info := s.await(s.inspector(l), "kept", "completed")
			if !bytes.Equal(info.Result, result) || info.Retention != time.Hour || info.CompletedTime.Before(began.Truncate(time.Second)) {
				s.Errorf("%s inspector: %+v", name, info)
			}
		}
		proctest.Eventually(s, "a task to go when its retention is over", func() bool {
			_, err := s.inspector(a).Task("default", "brief")
			return errors.Is(err, a.Errors().TaskNotFound)
		})
	})
}

// TestRetryAndArchive verifies that the other library retries a task as
// configured, and counts in the same way.
func TestRetryAndArchive(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		attempts := make(chan int, 10)
		s.serve(b, side.Config{Concurrency: 1}, func(_ context.Context, j *side.Job) error {
			switch j.Type {
			case "skip":
				return fmt.Errorf("hopeless: %w", b.Errors().SkipRetry)
			case "revoke":
				return b.Errors().Revoke
			case "panic":
				panic("aah")
			}
			attempts <- j.Retried
			return fmt.Errorf("failure %d", j.Retried)
		})
		client, mine, other := s.client(a), s.inspector(a), s.inspector(b)
		s.enqueue(client, side.Task{Type: "t", ID: "last", MaxRetry: 2})
		for want := range 3 {
			if got := receive(s, attempts, "an attempt"); got != want {
				s.Errorf("attempt %d says that it is %d", want, got)
			}
		}
		info := s.await(mine, "last", "archived")
		if info.Retried != 2 || info.LastErr != "failure 2" || info.LastFailedAt.IsZero() {
			s.Errorf("after the last attempt: %+v", info)
		}
		s.enqueue(client, side.Task{Type: "skip", ID: "skip"}, side.Task{Type: "revoke", ID: "revoke"}, side.Task{Type: "panic", ID: "panic", MaxRetry: -1})
		if info := s.await(mine, "skip", "archived"); !strings.Contains(info.LastErr, "hopeless") {
			s.Errorf("skipped: %+v", info)
		}
		if info := s.await(mine, "panic", "archived"); !strings.Contains(info.LastErr, "aah") {
			s.Errorf("panicked: %+v", info)
		}
		proctest.Eventually(s, "the revoked task to be gone", func() bool {
			_, err := mine.Task("default", "revoke")
			return errors.Is(err, a.Errors().TaskNotFound)
		})
		// It does not run again by itself.
		s.must(mine.Run("default", "last"))
		receive(s, attempts, "the archived task to run")
		s.await(mine, "last", "archived")
		x, err := mine.Queue("default")
		s.must(err)
		y, err := other.Queue("default")
		s.must(err)
		if *x != *y || x.Archived != 3 {
			s.Errorf("queue: %+v, the other side says %+v", x, y)
		}
	})
}

// TestTimeoutAndDeadline verifies that handlers of the other library honor timeouts and deadlines.
func TestTimeoutAndDeadline(t *testing.T) {
	bothWays(t, func(s *env, a, b side.Library) {
		ends := make(map[string]chan time.Time)
		for _, id := range []string{"timeout", "deadline", "both"} {
			ends[id] = make(chan time.Time, 1)
		}
		s.serve(b, side.Config{}, func(ctx context.Context, j *side.Job) error {
			deadline, _ := ctx.Deadline()
			ends[j.ID] <- deadline
			<-ctx.Done()
			return ctx.Err()
		})
		deadline := time.Now().Add(5 * time.Second).Truncate(time.Second) // later than a busy machine starts the tasks
		began := time.Now()
		s.enqueue(s.client(a),
			side.Task{Type: "t", ID: "timeout", MaxRetry: -1, Timeout: time.Second},
			side.Task{Type: "t", ID: "deadline", MaxRetry: -1, Deadline: deadline},
			side.Task{Type: "t", ID: "both", MaxRetry: -1, Deadline: deadline, Timeout: time.Hour})
		if got := receive(s, ends["timeout"], "a task to run"); got.Before(began.Add(time.Second)) || got.After(time.Now().Add(time.Second)) {
			s.Errorf("enqueued at %v, the timeout of 1 s ends at %v", began, got)
		}
		for _, id := range []string{"deadline", "both"} {
			if got := receive(s, ends[id], "a task to run"); !got.Equal(deadline) {
				s.Errorf("%s: %v instead of %v", id, got, deadline)
			}
		}
		for id := range ends {
			if info := s.await(s.inspector(a), id, "archived"); !strings.Contains(info.LastErr, "deadline exceeded") {
				s.Errorf("%s ended with: %+v", id, info)
			}
		}
	})
}
