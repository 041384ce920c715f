package interop

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

// TestReferenceIgnoresCommands verifies that servers and inspectors of the reference ignore the
// messages and keys of commands to servers, and that an Inspector refuses commands to a server of
// the reference with an error that says why.
func TestReferenceIgnoresCommands(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	theirs := libraries["theirs"]
	running, canceled, end := make(chan string, 10), make(chan string, 10), make(chan struct{})
	s.serve(theirs, side.Config{Concurrency: 3}, func(ctx context.Context, j *side.Job) error {
		running <- j.ID
		if j.Type == "long" {
			select {
			case <-ctx.Done():
				canceled <- j.ID
			case <-end:
			}
		}
		return nil
	})
	client, reference := s.client(theirs), s.inspector(theirs)
	s.enqueue(client, side.Task{Type: "long", ID: "long"})
	receive(s, running, "the long task to start")
	var theirID string
	proctest.Eventually(t, "the server of the reference", func() bool {
		servers, err := reference.Servers()
		s.must(err)
		if len(servers) == 1 {
			theirID = servers[0].ID
		}
		return theirID != ""
	})

	ours := asynq.NewServer(asynq.RedisClientOpt{Addr: s.addr}, asynq.Config{
		Concurrency: 2, Queues: map[string]int{"ours": 1}, Logger: asynq.NewSlogLogger(slog.New(slog.DiscardHandler)),
	})
	s.must(ours.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	t.Cleanup(ours.Shutdown)
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: s.addr})
	t.Cleanup(func() { _ = inspector.Close() }) // end of the test
	var ourID string
	proctest.Eventually(t, "both servers", func() bool {
		servers, err := inspector.Servers()
		s.must(err)
		for _, srv := range servers {
			if srv.ID != theirID {
				ourID = srv.ID
			}
		}
		return len(servers) == 2
	})
	ctx := t.Context()
	for what, command := range map[string]func(id string) error{
		"quiet":       func(id string) error { return inspector.QuietServer(ctx, id) },
		"stop":        func(id string) error { return inspector.StopServer(ctx, id) },
		"concurrency": func(id string) error { return inspector.SetServerConcurrency(ctx, id, 7) },
		"pause":       func(id string) error { return inspector.PauseServerQueue(ctx, id, "default") },
		"resume":      func(id string) error { return inspector.ResumeServerQueue(ctx, id, "default") },
	} {
		err := command(theirID)
		if !errors.Is(err, asynq.ErrRemoteControl) || !strings.Contains(err.Error(), "a server of another library") || !strings.Contains(err.Error(), theirID) {
			t.Errorf("%s of a server of the reference: %v", what, err)
		}
	}
	s.must(inspector.SetServerConcurrency(ctx, ourID, 9))
	s.must(inspector.PauseServerQueue(ctx, ourID, "ours"))
	// A message for a server of the reference, as of a program that does not check first.
	s.must(s.redis.Publish(ctx, "asynq:cancel", "\x00control\x00"+theirID).Err())
	if n := len(s.redis.Keys(ctx, "asynq:servers:*:replies").Val()); n != 1 {
		t.Errorf("%d keys of replies", n)
	}

	servers, err := reference.Servers()
	s.must(err)
	for _, srv := range servers {
		switch {
		case srv.ID == theirID && srv.Concurrency == 3 && srv.Status == "active":
		case srv.ID == ourID && srv.Concurrency == 9 && srv.Status == "active":
		default:
			t.Errorf("the reference lists %+v", srv)
		}
	}
	if len(servers) != 2 {
		t.Errorf("the reference lists %d servers", len(servers))
	}
	s.enqueue(client, side.Task{Type: "short", ID: "short"})
	if id := receive(s, running, "another task of the reference"); id != "short" {
		t.Errorf("%s has started", id)
	}
	select {
	case id := <-canceled:
		t.Errorf("%s was canceled", id)
	default:
	}
	s.must(reference.Cancel("long")) // its subscription still works
	if id := receive(s, canceled, "the cancellation"); id != "long" {
		t.Errorf("%s was canceled", id)
	}
	close(end)
	s.must(inspector.QuietServer(ctx, ourID))
}
