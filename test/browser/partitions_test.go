package browser_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Partitions are found from the page of their queue, paused, and given limits.
func TestPartitions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, key := range []string{"acme", "initech"} {
		for n := range 3 {
			s.add(t, "hook", "", asynq.Queue("hooks"), asynq.PartitionKey(key), asynq.TaskID(fmt.Sprint(key, n)))
		}
	}
	began := make(chan string, 10)
	server := asynq.NewServer(s.redis, asynq.Config{
		Concurrency: 10, Queues: map[string]int{"hooks": 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond,
		QueueConfigs: map[string]asynq.QueueConfig{"hooks": {Partitions: &asynq.PartitionConfig{Concurrency: 1}}},
	})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		began <- id
		<-ctx.Done()
		return ctx.Err()
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	await(t, began, "a task")
	await(t, began, "a task of the other partition")

	b := open(t, s.url)
	b.visit("/queues")
	b.click("main tbody th a", "hooks")
	b.says("4 tasks wait for their partitions.")
	b.click("main a", "Partitions")
	b.says("2 partitions with 4 held tasks and 2 active", "at its limit")
	b.accessible("partitions")
	b.click("main tbody tr:first-child button[value=pause]", "")
	b.says("Partition paused.", "paused")

	b.click("main tbody th a", "initech")
	b.says("Own limits")
	b.accessible("a partition")
	b.write("main input[name=concurrency]", "2")
	b.write("main input[name=weight]", "3")
	b.click("main button[value=set]", "Save limits")
	b.says("Limits saved.", "2 at once, weight 3")
	if id := await(t, began, "another task of initech"); id != "initech1" {
		t.Errorf("%s started", id)
	}
	b.click("main button[value=delete]", "Delete tasks…")
	b.asked("Delete the tasks of initech?")
	b.click("#question button", "Delete tasks")
	b.says("tasks deleted.") // two or three: the last one may have started meanwhile
}
