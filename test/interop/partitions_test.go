package interop

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

// TestReferenceAndHeldTasks verifies that the reference lists, runs, archives and deletes tasks
// that a partition holds, and that nothing is lost if its server processes the queue, too.
func TestReferenceAndHeldTasks(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	opt := asynq.RedisClientOpt{Addr: s.addr}
	client, own := asynq.NewClient(opt), asynq.NewInspector(opt)
	defer func() { _ = client.Close() }()
	defer func() { _ = own.Close() }()
	for i := range 7 {
		if _, err := client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(fmt.Sprint("a", i)), asynq.PartitionKey("k")); err != nil {
			t.Fatal(err)
		}
	}
	release := make(chan struct{})
	srv := asynq.NewServer(opt, asynq.Config{
		Concurrency:  5,
		QueueConfigs: map[string]asynq.QueueConfig{"default": {Partitions: &asynq.PartitionConfig{Concurrency: 1}}},
		Logger:       asynq.NewSlogLogger(slog.New(slog.DiscardHandler)), TaskCheckInterval: 50 * time.Millisecond,
	})
	s.must(srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		<-release
		return nil
	})))
	defer srv.Shutdown()
	held := func(n int) {
		t.Helper()
		proctest.Eventually(t, fmt.Sprint(n, " held tasks"), func() bool {
			q, err := own.GetQueueInfo("default")
			return err == nil && q.Held == n && q.Pending == 0 && q.Active == 1
		})
	}
	held(6)
	reference := s.inspector(libraries["theirs"])
	tasks, err := reference.List("default", "scheduled", "")
	s.must(err)
	if len(tasks) != 6 || time.Until(tasks[0].NextProcessAt) < 23*time.Hour {
		t.Errorf("the reference lists %d scheduled tasks, the first one at %v", len(tasks), tasks[0].NextProcessAt)
	}
	s.must(reference.Run("default", "a1"))
	held(6) // the limit still applies
	s.must(reference.Archive("default", "a2"))
	s.must(reference.Delete("default", "a3"))
	s.serve(libraries["theirs"], side.Config{}, func(context.Context, *side.Job) error { return nil })
	n, err := reference.RunAll("default", "scheduled", "")
	if s.must(err); n != 4 {
		t.Errorf("the reference moved %d tasks to pending, want 4", n)
	}
	close(release)
	proctest.Eventually(t, "the end of all tasks", func() bool {
		q, err := own.GetQueueInfo("default")
		return err == nil && q.Held+q.Pending+q.Active+q.Scheduled == 0 && q.Archived == 1
	})
	if q, err := own.GetQueueInfo("default"); err != nil || q.ProcessedTotal != 5 {
		t.Errorf("%d attempts (%v), want 5", q.ProcessedTotal, err)
	}
}
