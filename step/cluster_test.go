package step_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/step"
)

// On a Cluster, steps and signals work in any queue, because their scripts touch keys of one slot
// only, and a signal wakes the server of its queue.
func TestCluster(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	nodes, err := proctest.NewPrimaries(3)
	if err != nil {
		t.Fatal(err)
	}
	opt := asynq.RedisClusterClientOpt{}
	for _, node := range nodes {
		t.Cleanup(node.Close)
		opt.Addrs = append(opt.Addrs, node.Addr())
	}
	client, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	t.Cleanup(func() { _, _ = client.Close(), inspector.Close() })
	const queues = 12
	cfg := asynq.Config{Queues: make(map[string]int), Logger: asynq.NewSlogLogger(slog.New(slog.DiscardHandler))}
	for i := range queues {
		cfg.Queues[fmt.Sprint("q", i)] = 1
	}
	suspended, received := make(chan error, 100), make(chan int, queues)
	srv := asynq.NewServer(opt, cfg)
	err = srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		if _, err := step.Run(ctx, "a", func(context.Context) (int, error) { return 1, nil }); err != nil {
			return err
		}
		n, err := step.WaitSignal[int](ctx, "go", time.Hour)
		if err != nil {
			suspended <- err
			return err
		}
		received <- n
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	late := time.After(testenv.Timeout)
	for queue := range cfg.Queues {
		if _, err := client.Enqueue(asynq.NewTask("t", nil), asynq.Queue(queue), asynq.TaskID("a")); err != nil {
			t.Fatal(err)
		}
	}
	for range queues {
		select {
		case err := <-suspended:
			if !asynq.IsSnooze(err) {
				t.Fatal(err)
			}
		case <-late:
			t.Fatal("the tasks do not wait")
		}
	}
	for queue := range cfg.Queues {
		if steps, err := inspector.TaskSteps(t.Context(), queue, "a"); err != nil || len(steps.Steps) != 2 {
			t.Errorf("%+v, error %v", steps, err)
		}
		if err := client.Signal(t.Context(), queue, "a", "go", 7); err != nil {
			t.Error(err)
		}
	}
	for range queues {
		select {
		case n := <-received:
			if n != 7 {
				t.Errorf("received %d", n)
			}
		case <-late:
			t.Fatal("the tasks do not receive their signals")
		}
	}
}
