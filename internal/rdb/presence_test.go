package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestPresence(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		process := wire.Process{Host: "host", PID: 7, ID: "id"}
		publish := func(p rdb.Presence, forgotten bool) {
			t.Helper()
			p.Process = process
			if b.Publish(ctx, &p); p.Err != nil || p.Forgotten != forgotten {
				t.Errorf("forgotten: %v, want %v, error %v", p.Forgotten, forgotten, p.Err)
			}
		}
		publish(rdb.Presence{Info: []byte("new")}, false)
		redistest.WantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = new ttl 10s
		`)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Started: map[string][]byte{"a": []byte("A"), "b": []byte("B")}}, false)
		redistest.WantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = busy ttl 10s
			asynq:workers = {asynq:workers:{host:7:id}:now+10s}
			asynq:workers:{host:7:id} = {a:A b:B} ttl 10s
		`)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Known: true, Started: map[string][]byte{"c": []byte("C")}, Ended: []string{"a"}}, false)
		redistest.WantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = busy ttl 10s
			asynq:workers = {asynq:workers:{host:7:id}:now+10s}
			asynq:workers:{host:7:id} = {b:B c:C} ttl 10s
		`)
		redistest.Must(t, r.Client().Del(ctx, "asynq:workers:{host:7:id}"))
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Known: true, Started: map[string][]byte{"d": []byte("D")}}, true)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Known: true, Started: map[string][]byte{"b": []byte("B"), "c": []byte("C")}}, false)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Replace: true, Started: map[string][]byte{"b": []byte("B"), "e": []byte("E")}}, false)
		redistest.WantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = busy ttl 10s
			asynq:workers = {asynq:workers:{host:7:id}:now+10s}
			asynq:workers:{host:7:id} = {b:B e:E} ttl 10s
		`)
		publish(rdb.Presence{Info: []byte("idle"), Known: true, Ended: []string{"b", "e"}}, false)
		redistest.WantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = idle ttl 10s
		`)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Started: map[string][]byte{"d": []byte("D")}}, false)
		publish(rdb.Presence{Info: []byte("idle"), Replace: true}, false)
		redistest.WantDump(t, r, `
			asynq:servers = {asynq:servers:{host:7:id}:now+10s}
			asynq:servers:{host:7:id} = idle ttl 10s
		`)
		publish(rdb.Presence{Info: []byte("busy"), Busy: true, Started: map[string][]byte{"d": []byte("D")}}, false)
		for range 2 {
			if err := b.Withdraw(ctx, process); err != nil {
				t.Error(err)
			}
			redistest.WantDump(t, r, "")
		}
	})
}

func TestPresenceOfAnotherStays(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		one, two := wire.Process{Host: "h", PID: 1, ID: "1"}, wire.Process{Host: "h", PID: 2, ID: "2"}
		for _, process := range []wire.Process{one, two} {
			p := &rdb.Presence{Process: process, Info: []byte("info")}
			if b.Publish(ctx, p); p.Err != nil {
				t.Fatal(p.Err)
			}
		}
		if err := b.Withdraw(ctx, one); err != nil {
			t.Fatal(err)
		}
		redistest.WantDump(t, r, `
			asynq:servers = {asynq:servers:{h:2:2}:now+10s}
			asynq:servers:{h:2:2} = info ttl 10s
		`)
	})
}

func TestPresenceWhenRedisIsGone(t *testing.T) {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	b := rdb.New(client, "")
	p := &rdb.Presence{}
	if b.Publish(ctx, p); p.Err == nil || script.Refused(p.Err) || !p.Forgotten {
		t.Errorf("publish: forgotten: %v, error %v", p.Forgotten, p.Err)
	}
	if err := b.Withdraw(ctx, wire.Process{}); err == nil || script.Refused(err) {
		t.Errorf("withdraw: %v", err)
	}
	if err := b.Ping(ctx); err == nil {
		t.Error("ping: no error")
	}
}

func TestAnnounceQueues(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		if err := r.Broker().RegisterQueues(context.Background(), []string{"low", "high"}); err != nil {
			t.Fatal(err)
		}
		redistest.WantDump(t, r, "asynq:queues = {high low}")
	})
}

// Channels are shared among databases, so each of these tests has a namespace of its own.
func TestCancel(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.BrokerIn(wire.Namespace(t.Name()))
		sub, err := b.Subscribe(ctx)
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
		sub, err := r.BrokerIn(wire.Namespace(t.Name())).Subscribe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := sub.Next(ctx)
			ended <- err
		}()
		cancel()
		late := time.NewTimer(maxWait)
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
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	if sub, err := rdb.New(client, "").Subscribe(context.Background()); err == nil {
		sub.Close()
		t.Error("no error")
	}
}

// A subscription without a confirmation fails, so that its loop subscribes again.
func TestSubscribeOnStuckConnection(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	mini.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool { return cmd == "SUBSCRIBE" }) // no answer
	client := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	ended := make(chan error, 1)
	go func() {
		sub, err := rdb.New(client, "").Subscribe(context.Background())
		sub.Close()
		ended <- err
	}()
	select {
	case err := <-ended:
		if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("got %v, want a timeout", err)
		}
	case <-time.After(maxWait):
		t.Error("the subscription waits on")
	}
}

// Many tasks that start or end at once are reported in commands of a bounded size: while Redis
// executes one command, it serves no other client.
func TestPresenceOfMany(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		sizes := &commandSizes{}
		client := redis.NewClient(&redis.Options{Addr: r.Addr, DB: r.DB})
		t.Cleanup(func() { _ = client.Close() })
		client.AddHook(sizes)
		b := rdb.New(client, "")
		p := &rdb.Presence{Process: wire.Process{Host: "h", PID: 1, ID: "1"}, Busy: true, Started: make(map[string][]byte)}
		for i := range 1200 {
			id := fmt.Sprint("t", i)
			p.Started[id] = []byte(strings.Repeat("x", 2500))
			p.Ended = append(p.Ended, id)
		}
		ended := p.Ended
		p.Ended = nil
		for _, want := range []int64{1200, 0} {
			if b.Publish(ctx, p); p.Err != nil {
				t.Fatal(p.Err)
			}
			if n := client.HLen(ctx, "asynq:workers:{h:1:1}").Val(); n != want {
				t.Errorf("Redis knows of %d workers, want %d", n, want)
			}
			p.Busy, p.Known, p.Started, p.Ended = false, true, nil, ended
		}
		if sizes.args > 1+1+2*500 || sizes.bytes > 1<<20+10_000 {
			t.Errorf("a command has %d arguments, and one %d bytes", sizes.args, sizes.bytes)
		}
	})
}

// commandSizes notes the largest commands that are sent.
type commandSizes struct{ args, bytes int }

func (*commandSizes) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*commandSizes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *commandSizes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			bytes := 0
			for _, arg := range cmd.Args() {
				if b, ok := arg.([]byte); ok {
					bytes += len(b)
				}
			}
			s.args, s.bytes = max(s.args, len(cmd.Args())), max(s.bytes, bytes)
		}
		return next(ctx, cmds)
	}
}
