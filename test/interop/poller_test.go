package interop

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

// TestReferenceListsWorkers verifies that the reference lists a worker that takes tasks from
// two Receivers as one server, with its host, process, queue and task, and lists no other.
func TestReferenceListsWorkers(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	receiver := func() *asynq.Receiver {
		t.Helper()
		receiver := asynq.NewReceiver(asynq.RedisClientOpt{Addr: s.addr}, asynq.ReceiverConfig{
			Queues: map[string]int{"default": 1, "nobody": 1}, Logger: asynq.NewSlogLogger(slog.New(slog.DiscardHandler)),
		})
		s.must(receiver.Start())
		t.Cleanup(receiver.Shutdown)
		return receiver
	}
	one, two := receiver(), receiver()
	const worker = "web-1:4711"
	s.enqueue(s.client(libraries["theirs"]), side.Task{Type: "type", ID: "task"})
	leases, err := one.ReceiveAs(ctx, worker, 1, "default")
	s.must(err)
	lease, err := two.OpenLease(ctx, leases[0].Ref())
	s.must(err)
	_, err = lease.Extend(ctx)
	s.must(err)
	for _, t := range []*asynq.Receiver{one, two} {
		go func() { _, _ = t.ReceiveAs(ctx, worker, 1, "default") }() // until the test ends
	}
	want := side.ServerInfo{PID: 4711, Status: "active", Queues: map[string]int{"default": 1}, Workers: map[string]string{"task": "type"}}
	inspector := s.inspector(libraries["theirs"])
	proctest.Eventually(t, "the reference lists the worker, and nothing else", func() bool {
		servers, err := inspector.Servers()
		s.must(err)
		if len(servers) != 1 {
			return false
		}
		got := servers[0]
		got.ID, got.Concurrency = "", 0
		return cmp.Equal(got, want)
	})
	s.must(lease.Complete(ctx, nil))
}
