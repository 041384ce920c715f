package dash

import (
	"fmt"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// The dialog warns if archiving would delete tasks from a full archive.
func TestArchiveDiscards(t *testing.T) {
	t.Parallel()
	client, insp := tools(t, asynq.RedisClientOpt{Addr: proctest.StartRedis(t).Addr()})
	tasks := make([]*asynq.Task, asynq.ArchiveMaxTasks-2)
	for n := range tasks {
		tasks[n] = asynq.NewTask("old", nil)
	}
	for _, r := range client.BatchEnqueueContext(t.Context(), tasks) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if _, err := insp.ArchiveAllPendingTasks("default"); err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		enqueue(t, client, asynq.NewTask(fmt.Sprint("new:", n%2), nil))
	}
	d := drive(t, quick(client, insp))
	d.see("default")
	d.keys("enter")
	d.see("1–6 of 6")
	d.keys("A")
	d.see("Archive all 6 pending tasks of queue default?", "This deletes 4 tasks from the archive, oldest first (limit: 10,000).", "cannot be undone")
	d.keys("n /")
	d.typed("type:new:0")
	d.keys("enter")
	d.see("3 found")
	d.keys("A")
	d.see("that match type:new:0?", "This deletes 1 task from the archive, oldest first")
	d.keys("y")
	d.see("archived 3 tasks of queue default, deleted 1 task from the archive", "archived 10,000")
	d.keys("esc")
	d.see("1–3 of 3")
	d.keys("a")
	d.see("Archive task", "This deletes 1 task from the archive, oldest first")
	d.keys("n")
	if q, err := insp.GetQueueInfo("default"); err != nil || q.Archived != 10_000 || q.Pending != 3 {
		t.Errorf("%+v, error %v", q, err)
	}
}
