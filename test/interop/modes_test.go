package interop

import (
	"context"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

// TestReferenceRunsModes verifies that the reference lists, runs and deletes tasks that were
// enqueued and replaced with modes, and releases their locks.
func TestReferenceRunsModes(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	reference := libraries["theirs"]
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: s.addr})
	defer func() { _ = client.Close() }()
	inspector := s.inspector(reference)
	enqueue := func(payload string, opts ...asynq.Option) *asynq.TaskInfo {
		t.Helper()
		info, err := client.Enqueue(asynq.NewTask("t", []byte(payload)), opts...)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	modes := map[string][]asynq.Option{
		"replaced":  {asynq.UniqueKey("replaced", time.Hour), asynq.OnDuplicate(asynq.Replace), asynq.Header("h", "1"), asynq.ExpiresIn(time.Hour)},
		"debounced": {asynq.Debounce("debounced", 10*time.Minute, time.Hour)},
		"folded":    {asynq.Throttle("folded", time.Hour), asynq.OnDuplicate(asynq.Replace)},
	}
	ids := make(map[string]string)
	for name, opts := range modes {
		for _, payload := range []string{"one", "two", "three"} {
			ids[name] = enqueue(name+" "+payload, opts...).ID
		}
		if info := s.task(inspector, ids[name]); string(info.Payload) != name+" three" || info.ID != ids[name] {
			t.Errorf("the reference finds %+v", info)
		}
	}
	if listed, err := inspector.List("default", "scheduled", ""); err != nil || len(listed) != 2 {
		t.Errorf("the reference lists %d scheduled tasks, error %v", len(listed), err)
	}
	s.must(inspector.Run("default", ids["debounced"]))
	s.must(inspector.Delete("default", ids["folded"]))
	enqueue("folded again", asynq.Throttle("folded", time.Hour), asynq.OnDuplicate(asynq.Replace)) // the lock is free
	jobs := make(chan *side.Job, 10)
	s.serve(reference, side.Config{}, handTo(jobs))
	ran := make(map[string]bool)
	for range 3 {
		ran[string(receive(s, jobs, "a task").Payload)] = true
	}
	for _, payload := range []string{"replaced three", "debounced three", "folded one"} {
		if !ran[payload] {
			t.Errorf("the reference ran %v, want %q", ran, payload)
		}
	}
	for _, key := range []string{"replaced", "debounced"} {
		proctest.Eventually(t, "the lock to be free", func() bool {
			_, err := client.Enqueue(asynq.NewTask("t", nil), asynq.UniqueKey(key, time.Hour), asynq.ProcessIn(time.Hour))
			return err == nil
		})
	}
}

// TestReferenceKeepsFollower verifies that the reference does not release a lock that a follower
// has taken over from the task that it runs.
func TestReferenceKeepsFollower(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: s.addr})
	defer func() { _ = client.Close() }()
	release, running := make(chan struct{}), make(chan string, 2)
	s.serve(libraries["theirs"], side.Config{}, func(_ context.Context, j *side.Job) error {
		running <- j.ID
		<-release
		return nil
	})
	opts := []asynq.Option{asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Replace)}
	first, err := client.Enqueue(asynq.NewTask("t", nil), opts...)
	s.must(err)
	receive(s, running, "the first task")
	follower, err := client.Enqueue(asynq.NewTask("t", nil), append(opts, asynq.ProcessIn(time.Hour))...)
	s.must(err)
	close(release)
	proctest.Eventually(t, "the first task to be gone", func() bool {
		return s.redis.Exists(context.Background(), "asynq:{default}:t:"+first.ID).Val() == 0
	})
	again, err := client.Enqueue(asynq.NewTask("t", nil), asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Keep))
	if err != nil || again.ID != follower.ID {
		t.Errorf("after the first task, the key names %+v, want %q, error %v", again, follower.ID, err)
	}
}
