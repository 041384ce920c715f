package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestGuarantee09BrokenQueue(t *testing.T) {
	t.Parallel()
	t.Run("a key has the wrong type", func(t *testing.T) { testenv.Each(t, healthyBesideBroken) })
	t.Run("a shard is down", func(t *testing.T) {
		t.Parallel()
		t.Run("redis", func(t *testing.T) { deadShard(t, 1, false) })
		t.Run("redis, several queues", func(t *testing.T) { deadShard(t, 5, false) })
	})
	t.Run("a shard hangs", func(t *testing.T) {
		t.Parallel()
		t.Run("redis", func(t *testing.T) { deadShard(t, 1, true) })
		t.Run("redis, several queues", func(t *testing.T) { deadShard(t, 5, true) })
	})
	t.Run("no busy loop in an outage", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			p, opt := env.Proxy()
			var ran testenv.Tally
			env.ServeOn(opt, asynq.Config{}, ran.Handle)
			env.Enqueue("before")
			env.AwaitState("before", "")
			p.Down()
			before, start := p.Connections(), time.Now()
			<-time.After(time.Second) // the period that is measured
			if n, outage := p.Connections()-before, time.Since(start); float64(n) > 150*outage.Seconds() {
				env.T.Errorf("%d connection attempts in an outage of %v", n, outage)
			}
			p.Resume()
			env.Enqueue("after")
			env.AwaitState("after", "")
		})
	})
	t.Run("no busy loop on errors of Redis", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			p, opt := env.Proxy()
			env.ServeOn(opt, asynq.Config{}, func(context.Context, *asynq.Task) error { return errors.New("failed") })
			env.AllowViolations()
			env.RDB.Set(context.Background(), env.Queue.Pending(), "not a list", 0)
			env.Eventually(func() bool { return env.Log.Count("WRONGTYPE") > 0 }, "the error to be logged")
			before, start := p.Commands(), time.Now()
			<-time.After(time.Second) // the period that is measured
			if n, per := p.Commands()-before, time.Since(start); float64(n) > 100*per.Seconds() {
				env.T.Errorf("%d commands in %v", n, per)
			}
			if n := len(env.Log.String()); n > 20_000 {
				env.T.Errorf("%d bytes of log", n)
			}
		})
	})
}

// healthyBesideBroken compares the time that a queue takes alone with the time it takes beside
// queues that each have a different broken key.
func healthyBesideBroken(env *testenv.Env) {
	env.AllowViolations()
	ctx := context.Background()
	p, opt := env.Proxy()
	cfg := asynq.Config{Concurrency: 4, Queues: map[string]int{"default": 1}, ShutdownTimeout: time.Second}

	srv := env.ServeOn(opt, cfg, func(context.Context, *asynq.Task) error { return nil })
	start := time.Now()
	env.EnqueueMany(100)
	env.AwaitEmpty()
	alone := time.Since(start)
	srv.Shutdown()

	for i, key := range []func(wire.Queue) string{
		wire.Queue.Pending, wire.Queue.Active, wire.Queue.Lease, wire.Queue.Scheduled, wire.Queue.Retry, wire.Queue.Archived,
		wire.Queue.Completed, wire.Queue.Processed, wire.Queue.Marker, wire.Queue.Paused,
	} {
		name := fmt.Sprint("broken", i)
		cfg.Queues[name] = 9
		if err := env.RDB.SAdd(ctx, key(wire.DefaultNamespace.Queue(name)), "wrong type").Err(); err != nil {
			env.T.Fatal(err)
		}
		for _, opts := range [][]asynq.Option{{}, {asynq.ProcessIn(time.Second)}, {asynq.Retention(time.Second)}} {
			_, _ = env.Client.Enqueue(asynq.NewTask("broken", nil), append(opts, asynq.Queue(name))...) // may be rejected
		}
	}
	var ran testenv.Tally
	env.ServeOn(opt, cfg, func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "broken" {
			return nil
		}
		ran.Add(task.Type())
		return nil
	})
	start = time.Now()
	env.EnqueueMany(100)
	env.Eventually(func() bool { return ran.Distinct() == 100 }, "the tasks of the healthy queue to run")
	if beside, most := time.Since(start), 2*time.Second+10*alone+testenv.Slack; beside > most {
		env.T.Errorf("the healthy queue took %v beside broken queues, %v alone", beside, alone)
	}
	start = time.Now()
	env.Enqueue("delayed", asynq.ProcessIn(time.Second))
	env.Eventually(func() bool { return ran.Of("delayed") == 1 }, "a delayed task of the healthy queue to run")
	if d := time.Since(start); d > 8*time.Second+testenv.Slack { // without a wake-up, delayed tasks are polled every 5 s
		env.T.Errorf("a delayed task of the healthy queue took %v", d)
	}
	env.AwaitEmpty()
	before, start := p.Commands(), time.Now()
	<-time.After(500 * time.Millisecond) // the period that is measured
	if n, per := p.Commands()-before, time.Since(start); float64(n) > 400*per.Seconds() {
		env.T.Errorf("%d commands in %v", n, per)
	}
}

