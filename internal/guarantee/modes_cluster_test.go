package guarantee_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// On a Cluster, the modes work in any queue, because their scripts touch keys of one slot only. A
// task cannot move between queues.
func TestModesOnCluster(t *testing.T) {
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
	var tasks []*asynq.Task
	for i := range 20 {
		for _, opts := range [][]asynq.Option{
			{asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Replace)},
			{asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Replace), asynq.ProcessIn(time.Hour)},
			{asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Keep)},
			{asynq.Debounce("d", time.Hour, 0)},
			{asynq.Throttle("f", time.Hour), asynq.OnDuplicate(asynq.Replace)},
			{asynq.Throttle("f", time.Hour), asynq.OnDuplicate(asynq.Replace)},
		} {
			tasks = append(tasks, asynq.NewTask("t", []byte("new"), append(opts, asynq.Queue(fmt.Sprint("q", i)))...))
		}
	}
	for range 2 {
		for i, r := range client.BatchEnqueueContext(context.Background(), tasks) {
			if r.Err != nil {
				t.Fatalf("task %d: %v", i, r.Err)
			}
		}
	}
	for i := range 20 {
		info, err := inspector.GetQueueInfo(fmt.Sprint("q", i))
		if err != nil || info.Size != 4 || info.Scheduled != 3 {
			t.Errorf("queue %d: %+v, error %v", i, info, err)
		}
	}
	kept, err := client.Enqueue(tasks[2])
	if err != nil {
		t.Fatal(err)
	}
	if info, err := inspector.UpdateTask(context.Background(), "q0", kept.ID, []byte("newer"), asynq.MaxRetry(1)); err != nil || string(info.Payload) != "newer" {
		t.Errorf("an update: %+v, error %v", info, err)
	}
	if _, err := inspector.UpdateTask(context.Background(), "q0", kept.ID, nil, asynq.Queue("q1")); err == nil || !strings.Contains(err.Error(), "Cluster") {
		t.Errorf("a move to another slot: error %v", err)
	}
}
