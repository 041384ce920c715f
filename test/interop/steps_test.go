package interop

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/step"
	"github.com/asynq-go/asynq/test/interop/side"
)

// TestReferenceKeepsSteps verifies that a task with steps, which sleeps until a signal, keeps both
// when the reference lists, runs, fails, retries and archives it.
func TestReferenceKeepsSteps(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	opt, ctx := asynq.RedisClientOpt{Addr: s.addr}, context.Background()
	client := asynq.NewClient(opt)
	defer func() { _ = client.Close() }()
	var calls atomic.Int32
	received := make(chan string, 1)
	serve := func() *asynq.Server {
		srv := asynq.NewServer(opt, asynq.Config{Logger: asynq.NewSlogLogger(slog.New(slog.DiscardHandler))})
		s.must(srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			_, err := step.Run(ctx, "charge", func(context.Context) (int, error) { calls.Add(1); return 1, nil })
			if err != nil {
				return err
			}
			value, err := step.WaitSignal[string](ctx, "approved", time.Hour)
			if err == nil {
				received <- value
			}
			return err
		})))
		return srv
	}
	reference := s.inspector(libraries["theirs"])
	first := serve()
	_, err := client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("a"), asynq.MaxRetry(5))
	s.must(err)
	proctest.Eventually(t, "the task to sleep", func() bool {
		info, err := reference.Task("default", "a")
		return err == nil && info.State == "retry" && time.Until(info.NextProcessAt) > 59*time.Minute
	})
	first.Shutdown()
	before := s.redis.HGetAll(ctx, "asynq:{default}:t:a").Val()

	jobs := make(chan *side.Job, 1)
	theirs := s.serve(libraries["theirs"], side.Config{RetryDelay: time.Hour}, func(_ context.Context, j *side.Job) error {
		jobs <- j
		return errors.New("not mine")
	})
	s.must(reference.Run("default", "a"))
	receive(s, jobs, "the attempt of the reference")
	proctest.Eventually(t, "the retry", func() bool {
		info, err := reference.Task("default", "a")
		return err == nil && info.State == "retry" && info.Retried == 1
	})
	theirs.Shutdown()
	s.must(reference.Archive("default", "a"))
	s.must(client.Signal(ctx, "default", "a", "approved", "yes"))
	after := s.redis.HGetAll(ctx, "asynq:{default}:t:a").Val()
	for _, field := range []string{"step:charge", "step:approved"} {
		if before[field] == "" || after[field] != before[field] {
			t.Errorf("field %s is %q, was %q", field, after[field], before[field])
		}
	}
	s.must(reference.Run("default", "a"))
	defer serve().Shutdown()
	if value := receive(s, received, "the signal"); value != "yes" || calls.Load() != 1 {
		t.Errorf("signal %q after %d calls of the step", value, calls.Load())
	}
	proctest.Eventually(t, "the end of the task", func() bool {
		return s.redis.Exists(ctx, "asynq:{default}:t:a").Val() == 0
	})
}
