package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/testenv"
)

// On a Cluster, a server needs neither a connection nor a goroutine for each queue, and an idle one
// is woken by a task of any queue. The test is not parallel because it counts goroutines.
func TestManyQueuesOnCluster(t *testing.T) {
	const (
		queues, concurrency = 1000, 10
		maxConnections      = 4 // to each primary
		maxGoroutines       = 100
		maxPickup           = time.Second // median; without a wake-up it is a minute
	)
	ctx := context.Background()
	proctest.NeedRedis(t)
	nodes, err := proctest.NewPrimaries(3)
	if err != nil {
		t.Fatal(err)
	}
	opt := asynq.RedisClusterClientOpt{Params: "client_name=server"}
	for _, node := range nodes {
		t.Cleanup(node.Close)
		opt.Addrs = append(opt.Addrs, node.Addr())
	}
	weights := make(map[string]int, queues)
	for i := range queues {
		weights[fmt.Sprint("q", i)] = 1
	}
	starts := make(chan time.Time)
	next := func(what string) time.Time {
		t.Helper()
		select {
		case start := <-starts:
			return start
		case <-time.After(testenv.Timeout):
			t.Fatalf("timed out waiting for %s", what)
			return time.Time{}
		}
	}
	before := runtime.NumGoroutine()
	srv := asynq.NewServer(opt, asynq.Config{Concurrency: concurrency, Queues: weights, TaskCheckInterval: time.Minute})
	err = srv.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		starts <- time.Now()
		if task.Type() == "wait" {
			<-ctx.Done()
			starts <- time.Now()
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	opt.Params = "client_name=client"
	client := asynq.NewClient(opt)
	t.Cleanup(func() { _ = client.Close() })

	pickups := make([]time.Duration, 100)
	for i := range pickups {
		began := time.Now()
		if _, err := client.Enqueue(asynq.NewTask("t", nil), asynq.Queue(fmt.Sprint("q", rand.IntN(queues)))); err != nil {
			t.Fatal(err)
		}
		pickups[i] = next(fmt.Sprint("task ", i)).Sub(began)
	}
	// Neither does a server under load.
	var tasks []*asynq.Task
	for range 5 * queues {
		tasks = append(tasks, asynq.NewTask("t", nil))
	}
	enqueued := make(chan error, 1)
	go func() {
		for i, task := range tasks {
			if _, err := client.Enqueue(task, asynq.Queue(fmt.Sprint("q", i%queues))); err != nil {
				enqueued <- err
				return
			}
		}
		enqueued <- nil
	}()
	for range tasks {
		next("a task under load")
	}
	if err := <-enqueued; err != nil {
		t.Fatal(err)
	}

	if _, err := client.Enqueue(asynq.NewTask("wait", nil), asynq.Queue("q0"), asynq.TaskID("wait")); err != nil {
		t.Fatal(err)
	}
	next("the task that waits")
	in := asynq.NewInspector(opt)
	t.Cleanup(func() { _ = in.Close() })
	if err := in.CancelProcessing("wait"); err != nil {
		t.Fatal(err)
	}
	next("the cancellation")

	slices.Sort(pickups)
	median := pickups[len(pickups)/2]
	if median > maxPickup {
		t.Errorf("the median pickup takes %v, want at most %v", median, maxPickup)
	}
	// Goroutines and connections that are about to end still count.
	var goroutines int
	proctest.Eventually(t, fmt.Sprintf("at most %d goroutines beyond the slots", maxGoroutines), func() bool {
		goroutines = runtime.NumGoroutine() - before - concurrency
		return goroutines <= maxGoroutines
	})
	var connections []int
	for _, node := range nodes {
		c := redis.NewClient(&redis.Options{Addr: node.Addr()})
		proctest.Until(t, fmt.Sprintf("at most %d connections to a primary", maxConnections), func() error {
			list, err := c.ClientList(ctx).Result()
			if n := strings.Count(list, "name=server "); err == nil && n > maxConnections {
				return errors.New(list)
			} else if err == nil {
				connections = append(connections, n)
			}
			return err
		})
		_ = c.Close()
	}
	t.Logf("pickup p50 %v, p99 %v; %d goroutines beyond the slots; connections %v", median, pickups[98], goroutines, connections)
}
