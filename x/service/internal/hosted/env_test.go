package hosted

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// timeout bounds each wait. It is long for busy machines.
const timeout = time.Minute

// env is a server that processes hosted tasks, with its own Redis.
type env struct {
	t         *testing.T
	client    *asynq.Client
	inspector *asynq.Inspector
	queues    map[string]string
}

// loopback permits connections to servers on this machine.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

var quiet = slog.New(slog.DiscardHandler)

func newEnv(t *testing.T, c Config) *env {
	t.Helper()
	set, err := New(c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	mini := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: mini.Addr()}
	s := &env{t: t, client: asynq.NewClient(opt), inspector: asynq.NewInspector(opt), queues: c.Queues()}
	queues := make(map[string]int)
	for _, queue := range s.queues {
		queues[queue] = 1
	}
	server := asynq.NewServer(opt, asynq.Config{
		Concurrency: 4, Queues: queues, Logger: asynq.NewSlogLogger(quiet), TaskCheckInterval: 20 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	if err := server.Start(set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Shutdown()
		_ = s.client.Close()
		_ = s.inspector.Close()
	})
	proctest.Eventually(t, "the server to subscribe to cancelations", func() bool {
		const channel = "asynq:cancel"
		return mini.PubSubNumSub(channel)[channel] > 0
	})
	return s
}

// enqueue enqueues a task with a retention.
func (s *env) enqueue(typename, payload string, opts ...asynq.Option) *asynq.TaskInfo {
	s.t.Helper()
	opts = append(opts, asynq.Queue(s.queues[typename]), asynq.Retention(time.Hour))
	info, err := s.client.Enqueue(asynq.NewTask(typename, []byte(payload)), opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	return info
}

// ended waits until an attempt of the task has ended.
func (s *env) ended(info *asynq.TaskInfo) *asynq.TaskInfo {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		now, err := s.inspector.GetTaskInfo(info.Queue, info.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		switch now.State {
		case asynq.TaskStateCompleted, asynq.TaskStateArchived, asynq.TaskStateRetry, asynq.TaskStateScheduled:
			return now
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			s.t.Fatalf("the task is still %v", now.State)
		}
	}
}

// run enqueues a task and waits for its attempt.
func (s *env) run(typename, payload string, opts ...asynq.Option) *asynq.TaskInfo {
	s.t.Helper()
	return s.ended(s.enqueue(typename, payload, opts...))
}

// expect checks the state of a task and a part of its last error.
func expect(t *testing.T, info *asynq.TaskInfo, state asynq.TaskState, lastError string) {
	t.Helper()
	if info.State != state || !strings.Contains(info.LastErr, lastError) || (lastError == "") != (info.LastErr == "") {
		t.Errorf("got %v, result %.200q, error %q; want %v and %q", info.State, info.Result, info.LastErr, state, lastError)
	}
}

// endless is an endless body.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

var _ io.Reader = endless{}
