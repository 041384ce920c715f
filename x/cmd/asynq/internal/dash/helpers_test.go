package dash

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// each runs a test on miniredis and on a real Redis.
func each(t *testing.T, f func(t *testing.T, r asynq.RedisClientOpt)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		mini := miniredis.NewMiniRedis() // it is not closed: version 2.40 panics if it receives INFO meanwhile
		if err := mini.Start(); err != nil {
			t.Fatal(err)
		}
		f(t, asynq.RedisClientOpt{Addr: mini.Addr()})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f(t, asynq.RedisClientOpt{Addr: proctest.StartRedis(t).Addr()})
	})
}

// tools returns a client and an inspector, which are closed at the end of the test.
func tools(t *testing.T, r asynq.RedisConnOpt) (*asynq.Client, *asynq.Inspector) {
	t.Helper()
	client, insp := asynq.NewClient(r), asynq.NewInspector(r)
	t.Cleanup(func() {
		_ = client.Close()
		_ = insp.Close()
	})
	return client, insp
}

func enqueue(t *testing.T, c *asynq.Client, task *asynq.Task, opts ...asynq.Option) string {
	t.Helper()
	info, err := c.EnqueueContext(context.Background(), task, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// start starts a server that stops at the end of the test.
func start(t *testing.T, r asynq.RedisConnOpt, h asynq.HandlerFunc, queues ...string) {
	t.Helper()
	cfg := asynq.Config{
		Concurrency: 4, Queues: map[string]int{}, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	}
	for _, q := range queues {
		cfg.Queues[q] = 1
	}
	s := asynq.NewServer(r, cfg)
	if err := s.Start(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
}
