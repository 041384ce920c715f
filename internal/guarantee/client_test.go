package guarantee_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

func TestClientUsesTheClockOfTheConnection(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		now := time.Now().Add(1000 * time.Hour).Truncate(time.Second)
		opt := asynq.WithClock(env.Opt(), func() time.Time { return now })
		for name, client := range map[string]*asynq.Client{
			"given":             env.NewClient(opt),
			"under a namespace": env.NewClient(asynq.WithNamespace(opt, "asynq")),
			"over a namespace":  env.NewClient(asynq.WithClock(asynq.WithNamespace(env.Opt(), "asynq"), func() time.Time { return now })),
		} {
			later := asynq.NewTask("test", nil, asynq.ProcessIn(time.Hour))
			over := asynq.NewTask("test", nil, asynq.ProcessAt(now.Add(-time.Hour)))
			results := client.BatchEnqueueContext(context.Background(), []*asynq.Task{later, over})
			single, err := client.Enqueue(later)
			if err != nil || results[0].Err != nil || results[1].Err != nil {
				env.T.Fatalf("%s: %v, %+v", name, err, results)
			}
			for _, info := range []*asynq.TaskInfo{single, results[0].TaskInfo} {
				if want := now.Add(time.Hour); !info.NextProcessAt.Equal(want) {
					env.T.Errorf("%s: NextProcessAt is %v, want %v", name, info.NextProcessAt, want)
				}
			}
			if got := results[1].TaskInfo.State; got != asynq.TaskStatePending {
				env.T.Errorf("%s: a task with a past ProcessAt is %v", name, got)
			}
		}
	})
}

// The first Enqueue of a client also registers the queue. If Redis is down, it does not dial more
// often than a single command.
func TestFirstEnqueueDialsLikeOneCommand(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dials := func(call func(opt asynq.RedisConnOpt) error) int64 {
		var n atomic.Int64
		refuse := func(context.Context, string, string) (net.Conn, error) { //nolint:unparam // The signature is a Dialer's.
			n.Add(1)
			return nil, errors.New("connection refused")
		}
		if err := call(asynq.RedisClientOpt{Addr: "localhost:0"}.Configure(func(o *redis.Options) { o.Dialer = refuse })); err == nil {
			t.Error("a call succeeded without Redis")
		}
		return n.Load()
	}
	single := dials(func(opt asynq.RedisConnOpt) error {
		client, _ := opt.MakeRedisClient().(redis.UniversalClient)
		defer func() { _ = client.Close() }() // it was never connected
		return client.Ping(ctx).Err()
	})
	first := dials(func(opt asynq.RedisConnOpt) error {
		client := asynq.NewClient(opt)
		defer func() { _ = client.Close() }() // it was never connected
		_, err := client.Enqueue(asynq.NewTask("t", nil))
		return err
	})
	if first > single {
		t.Errorf("the first Enqueue dialed %d times, a single command %d times", first, single)
	}
}

// A queue is created by its first task, not by a server or receiver that is configured to process
// it.
func TestFirstTaskCreatesQueue(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		want := func(when string, names ...string) {
			env.T.Helper()
			got, err := env.Inspector().Queues()
			if slices.Sort(got); err != nil || !slices.Equal(got, names) {
				env.T.Errorf("%s: queues %q, error %v, want %q", when, got, err, names)
			}
		}
		var ran testenv.Tally
		srv := env.Serve(asynq.Config{Queues: map[string]int{"a": 1, "b": 1}}, ran.Handle)
		receiver := asynq.NewReceiver(env.Opt(), asynq.ReceiverConfig{
			Queues: map[string]int{"c": 1, "d": 1}, Logger: asynq.NewSlogLogger(slog.New(env.Log)),
		})
		if err := receiver.Start(); err != nil {
			env.T.Fatal(err)
		}
		env.T.Cleanup(receiver.Shutdown)
		env.Eventually(func() bool {
			servers, err := env.Inspector().Servers()
			return err == nil && len(servers) == 1
		}, "the server to be listed")
		want("after the start")
		env.Enqueue("t", asynq.Queue("a"))
		env.Eventually(func() bool { return ran.Of("t") == 1 }, "the task to run")
		env.Enqueue("u", asynq.Queue("c"))
		leases, err := receiver.Receive(context.Background(), 1, "c")
		if err != nil || len(leases) != 1 {
			env.T.Fatalf("received %v, error %v", leases, err)
		}
		if err := leases[0].Complete(context.Background(), nil); err != nil {
			env.T.Fatal(err)
		}
		want("after a task in a and one in c", "a", "c")
		receiver.Shutdown()
		srv.Shutdown()
		want("after the shutdown", "a", "c")
	})
}

// A deleted queue is listed again after one task, even if the client has already registered it.
func TestDeletedQueueIsRecreated(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("a")
		i := env.Inspector()
		if err := i.DeleteQueue("default", true); err != nil {
			env.T.Fatal(err)
		}
		if _, err := i.GetQueueInfo("default"); !errors.Is(err, asynq.ErrQueueNotFound) {
			env.T.Errorf("info of the deleted queue: error %v, want ErrQueueNotFound", err)
		}
		env.Enqueue("b")
		env.Eventually(func() bool {
			info, err := i.GetQueueInfo("default")
			return err == nil && info.Pending == 1
		}, "the queue to be listed again")
	})
}

// Tracing libraries write to the map that Headers returns, as they do with the reference library.
func TestHeadersMapIsWritable(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		given := map[string]string{"a": "1"}
		task := asynq.NewTaskWithHeaders("t", nil, given)
		given["a"] = "2"
		task.Headers()["trace"] = "3"
		if h := task.Headers(); len(h) != 2 || h["a"] != "1" || h["trace"] != "3" {
			t.Errorf("headers of the task: %v", h)
		}
		info, err := env.Client.Enqueue(task)
		if err != nil {
			t.Fatal(err)
		}
		if info.Headers["trace"] != "3" {
			t.Errorf("enqueued with headers %v", info.Headers)
		}
	})
}
