package cli

import (
	"context"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/acltest"
)

// A producer uses the modes of Enqueue with the additional permissions of docs/ACL.md.
func TestACLModes(t *testing.T) {
	t.Parallel()
	r := acltest.Start(t)
	r.Grant("producer", "replaces tasks: add `")
	r.Grant("producer", "for `Supersede` `")
	client := asynq.NewClient(r.As("producer"))
	t.Cleanup(func() { _ = client.Close() })
	enqueue := func(opts ...asynq.Option) {
		t.Helper()
		if _, err := client.Enqueue(asynq.NewTask("t", nil), opts...); err != nil {
			t.Errorf("%v: %v", opts, err)
		}
	}
	for range 100 {
		enqueue()
	}
	for key, policy := range map[string]asynq.DuplicatePolicy{"keep": asynq.Keep, "replace": asynq.Replace, "supersede": asynq.Supersede} {
		key, policy := asynq.UniqueKey(key, time.Hour), asynq.OnDuplicate(policy)
		for range 2 {
			enqueue(key, policy)
			enqueue(key, policy, asynq.ProcessIn(time.Hour))
			enqueue(key, policy, asynq.Group("g"))
			enqueue(key, policy, asynq.Group("h"))
			enqueue(key, policy, asynq.Group("h"))
		}
	}
	for range 3 {
		enqueue(asynq.Debounce("k", time.Hour, 0))
		enqueue(asynq.Throttle("k", time.Hour))
		enqueue(asynq.Throttle("f", time.Hour), asynq.OnDuplicate(asynq.Replace))
		enqueue(asynq.IdempotencyKey("k", time.Hour))
	}
	started, canceled := make(chan struct{}), make(chan struct{})
	srv := asynq.NewServer(r.As("worker"), asynq.Config{LogLevel: asynq.FatalLevel, Queues: map[string]int{"active": 1}})
	err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if len(task.Payload()) > 0 {
			close(started)
			<-ctx.Done()
			close(canceled)
		}
		return ctx.Err()
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	supersede := []asynq.Option{asynq.Queue("active"), asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Supersede)}
	if _, err := client.Enqueue(asynq.NewTask("t", []byte("stuck")), supersede...); err != nil {
		t.Fatal(err)
	}
	<-started
	enqueue(supersede...)
	<-canceled
}
