package guarantee_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// awaitServers waits until the list of servers satisfies a condition.
func awaitServers(env *testenv.Env, what string, ok func(servers []*asynq.ServerInfo) bool) []*asynq.ServerInfo {
	env.T.Helper()
	var servers []*asynq.ServerInfo
	env.Eventually(func() bool {
		var err error
		if servers, err = env.Inspector().Servers(); err != nil {
			env.T.Fatal(err)
		}
		return ok(servers)
	}, "%s: %+v", what, &servers)
	return servers
}

// Callers of Receive are listed with the queues that they fetch from. A Receiver that only
// maintains queues is not listed.
func TestReceiveCallersAreListed(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		one := env.Receiver(asynq.ReceiverConfig{Queues: map[string]int{"a": 3, "unused": 1}})
		two := env.Receiver(asynq.ReceiverConfig{Queues: map[string]int{"a": 3, "unused": 1}})
		const worker = "web-1:4711"
		ctx, cancel := context.WithCancel(env.Context())
		defer cancel()
		before := time.Now().Truncate(time.Millisecond)
		received := make(chan []*asynq.Lease, 1)
		go func() {
			leases, err := one.ReceiveAs(ctx, worker, 2, "a")
			env.NoError(err)
			received <- leases
		}()
		w := awaitServers(env, "one waiting worker", func(all []*asynq.ServerInfo) bool { return len(all) == 1 })[0]
		if w.Worker != worker || w.Host != "web-1" || w.PID != 4711 || w.Status != "active" || w.Concurrency != 2 || w.LastPoll.Before(before) ||
			w.Started.Before(before.Truncate(time.Second)) || !maps.Equal(w.Queues, map[string]int{"a": 3}) {
			t.Errorf("the worker is listed as %+v", w)
		}
		// The same worker in another process is listed once.
		go func() { _, _ = two.ReceiveAs(ctx, worker, 1, "b") }()
		awaitServers(env, "one worker with two queues", func(all []*asynq.ServerInfo) bool {
			return len(all) == 1 && all[0].ID == w.ID && maps.Equal(all[0].Queues, map[string]int{"a": 3, "b": 1})
		})
		env.Enqueue("task", asynq.Queue("a"), asynq.TaskID("task"))
		l := (<-received)[0]
		if l.Worker() != worker {
			t.Errorf("the worker of the lease is %q", l.Worker())
		}
		// A lease that another process extends is listed under the same worker. Calls without a
		// worker name are listed under their process.
		other, err := two.OpenLease(env.Context(), l.Ref())
		env.NoError(err)
		if _, err := other.Extend(env.Context()); err != nil {
			t.Error(err)
		}
		go func() { _, _ = one.Receive(ctx, 1, "c") }()
		go func() { _, _ = two.Receive(ctx, 1, "c") }()
		awaitServers(env, "the worker with its lease, and two processes", func(all []*asynq.ServerInfo) bool {
			if len(all) != 3 {
				return false
			}
			held := 0
			for _, i := range all {
				held += len(i.ActiveWorkers)
				if named := i.Worker == worker; !named && !maps.Equal(i.Queues, map[string]int{"c": 1}) || named != (len(i.ActiveWorkers) == 1) {
					return false
				}
			}
			return held == 1
		})
		env.NoError(other.Complete(env.Context(), nil))
		cancel()
		one.Shutdown()
		two.Shutdown()
		awaitServers(env, "no servers after the shutdown", func(all []*asynq.ServerInfo) bool { return len(all) == 0 })
		if keys := env.RDB.Keys(context.Background(), "asynq:servers*").Val(); len(keys) != 0 {
			t.Errorf("keys left: %q", keys)
		}
	})
}
