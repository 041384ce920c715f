//go:build unix

package guarantee_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/testenv"
)

// Partitions keep their limit and their order if a server is killed, or stopped for longer than its
// leases.
func TestPartitionsOfCrashedServers(t *testing.T) {
	for name, signal := range map[string]os.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				const keys, tasks = 5, 6
				for k := range keys {
					enqueueKeyed(env, "k"+strconv.Itoa(k), tasks)
				}
				child := startCrashable(env, crashablePartitionsEnv+"=1")
				child.awaitTasks(env, keys) // the first one of each partition
				var mu sync.Mutex
				done := map[string]int{}
				cfg := partitioned(10, orderedPartitions)
				cfg.LeaseDuration = time.Second
				cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Millisecond }
				cfg.DelayedTaskCheckInterval = 10 * time.Millisecond
				env.Serve(cfg, func(ctx context.Context, task *asynq.Task) error {
					id, _ := asynq.GetTaskID(ctx)
					n, _ := strconv.Atoi(string(task.Payload()))
					active := 0
					for _, other := range env.RDB.LRange(ctx, env.Queue.Active(), 0, -1).Val() {
						if strings.HasPrefix(other, id[:2]) {
							active++
						}
					}
					mu.Lock()
					defer mu.Unlock()
					if done[id[:2]] != n || active != 1 {
						env.T.Errorf("%s runs after %d tasks of its partition, of which %d are active", id, done[id[:2]], active)
					}
					done[id[:2]]++
					return nil
				})
				env.NoError(child.cmd.Process.Signal(signal))
				env.AwaitEmpty()
				child.kill()
				for k := range keys {
					if n := done["k"+strconv.Itoa(k)]; n != tasks {
						env.T.Errorf("%d tasks of partition %d ran, want %d", n, k, tasks)
					}
				}
			})
		})
	}
}

// The next task of a partition starts soon after the last one ended, on whichever server, also if
// another queue has got the slot of the server where it ended.
func TestPartitionWakeLatency(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const tasks = 40
		var mu sync.Mutex
		var ended time.Time
		var gaps []time.Duration
		handler := func(ctx context.Context, task *asynq.Task) error {
			if queue, _ := asynq.GetQueueName(ctx); queue != "default" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if !ended.IsZero() {
				gaps = append(gaps, time.Since(ended))
			}
			ended = time.Now()
			return nil
		}
		cfg := partitioned(1, asynq.PartitionConfig{Concurrency: 1})
		cfg.TaskCheckInterval = time.Minute
		cfg.Queues, cfg.StrictPriority = map[string]int{"default": 1, "other": 2}, true
		env.EnqueueMany(50, asynq.Queue("other"))
		enqueueKeyed(env, "a", tasks)
		for range 2 {
			env.Serve(cfg, handler)
		}
		env.AwaitEmpty()
		slices.Sort(gaps)
		env.T.Logf("median %v, longest %v", gaps[len(gaps)/2], gaps[len(gaps)-1])
		if gap := gaps[len(gaps)/2]; gap > 100*time.Millisecond {
			env.T.Errorf("the median time to the start of the next task is %v", gap)
		}
		if gap := gaps[len(gaps)-1]; gap > 4*time.Second { // without names of ended tasks it is 5 seconds
			env.T.Errorf("the longest time to the start of the next task is %v", gap)
		}
	})
}

// An idle server with held tasks sends few commands.
func TestIdleServerWithHeldTasks(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("first")
		env.NoError(env.Inspector().PausePartition(env.Context(), "default", "a"))
		enqueueKeyed(env, "a", 100)
		p, opt := env.Proxy()
		env.ServeOn(opt, asynq.Config{QueueConfigs: map[string]asynq.QueueConfig{"default": {Partitions: &asynq.PartitionConfig{Concurrency: 2}}}},
			func(context.Context, *asynq.Task) error { return nil })
		env.AwaitState("first", "")
		env.Eventually(func() bool {
			before, start := p.Commands(), time.Now()
			<-time.After(2 * time.Second) // the commands of this period are counted
			n, per := p.Commands()-before, time.Since(start)
			env.T.Logf("%d commands in %v", n, per)
			return float64(n) <= 6*per.Seconds()
		}, "an idle server to send at most 6 commands a second")
	})
}

// On a Cluster, partitions work in any queue, because the script touches keys of one slot only.
func TestPartitionsOnCluster(t *testing.T) {
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
	client := asynq.NewClient(opt)
	t.Cleanup(func() { _ = client.Close() })
	const queues, keys, each = 10, 3, 10
	cfg := asynq.Config{Concurrency: 10, Queues: map[string]int{}, QueueConfigs: map[string]asynq.QueueConfig{}, LogLevel: asynq.FatalLevel}
	var tasks []*asynq.Task
	for q := range queues {
		queue := fmt.Sprint("q", q)
		cfg.Queues[queue], cfg.QueueConfigs[queue] = 1, asynq.QueueConfig{Partitions: &orderedPartitions}
		for i := range keys * each {
			key := fmt.Sprint("k", i%keys)
			payload := fmt.Sprintf("%s/%s %d", queue, key, i/keys)
			tasks = append(tasks, asynq.NewTask("t", []byte(payload), asynq.Queue(queue), asynq.PartitionKey(key)))
		}
	}
	for i, r := range client.BatchEnqueueContext(context.Background(), tasks) {
		if r.Err != nil {
			t.Fatalf("task %d: %v", i, r.Err)
		}
	}
	var mu sync.Mutex
	done, total, all := map[string]int{}, 0, make(chan struct{})
	srv := asynq.NewServer(opt, cfg)
	if err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		lane, number, _ := strings.Cut(string(task.Payload()), " ")
		mu.Lock()
		defer mu.Unlock()
		if n, _ := strconv.Atoi(number); done[lane] != n {
			t.Errorf("task %d of %s runs after %d others", n, lane, done[lane])
		}
		done[lane]++
		if total++; total == len(tasks) {
			close(all)
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Errorf("the tasks did not end within a minute: %v", done)
	}
	srv.Shutdown()
}
