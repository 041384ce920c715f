package interop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

// TestReferenceRunsMembers verifies that a flow continues whose members the reference runs, retries
// and archives: a server of this library that serves the queue finds them.
func TestReferenceRunsMembers(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	opt, ctx := asynq.RedisClientOpt{Addr: s.addr}, context.Background()
	client, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	defer func() { _, _ = client.Close(), inspector.Close() }()
	f := flow.New("import")
	var rows []*asynq.Task
	for i := range 10 {
		rows = append(rows, asynq.NewTask("row", fmt.Append(nil, i)))
	}
	batch := f.AddBatch("rows", rows, asynq.Retention(time.Hour), asynq.MaxRetry(1))
	bad := f.Add("bad", asynq.NewTask("bad", nil), asynq.MaxRetry(0))
	f.Add("success", asynq.NewTask("success", nil), asynq.Queue("ours")).After(batch)
	f.Add("failure", asynq.NewTask("failure", nil), asynq.Queue("ours")).AfterFailure(bad)
	_, err := flow.Start(ctx, client, f)
	s.must(err)

	var failed atomic.Bool
	theirs := s.serve(libraries["theirs"], side.Config{}, func(_ context.Context, j *side.Job) error {
		if j.Type == "bad" || failed.CompareAndSwap(false, true) {
			return errors.New("not now")
		}
		return nil
	})
	proctest.Eventually(t, "the members to end", func() bool {
		q, err := inspector.GetQueueInfo("default")
		return err == nil && q.Completed == 10 && q.Archived == 1
	})
	theirs.Shutdown()
	info, err := flow.Inspect(inspector).Get(ctx, "import")
	s.must(err)
	if info.Status != flow.Running || info.Node("rows").Succeeded != 0 {
		t.Errorf("before a server of this library has come: %+v", info)
	}

	ran := make(chan string, 10)
	srv := asynq.NewServer(opt, asynq.Config{
		Queues: map[string]int{"default": 1, "ours": 1}, Logger: asynq.NewSlogLogger(slog.New(slog.DiscardHandler)),
	})
	s.must(srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		ran <- task.Type()
		return nil
	})))
	defer srv.Shutdown()
	for _, part := range s.redis.ZRange(ctx, "asynq:{default}:flows:due", 0, -1).Val() { // as after 30 s
		s.must(s.redis.HSet(ctx, "asynq:{default}:flows:part:"+part, "check", 0).Err())
		s.must(s.redis.ZAdd(ctx, "asynq:{default}:flows:due", redis.Z{Member: part}).Err())
	}
	got := map[string]bool{receive(s, ran, "a task"): true, receive(s, ran, "a task"): true}
	if !got["success"] || !got["failure"] {
		t.Errorf("after the members, %v ran", got)
	}
	info, err = flow.Inspect(inspector).Get(ctx, "import")
	s.must(err)
	if info.Node("rows").Succeeded != 10 || info.Node("bad").Failed != 1 {
		t.Errorf("the flow is %+v", info)
	}
}