// deadShard kills one of the two masters of a cluster, or makes it hang. The server processes n
// queues of each.
func deadShard(t *testing.T, n int, hangs bool) {
	ctx := context.Background()
	args := []string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "60000"}
	env, first := testenv.OnServer(t, args...)
	second := redistest.StartServer(t, args...)
	other := second.Client(t)
	do := func(client redis.UniversalClient, args ...any) {
		t.Helper()
		if err := client.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	do(env.RDB, "cluster", "addslotsrange", 0, 8191)
	do(other, "cluster", "addslotsrange", 8192, 16383)
	host, port, err := net.SplitHostPort(second.Addr())
	if err != nil {
		t.Fatal(err)
	}
	do(env.RDB, "cluster", "meet", host, port)
	for _, node := range []redis.UniversalClient{env.RDB, other} {
		env.Eventually(func() bool { return len(node.ClusterSlots(ctx).Val()) == 2 }, "the masters to see each other")
	}
	opt := asynq.RedisClusterClientOpt{Addrs: []string{first.Addr(), second.Addr()}, DialTimeout: time.Second}
	cluster, _ := opt.MakeRedisClient().(redis.UniversalClient)
	t.Cleanup(func() { _ = cluster.Close() })

	slot := func(queue string) int64 {
		return env.RDB.ClusterKeySlot(ctx, wire.DefaultNamespace.Queue(queue).Pending()).Val()
	}
	queues := make(map[string]int)
	var alive, dead string // queues on the first and the second shard
	for i, first, second := 0, 0, 0; first < n || second < n; i++ {
		if name := fmt.Sprint("q", i); slot(name) < 8192 {
			alive, queues[name] = name, 1
			first++
		} else {
			dead, queues[name] = name, 9
			second++
		}
	}
	client := asynq.NewClientFromRedisClient(cluster)
	enqueue := func(queue string) error {
		_, err := client.Enqueue(asynq.NewTask(queue, nil), asynq.Queue(queue))
		return err
	}
	for _, queue := range []string{alive, dead} {
		env.Eventually(func() bool { return enqueue(queue) == nil }, "the cluster to come up")
	}
	ran, proceed := make(chan string, 1000), make(chan struct{})
	env.ServeOn(opt, asynq.Config{Concurrency: 2, Queues: queues, ShutdownTimeout: time.Second},
		func(_ context.Context, task *asynq.Task) error {
			ran <- task.Type()
			if task.Type() == dead {
				<-proceed
			}
			return nil
		})
	got := map[string]int{testenv.Await(env, ran, "a task of each queue"): 1}
	got[testenv.Await(env, ran, "a task of each queue")]++
	if got[alive] != 1 || got[dead] != 1 {
		t.Fatalf("ran %v, want one task of each queue", got)
	}
	for range 4 { // one of them runs beside the first task; the others wait
		env.Eventually(func() bool { return enqueue(dead) == nil }, "a task to be enqueued")
	}
	if queue := testenv.Await(env, ran, "a second task on the other shard"); queue != dead {
		t.Fatalf("ran a task of %s, want one of %s", queue, dead)
	}
	if hangs {
		do(other, "client", "pause", 60_000, "all")
	} else {
		second.Kill()
	}
	close(proceed) // the server settles the tasks of that shard and requests more for all of its slots
	start := time.Now()
	for range 50 {
		if err := enqueue(alive); err != nil {
			t.Fatalf("enqueue on the healthy shard: %v", err)
		}
		testenv.Await(env, ran, "a task on the healthy shard")
	}
	if d := time.Since(start); d > 5*time.Second+testenv.Slack { // 50 tasks that waited for the other shard would take longer
		t.Errorf("50 sequential tasks of the healthy shard took %v", d)
	}
}
