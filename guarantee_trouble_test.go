package asynq_test

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
	"github.com/asynq-go/asynq/internal/wire"
)

func TestGuarantee09BrokenQueue(t *testing.T) {
	t.Parallel()
	t.Run("with a key of a wrong type", func(t *testing.T) { everywhere(t, healthyBesideBroken) })
	t.Run("its shard is down", func(t *testing.T) {
		t.Parallel()
		t.Run("redis", func(t *testing.T) { deadShard(t) })
	})
	t.Run("an outage is no busy loop", func(t *testing.T) {
		everywhere(t, func(s *site) {
			p, opt := s.proxy()
			var ran tally
			s.serveOn(opt, asynq.Config{}, ran.handle)
			s.enqueue("before")
			s.awaitState("before", "")
			p.Down()
			const outage = time.Second
			before := p.Connections()
			<-time.After(outage) // what happens meanwhile is the subject
			if n := p.Connections() - before; n > 150 {
				s.t.Errorf("%d connections were tried in an outage of %v", n, outage)
			}
			p.Resume()
			s.enqueue("after")
			s.awaitState("after", "")
		})
	})
	t.Run("errors of Redis are no busy loop", func(t *testing.T) {
		everywhere(t, func(s *site) {
			p, opt := s.proxy()
			s.serveOn(opt, asynq.Config{}, func(context.Context, *asynq.Task) error { return errors.New("failed") })
			s.AllowViolations()
			s.redis.Set(context.Background(), s.queue.Pending(), "no list", 0)
			s.eventually(func() bool { return s.log.count("WRONGTYPE") > 0 }, "the error to be logged")
			before := p.Commands()
			<-time.After(time.Second) // what happens meanwhile is the subject
			if n := p.Commands() - before; n > 100 {
				s.t.Errorf("%d commands were sent in a second", n)
			}
			if n := len(s.log.String()); n > 20_000 {
				s.t.Errorf("%d bytes were logged", n)
			}
		})
	})
}

// healthyBesideBroken measures how long a queue takes beside others, each of which has another broken key, and alone.
func healthyBesideBroken(s *site) {
	s.AllowViolations()
	ctx := context.Background()
	p, opt := s.proxy()
	cfg := asynq.Config{Concurrency: 4, Queues: map[string]int{"default": 1}, ShutdownTimeout: time.Second}

	srv := s.serveOn(opt, cfg, func(context.Context, *asynq.Task) error { return nil })
	start := time.Now()
	s.enqueueMany(100)
	s.awaitEmpty()
	alone := time.Since(start)
	srv.Shutdown()

	for i, key := range []func(wire.Queue) string{
		wire.Queue.Pending, wire.Queue.Active, wire.Queue.Lease, wire.Queue.Scheduled, wire.Queue.Retry, wire.Queue.Archived,
		wire.Queue.Completed, wire.Queue.Processed, wire.Queue.Marker, wire.Queue.Paused,
	} {
		name := fmt.Sprint("broken", i)
		cfg.Queues[name] = 9
		if err := s.redis.SAdd(ctx, key(wire.DefaultNamespace.Queue(name)), "no such thing").Err(); err != nil {
			s.t.Fatal(err)
		}
		for _, opts := range [][]asynq.Option{{}, {asynq.ProcessIn(time.Second)}, {asynq.Retention(time.Second)}} {
			_, _ = s.client.Enqueue(asynq.NewTask("broken", nil), append(opts, asynq.Queue(name))...) // may be refused
		}
	}
	var ran tally
	s.serveOn(opt, cfg, func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "broken" {
			return nil
		}
		ran.add(task.Type())
		return nil
	})
	start = time.Now()
	s.enqueueMany(100)
	s.eventually(func() bool { return ran.different() == 100 }, "the tasks of the healthy queue to run")
	if beside, most := time.Since(start), 2*time.Second+10*alone; beside > most {
		s.t.Errorf("the healthy queue took %v beside broken ones, and %v alone", beside, alone)
	}
	start = time.Now()
	s.enqueue("delayed", asynq.ProcessIn(time.Second))
	s.eventually(func() bool { return ran.of("delayed") == 1 }, "a delayed task of the healthy queue to run")
	if d := time.Since(start); d > 8*time.Second { // what nothing tells of is looked for every 5 s
		s.t.Errorf("a delayed task of the healthy queue took %v", d)
	}
	s.awaitEmpty()
	before := p.Commands()
	<-time.After(500 * time.Millisecond) // what happens meanwhile is the subject
	if n := p.Commands() - before; n > 200 {
		s.t.Errorf("%d commands were sent in half a second", n)
	}
}

// deadShard kills one of the two masters of a cluster.
func deadShard(t *testing.T) {
	ctx := context.Background()
	args := []string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "60000"}
	s, first := onServer(t, args...)
	second := redistest.StartServer(t, args...)
	other := second.Client(t)
	do := func(client redis.UniversalClient, args ...any) {
		t.Helper()
		if err := client.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	do(s.redis, "cluster", "addslotsrange", 0, 8191)
	do(other, "cluster", "addslotsrange", 8192, 16383)
	host, port, err := net.SplitHostPort(second.Addr())
	if err != nil {
		t.Fatal(err)
	}
	do(s.redis, "cluster", "meet", host, port)
	for _, node := range []redis.UniversalClient{s.redis, other} {
		s.eventually(func() bool { return len(node.ClusterSlots(ctx).Val()) == 2 }, "both masters to know each other")
	}
	opt := asynq.RedisClusterClientOpt{Addrs: []string{first.Addr(), second.Addr()}, DialTimeout: time.Second}
	cluster, _ := opt.MakeRedisClient().(redis.UniversalClient)
	t.Cleanup(func() { _ = cluster.Close() })

	slot := func(queue string) int64 {
		return s.redis.ClusterKeySlot(ctx, wire.DefaultNamespace.Queue(queue).Pending()).Val()
	}
	var alive, dead string // queues on the first and the second
	for i := 0; alive == "" || dead == ""; i++ {
		if name := fmt.Sprint("q", i); slot(name) < 8192 {
			alive = name
		} else {
			dead = name
		}
	}
	client := asynq.NewClientFromRedisClient(cluster)
	enqueue := func(queue string) error {
		_, err := client.Enqueue(asynq.NewTask(queue, nil), asynq.Queue(queue))
		return err
	}
	for _, queue := range []string{alive, dead} {
		s.eventually(func() bool { return enqueue(queue) == nil }, "the cluster to come up")
	}
	ran := make(chan string, 1000)
	s.serveOn(opt, asynq.Config{Concurrency: 2, Queues: map[string]int{alive: 1, dead: 9}, ShutdownTimeout: time.Second},
		func(_ context.Context, task *asynq.Task) error {
			ran <- task.Type()
			return nil
		})
	got := map[string]int{receive(s, ran, "a task of either"): 1}
	got[receive(s, ran, "a task of either")]++
	if got[alive] != 1 || got[dead] != 1 {
		t.Fatalf("ran %v, want one of either queue", got)
	}
	s.eventually(func() bool { return len(other.Keys(ctx, "*:t:*").Val()) == 0 }, "the task to be settled")
	second.Kill()
	start := time.Now()
	var longest time.Duration
	for range 50 {
		began := time.Now()
		if err := enqueue(alive); err != nil {
			t.Fatalf("enqueue on the shard that lives: %v", err)
		}
		receive(s, ran, "a task on the shard that lives")
		longest = max(longest, time.Since(began))
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("50 tasks of the shard that lives took %v, one after the other, the longest %v", d, longest)
	}
}
