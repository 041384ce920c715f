package metrics_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/metrics"
)

// The partitions with the most tasks have series of their own, and the others of a queue share one.
func TestPartitions(t *testing.T) {
	t.Parallel()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client, inspector := asynq.NewClient(opt), newInspector(t, opt)
	t.Cleanup(func() { _ = client.Close() })
	for queue, keys := range map[string]map[string]int{"a": {"big": 5, "other": 4, "": 3, "tiny": 2}, "b": {"small": 2}, "plain": {"": 1}} {
		for key, n := range keys {
			for range n {
				opts := []asynq.Option{asynq.Queue(queue)}
				if key != "" {
					opts = append(opts, asynq.PartitionKey(key))
				}
				if _, err := client.Enqueue(asynq.NewTask("t", nil), opts...); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	one := asynq.QueueConfig{Partitions: &asynq.PartitionConfig{Concurrency: 1}}
	srv := asynq.NewServer(opt, asynq.Config{
		Concurrency: 20, Queues: map[string]int{"a": 1, "b": 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond,
		QueueConfigs: map[string]asynq.QueueConfig{"a": one, "b": one},
	})
	if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		<-ctx.Done()
		return errors.New("the server shuts down")
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	proctest.Eventually(t, "a task of each partition to start", func() bool {
		a, err := inspector.GetQueueInfo("a")
		b, err2 := inspector.GetQueueInfo("b")
		return err == nil && err2 == nil && a.Active == 4 && b.Active == 1
	})
	got := gather(t, metrics.NewCollector(inspector, metrics.CollectorOptions{Partitions: 2, MemorySamples: -1}))
	wantValues(t, got, map[string]float64{
		"asynq_scrape_success{part=partitions}":                       1,
		"asynq_queue_partitions{queue=a}":                             4,
		"asynq_queue_partitions{queue=b}":                             1,
		"asynq_partition_tasks{partition=big,queue=a,state=held}":     4,
		"asynq_partition_tasks{partition=big,queue=a,state=active}":   1,
		`asynq_partition_tasks{partition="other",queue=a,state=held}`: 3,
		"asynq_partition_tasks{partition=other,queue=a,state=held}":   3,
		"asynq_partition_tasks{partition=other,queue=a,state=active}": 2,
		"asynq_partition_tasks{partition=other,queue=b,state=held}":   1,
		"asynq_queue_tasks{queue=a,state=held}":                       10,
		"asynq_queue_tasks{queue=a,state=scheduled}":                  0,
		"asynq_tasks_enqueued_total{queue=a,state=scheduled}":         10,
		"asynq_queue_tasks{queue=plain,state=held}":                   0,
	})
	if wait := got["asynq_partition_wait_seconds{partition=big,queue=a}"]; !(wait > 0) {
		t.Errorf("the tasks of big have been waiting for %v s", wait)
	}
	if _, ok := got["asynq_queue_partitions{queue=plain}"]; ok {
		t.Error("a queue without partitions has their number")
	}
	for _, name := range []string{"asynq_partition_tasks{partition=tiny,queue=a,state=held}", "asynq_partition_tasks{partition=small,queue=b,state=held}"} {
		if _, ok := got[name]; ok {
			t.Errorf("%s has a series", name)
		}
	}
}
