package guarantee_test

import (
	"context"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/testenv"
)

// On a Cluster, where the message that wakes a server shares a connection with the announcements of
// tasks, a command is executed at once, and not with the next heartbeat; and tasks still wake the
// server.
func TestCommandsOnCluster(t *testing.T) {
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
	ctx := context.Background()
	client, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	t.Cleanup(func() { _, _ = client.Close(), inspector.Close() })
	ran := make(chan string, 100)
	serve := func(queue string) {
		t.Helper()
		srv := asynq.NewServer(opt, asynq.Config{
			Queues: map[string]int{queue: 1, "shared": 1}, TaskCheckInterval: time.Minute, Logger: testenv.DiscardLogger(),
		})
		if err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error { ran <- task.Type(); return nil })); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
	}
	serve("a")
	serve("b")
	ids := make(map[string]string) // by queue
	proctest.Eventually(t, "both servers", func() bool {
		servers, err := inspector.Servers()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range servers {
			for queue := range s.Queues {
				ids[queue] = s.ID
			}
		}
		return ids["a"] != "" && ids["b"] != ""
	})
	const commands = 12
	began := time.Now()
	for n := range commands {
		if err := inspector.SetServerConcurrency(ctx, ids["a"], n+1); err != nil {
			t.Fatal(err)
		}
	}
	// A command that waited for the heartbeat, every 5 s, would wait nearly 5 s after the one
	// before.
	if took := time.Since(began); took > commands*5*time.Second/2 {
		t.Errorf("%d commands took %v", commands, took)
	}
	servers, err := inspector.Servers()
	if err != nil || len(servers) != 2 {
		t.Fatalf("servers %v, error %v", servers, err)
	}
	for _, s := range servers {
		if changed := s.Concurrency == commands; changed != (s.ID == ids["a"]) {
			t.Errorf("server %s has concurrency %d", s.ID, s.Concurrency)
		}
	}
	if err := inspector.PauseServerQueue(ctx, ids["b"], "b"); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"b", "a", "shared"} {
		if _, err := client.Enqueue(asynq.NewTask(queue, nil, asynq.Queue(queue))); err != nil {
			t.Fatal(err)
		}
	}
	await := func() string {
		t.Helper()
		select {
		case typename := <-ran:
			return typename
		case <-time.After(testenv.Timeout):
			t.Fatal("no task ran")
			return ""
		}
	}
	if first, second := await(), await(); first == second || first == "b" || second == "b" {
		t.Errorf("%s and %s ran", first, second)
	}
	if err := inspector.ResumeServerQueue(ctx, ids["b"], "b"); err != nil {
		t.Fatal(err)
	}
	if typename := await(); typename != "b" {
		t.Errorf("%s ran", typename)
	}
}
