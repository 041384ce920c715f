package rdb_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/rdbcheck"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestBroker(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		if ns := rdb.New(r.Client(), "").Namespace(); ns != wire.DefaultNamespace {
			t.Errorf("the default namespace is %q", ns)
		}
		b := r.BrokerIn("other")
		if b.Namespace() != "other" || b.Client() != r.Client() || b.Keys("q").Pending() != "other:{q}:pending" {
			t.Errorf("a broker on another namespace: %q, %q", b.Namespace(), b.Keys("q").Pending())
		}
		if err := b.Ping(context.Background()); err != nil {
			t.Error(err)
		}
		queues := []string{"a", "b"}
		if diff := cmp.Diff([][]string{queues}, b.Lanes(queues)); diff != "" {
			t.Errorf("lanes (-want +got):\n%s", diff)
		}
	})
}

// Two namespaces on one database are isolated from each other.
func TestNamespacesAreApart(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		one, two := r.Broker(), r.BrokerIn("two")
		task := redistest.NewTask(t, "q", "a")
		two.Enqueue(ctx, task)
		if task.Err != nil {
			t.Fatal(task.Err)
		}
		if f := redistest.Fetch(t, one, rdb.Fetch{N: 1}); f.Err != nil || f.Tasks != nil {
			t.Errorf("from the first: %+v", f)
		}
		if f := redistest.Fetch(t, two, rdb.Fetch{N: 1}); f.Err != nil || len(f.Tasks) != 1 {
			t.Errorf("from the second: %+v", f)
		}
		for _, key := range r.Client().Keys(ctx, "*").Val() {
			if key[:4] != "two:" {
				t.Errorf("the second one made %s", key)
			}
		}
	})
}

// A cluster with one node refuses a command with keys of several slots, like any other cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{proctest.StartCluster(t).Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	b := rdb.New(client, "")

	queues := []string{"q", "r", "s"}
	if diff := cmp.Diff([][]string{{"q"}, {"r"}, {"s"}}, b.Lanes(queues)); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]string{queues}, b.PrimaryLanes(ctx, queues)); diff != "" {
		t.Errorf("lanes by primary (-want +got):\n%s", diff)
	}
	on := startWait(ctx, announced(t, b), "q")
	tasks := []*rdb.NewTask{redistest.Lock(redistest.NewTask(t, "q", "a"), "a"), redistest.NewTask(t, "r", "b"), redistest.NewTask(t, "s", "c")}
	tasks[2].Group = "g"
	b.Enqueue(ctx, tasks...)
	for _, task := range tasks {
		if task.Err != nil {
			t.Errorf("enqueue of %s: %v", task.ID, task.Err)
		}
	}
	on.end(t, "q", nil)
	if waiting, err := b.Waiting(ctx, append(queues, "t")); err != nil || !slices.Equal(waiting, []string{"q", "r"}) {
		t.Errorf("tasks wait in %q, error %v", waiting, err)
	}
	if delayed, err := b.Filled(ctx, queues, wire.Queue.Scheduled, wire.Queue.Retry); err != nil || len(delayed) > 0 {
		t.Errorf("delayed: %v, error %v", delayed, err)
	}
	f := redistest.Fetch(t, b, rdb.Fetch{N: 1})
	if f.Err != nil || len(f.Tasks) != 1 {
		t.Fatalf("%+v", f)
	}
	for _, due := range b.Forward(ctx, queues, nil) {
		if due.Err != nil {
			t.Error(due.Err)
		}
	}
	if code := redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: "f", Outcome: rdb.Done}); code != script.CodeOK {
		t.Errorf("code %d", code)
	}
	p := &rdb.Presence{Busy: true, Started: map[string][]byte{"a": nil}}
	if b.Publish(ctx, p); p.Err != nil || p.Forgotten {
		t.Errorf("publish: %v, error %v", p.Forgotten, p.Err)
	}
	if err := b.Withdraw(ctx, wire.Process{}); err != nil {
		t.Error(err)
	}
	redistest.CheckServer(t, client)
	redistest.Must(t, client.LPush(ctx, "asynq:{r}:active", "stray"))
	if found, err := rdbcheck.Check(ctx, client, ""); err != nil || len(found) != 1 {
		t.Errorf("planted one violation, found %v, error %v", found, err)
	}
}
