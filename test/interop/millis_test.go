package interop

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
	"github.com/asynq-go/asynq/test/interop/theirs"
)

// TestMillisecondTimes verifies that a server of the reference runs tasks whose times have
// milliseconds, and that its inspector rounds the times down.
func TestMillisecondTimes(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	reference := theirs.Library{Label: "theirs"}
	client := asynq.NewClient(asynq.WithMillisecondTimes(asynq.RedisClientOpt{Addr: s.addr}))
	defer func() { _ = client.Close() }()
	second := time.Now().Add(2 * time.Second).Truncate(time.Second)
	due := map[string]time.Time{"soon": second.Add(300 * time.Millisecond), "later": second.Add(time.Hour + 123*time.Millisecond)}
	for id, at := range due {
		if _, err := client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(id), asynq.ProcessAt(at)); err != nil {
			t.Fatal(err)
		}
	}
	if at := s.task(s.inspector(reference), "later").NextProcessAt; !at.Equal(due["later"].Truncate(time.Second)) {
		t.Errorf("the reference reads the time %v as %v", due["later"], at)
	}
	jobs := make(chan *side.Job, 2)
	s.serve(reference, side.Config{}, handTo(jobs))
	if j := receive(s, jobs, "the task to run"); j.ID != "soon" || time.Now().Before(due["soon"]) {
		t.Errorf("task %s ran at %v, before %v", j.ID, time.Now(), due["soon"])
	}
}

// TestReferenceKeepsHistory verifies that a server of the reference keeps the attempt log and the
// progress of a task, and that it adds nothing to them.
func TestReferenceKeepsHistory(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	opt := asynq.RedisClientOpt{Addr: s.addr}
	srv := asynq.NewServer(opt, asynq.Config{
		AttemptLog: 5, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second },
		Logger: asynq.NewSlogLogger(slog.New(slog.DiscardHandler)),
	})
	failed := make(chan struct{}, 1)
	s.must(srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		defer func() { failed <- struct{}{} }()
		return errors.Join(errors.New("ours"), asynq.SetProgress(ctx, 0.5, "half"))
	})))
	ours, reference := libraries["ours"], libraries["theirs"]
	s.enqueue(s.client(ours), side.Task{Type: "t", ID: "a", MaxRetry: 1})
	receive(s, failed, "the first attempt")
	srv.Shutdown()
	s.serve(reference, side.Config{}, func(context.Context, *side.Job) error { return errors.New("theirs") })
	s.await(s.inspector(reference), "a", "archived")
	inspector := asynq.NewInspector(opt)
	defer func() { _ = inspector.Close() }()
	proctest.Eventually(t, "the task in the archive", func() bool {
		info, err := inspector.GetTaskInfo("default", "a")
		return err == nil && info.State == asynq.TaskStateArchived
	})
	info, err := inspector.GetTaskInfo("default", "a")
	s.must(err)
	if len(info.Attempts) != 1 || info.Attempts[0].Err != "ours" || info.LastErr != "theirs" || info.Progress == nil || info.Progress.Note != "half" {
		t.Errorf("%+v", info)
	}
}
