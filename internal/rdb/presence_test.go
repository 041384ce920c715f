package rdb_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestPresence(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		process := wire.Process{Host: "host", PID: 7, ID: "id"}
		publish := func(p rdb.Presence, forgotten bool) {
			t.Helper()
			p.Process = process
			got, err := b.Publish(ctx, &p)
			if err != nil || got != forgotten {
				t.Errorf("forgotten: %v, want %v, error %v", got, forgotten, err)
			}
		}
		publish(rdb.Presence{Info: []byte("new")}, false)
		wantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = new ttl 10s
		`)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Started: map[string][]byte{"a": []byte("A"), "b": []byte("B")}}, false)
		wantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = busy ttl 10s
			asynq:workers = {asynq:workers:{host:7:id}:now+10s}
			asynq:workers:{host:7:id} = {a:A b:B} ttl 10s
		`)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Known: true, Started: map[string][]byte{"c": []byte("C")}, Ended: []string{"a"}}, false)
		wantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = busy ttl 10s
			asynq:workers = {asynq:workers:{host:7:id}:now+10s}
			asynq:workers:{host:7:id} = {b:B c:C} ttl 10s
		`)
		must(t, r.Client().Del(ctx, "asynq:workers:{host:7:id}"))
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Known: true, Started: map[string][]byte{"d": []byte("D")}}, true)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Known: true, Started: map[string][]byte{"b": []byte("B"), "c": []byte("C")}}, false)
		publish(rdb.Presence{Info: []byte("idle"), Known: true, Ended: []string{"b", "c", "d"}}, false)
		wantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = idle ttl 10s
		`)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Started: map[string][]byte{"d": []byte("D")}}, false)
		for range 2 {
			if err := b.Withdraw(ctx, process); err != nil {
				t.Error(err)
			}
			wantDump(t, r, "")
		}
	})
}

func TestPresenceOfAnotherStays(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		one, two := wire.Process{Host: "h", PID: 1, ID: "1"}, wire.Process{Host: "h", PID: 2, ID: "2"}
		for _, p := range []wire.Process{one, two} {
			if _, err := b.Publish(ctx, &rdb.Presence{Process: p, Info: []byte("info")}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Withdraw(ctx, one); err != nil {
			t.Fatal(err)
		}
		wantDump(t, r, `
			asynq:servers = {asynq:servers:{h:2:2}:now+10s}
			asynq:servers:{h:2:2} = info ttl 10s
		`)
	})
}

func TestPresenceWhenRedisIsGone(t *testing.T) {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	b := rdb.New(client, "")
	if forgotten, err := b.Publish(ctx, &rdb.Presence{}); err == nil || rdb.Refused(err) || !forgotten {
		t.Errorf("publish: forgotten: %v, error %v", forgotten, err)
	}
	if err := b.Withdraw(ctx, wire.Process{}); err == nil || rdb.Refused(err) {
		t.Errorf("withdraw: %v", err)
	}
	if err := b.Ping(ctx); err == nil {
		t.Error("ping: no error")
	}
}

func TestAnnounceQueues(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		if err := r.Broker().AnnounceQueues(context.Background(), []string{"low", "high"}); err != nil {
			t.Fatal(err)
		}
		wantDump(t, r, "asynq:queues = {high low}")
	})
}

// Channels are shared among databases, so each of these tests has a namespace of its own.
func TestCancel(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.BrokerIn(wire.Namespace(t.Name()))
		sub, err := b.SubscribeCancel(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		for _, id := range []string{"first", "second"} {
			if err := b.Cancel(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"first", "second"} {
			if id, err := sub.Next(ctx); id != want || err != nil {
				t.Errorf("heard %q, want %q, error %v", id, want, err)
			}
		}
	})
}

func TestSubscriptionEndsWithContext(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, cancel := context.WithCancel(context.Background())
		sub, err := r.BrokerIn(wire.Namespace(t.Name())).SubscribeCancel(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := sub.Next(ctx)
			ended <- err
		}()
		cancel()
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		case <-late.C:
			t.Error("it goes on")
		}
		sub.Close()
		sub.Close()
	})
}

func TestSubscribeWhenRedisIsGone(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	if sub, err := rdb.New(client, "").SubscribeCancel(context.Background()); err == nil {
		sub.Close()
		t.Error("no error")
	}
}
