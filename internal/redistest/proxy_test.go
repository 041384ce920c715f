package redistest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/redistest"
)

// proxied returns a proxy before r, and a client behind it that repeats nothing by itself.
func proxied(t *testing.T, r *redistest.Redis) (*redistest.Proxy, *redis.Client) {
	t.Helper()
	p := redistest.StartProxy(t, r.Addr)
	client := redis.NewClient(&redis.Options{Addr: p.Addr(), DB: r.DB, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	return p, client
}

func TestProxyFaults(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		p, client := proxied(t, r)
		count := func() string { return r.Client().Get(ctx, "n").Val() }

		swallowed := p.SwallowReplies(1, "incr", "n")
		if err := client.Incr(ctx, "n").Err(); err == nil {
			t.Error("a swallowed reply arrived")
		}
		<-swallowed.Done()
		if got := count(); got != "1" {
			t.Errorf("swallowed: Redis has counted %q, want 1", got)
		}
		lost := p.LoseCommands(1, "incr")
		if err := client.Incr(ctx, "n").Err(); err == nil {
			t.Error("a lost command was answered")
		}
		<-lost.Done()
		p.Answer(1, "-OOM full\r\n", "incr")
		if err := client.Incr(ctx, "n").Err(); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("answered in place of Redis: %v", err)
		}
		if got := count(); got != "1" {
			t.Errorf("Redis has counted %q, want 1: it saw a command that was to be lost", got)
		}
		before := p.Commands()
		if n, err := client.Incr(ctx, "n").Result(); n != 2 || err != nil {
			t.Errorf("without a fault: %d, error %v; want 2", n, err)
		}
		if p.Commands() == before {
			t.Error("a command was not counted")
		}
	})
}

func TestProxyConnections(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		p, client := proxied(t, r)
		conn := client.Conn()
		defer conn.Close()
		if err := conn.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		p.Cut()
		if err := conn.Ping(ctx).Err(); err == nil {
			t.Error("a connection lives that was cut")
		}
		p.Down()
		before := p.Connections()
		if err := client.Ping(ctx).Err(); err == nil {
			t.Error("a proxy that is down lets a command through")
		}
		if p.Connections() == before {
			t.Error("a refused connection was not counted")
		}
		p.Resume()
		if err := client.Ping(ctx).Err(); err != nil {
			t.Errorf("after Resume: %v", err)
		}
		p.Blackhole()
		p.Blackhole()
		answered := make(chan error, 1)
		go func() { answered <- client.Ping(ctx).Err() }()
		select {
		case err := <-answered:
			t.Errorf("a command went through a blackhole, error %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		p.Resume()
		if err := <-answered; err != nil {
			t.Errorf("after a blackhole: %v", err)
		}
		p.Delay(10 * time.Millisecond)
		start := time.Now()
		if err := client.Ping(ctx).Err(); err != nil || time.Since(start) < 20*time.Millisecond {
			t.Errorf("with a delay of 10 ms each way it took %v, error %v", time.Since(start), err)
		}
	})
}
