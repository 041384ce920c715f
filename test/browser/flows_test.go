package browser_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

// A blocked flow says why; it is retried, and a node of it is skipped. The graph follows.
func TestFlows(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	client := asynq.NewClient(s.redis)
	t.Cleanup(func() { _ = client.Close() })
	f := flow.New("order-42")
	charge := f.Add("charge", asynq.NewTask("charge", nil), asynq.Queue("orders"))
	pack := f.AddBatch("pack", []*asynq.Task{asynq.NewTask("pack", []byte("book")), asynq.NewTask("pack", []byte("unicorn"))},
		asynq.Queue("orders"), asynq.Retention(1e12)).After(charge)
	f.Add("ship", asynq.NewTask("ship", nil), asynq.Queue("orders")).After(pack)
	f.Add("refund", asynq.NewTask("refund", nil), asynq.Queue("orders")).AfterFailure(pack)
	if _, err := flow.Start(t.Context(), client, f); err != nil {
		t.Fatal(err)
	}
	ran := make(chan string, 10)
	server := asynq.NewServer(s.redis, asynq.Config{Concurrency: 1, Queues: map[string]int{"orders": 1}, LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		defer func() { ran <- task.Type() }()
		if string(task.Payload()) == "unicorn" {
			return fmt.Errorf("out of stock: %w", asynq.SkipRetry)
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	for range 4 {
		await(t, ran, "a task")
	}

	b := open(t, s.url)
	b.visit("/")
	b.click("nav a[href$='/flows']", "Flows")
	b.says("1 flow", "blocked", "3 of 5")
	b.accessible("flows")
	b.click("main tbody th a", "order-42")
	b.says("1 task of pack failed, and other nodes wait for this.", "failed · 1 of 2, 1 failed")
	b.accessible("a flow")
	b.click("main button[value=retry]", "Retry failed tasks")
	b.says("1 task will run again.")
	await(t, ran, "the failed task")
	b.says("failed · 1 of 2, 1 failed")
	b.click("main button[value=skip]", "Skip…")
	b.asked("Skip the node pack?")
	b.click("#question button", "Skip the node")
	b.says("Node skipped.")
	await(t, ran, "the task after it")
	b.says("succeeded", "skipped · 1 of 2, 1 failed") // live
}
