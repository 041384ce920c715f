package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

func TestWaiting(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		look := func(want []string, queues ...string) {
			t.Helper()
			got, err := b.Waiting(ctx, queues)
			if err != nil {
				t.Error(err)
			}
			if len(got) != len(want) || len(want) > 0 && !cmp.Equal(want, got) {
				t.Errorf("of %v tasks wait in %v, want %v", queues, got, want)
			}
		}
		look(nil, "a")
		look(nil, "a", "b", "c")
		r.Enqueue(t, "a", 1)
		r.Enqueue(t, "c", 1)
		delayed(t, r, "d", time.Hour)
		look([]string{"a"}, "a")
		look(nil, "b")
		look([]string{"c", "a"}, "q", "c", "b", "a")
	})
}

func TestPassMarker(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		redistest.Unchanged(t, r, "a marker of an empty queue", func() {
			if err := b.PassMarker(ctx, "q"); err != nil {
				t.Error(err)
			}
		})
		r.Enqueue(t, "q", 1)
		redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
		for range 2 {
			if err := b.PassMarker(ctx, "q"); err != nil {
				t.Error(err)
			}
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:marker = [1] ttl 1m0s
			Q:pending = [t1]
			Q:t:t1 = {msg:test(payload) pending_since:now state:pending}
		`)
	})
}

// Every transition into pending leaves the marker.
func TestMarkerIsLeft(t *testing.T) {
	ctx := context.Background()
	tests := map[string]func(*testing.T, *redistest.Redis, *rdb.Broker){
		"requeue": func(t *testing.T, _ *redistest.Redis, b *rdb.Broker) {
			redistest.Settle(t, b, rdb.Settlement{ID: "t1", Token: "f1", Outcome: rdb.Requeue})
		},
		"reclaim": func(t *testing.T, _ *redistest.Redis, b *rdb.Broker) { redistest.Reclaim(t, b, "f1") },
		"recover": func(t *testing.T, r *redistest.Redis, b *rdb.Broker) {
			redistest.ExpireLeases(t, r, time.Hour, "t1")
			b.Recover(ctx, []*rdb.Settlement{{Queue: "q", ID: "t1", Token: "f1", Outcome: rdb.Requeue}})
		},
		"forward": func(t *testing.T, _ *redistest.Redis, b *rdb.Broker) { redistest.Forward(t, b) },
	}
	for name, act := range tests {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.Enqueue(t, "q", 1)
				r.Fetch(t, "q", 1)
				delayed(t, r, "due", -time.Hour)
				redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
				act(t, r, r.Broker())
				if n := r.Client().LLen(ctx, "asynq:{q}:marker").Val(); n != 1 {
					t.Errorf("%d markers", n)
				}
				if ttl := r.Client().TTL(ctx, "asynq:{q}:marker").Val(); ttl <= 0 || ttl > time.Minute {
					t.Errorf("its TTL is %v", ttl)
				}
			})
		})
	}
}

// maxWait limits a wait that nothing ends; the test fails earlier.
const maxWait = 20 * time.Second

// waiting is a wait in progress.
type waiting struct {
	queue chan string
	err   chan error
}

func startWait(ctx context.Context, w rdb.Waiter, queues ...string) waiting {
	on := waiting{make(chan string, 1), make(chan error, 1)}
	go func() {
		queue, err := w.Wait(ctx, queues, maxWait)
		on.queue <- queue
		on.err <- err
	}()
	return on
}

// end waits for the end of the wait and compares its result.
func (on waiting) end(t *testing.T, queue string, err error) {
	t.Helper()
	late := time.NewTimer(maxWait / 2)
	defer late.Stop()
	select {
	case got := <-on.queue:
		if gotErr := <-on.err; got != queue || !errors.Is(gotErr, err) {
			t.Errorf("the wait returned %q and the error %v, want %q and %v", got, gotErr, queue, err)
		}
	case <-late.C:
		t.Error("the wait goes on")
	}
}

func newWaiter(t *testing.T, b *rdb.Broker, name string) rdb.Waiter {
	w := b.NewWaiter([]string{"q", "r"}, name)
	t.Cleanup(w.Close)
	return w
}

func TestWaiterIsWokenByMarker(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		w := newWaiter(t, r.Broker(), "w")
		for range 2 { // the connection serves again
			on := startWait(ctx, w, "q", "r")
			r.Enqueue(t, "r", 1)
			on.end(t, "r", nil)
			if n := r.Client().Exists(ctx, "asynq:{r}:marker").Val(); n != 0 {
				t.Error("the marker is still there")
			}
		}
	})
}

func TestMarkerWakesOneWaiter(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		b := r.Broker()
		woken := make(chan string, 2)
		for i := range 2 {
			w := newWaiter(t, b, fmt.Sprint("w", i))
			go func() {
				queue, err := w.Wait(ctx, []string{"q"}, maxWait)
				woken <- fmt.Sprint(queue, " ", err)
			}()
		}
		r.Enqueue(t, "q", 3)
		if got := <-woken; got != "q <nil>" {
			t.Errorf("the first one: %s", got)
		}
		cancel()
		if got := <-woken; got != " context canceled" {
			t.Errorf("the second one: %s", got)
		}
	})
}

func TestWaiterUnblock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		w, other := newWaiter(t, b, "w"), newWaiter(t, b, "other")
		on := startWait(ctx, w, "q")
		if err := w.Unblock(ctx); err != nil {
			t.Fatal(err)
		}
		on.end(t, "", nil)

		// Of two, one ends the next wait: nothing is lost between them.
		if err := other.Unblock(ctx); err != nil {
			t.Fatal(err)
		}
		redistest.WantDump(t, r, "Q:unblock:other = [1] ttl 1m0s")
		startWait(ctx, other, "q").end(t, "", nil)
		redistest.WantDump(t, r, "")
	})
}

func TestWaitTimesOut(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		queue, err := newWaiter(t, r.Broker(), "w").Wait(context.Background(), []string{"q"}, time.Second)
		if queue != "" || err != nil {
			t.Errorf("got %q and %v", queue, err)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b, start := r.Broker(), time.Now()
		w := newWaiter(t, b, "w")
		for i := range 20 { // at another moment of the wait each time
			ctx, cancel := context.WithCancel(context.Background())
			on := startWait(ctx, w, "q")
			if i%2 == 0 {
				redistest.Must(t, r.Client().Ping(ctx))
			}
			cancel()
			on.end(t, "", context.Canceled)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		r.Enqueue(t, "q", 1)
		redistest.Unchanged(t, r, "a wait with a context that has ended", func() {
			startWait(ended, w, "q").end(t, "", context.Canceled)
		})
		// It works again. Redis may yet have to see that the others are gone, and give one of them
		// the marker.
		on := startWait(context.Background(), w, "q")
		for len(on.queue) == 0 && time.Since(start) < maxWait {
			if err := b.PassMarker(context.Background(), "q"); err != nil {
				t.Fatal(err)
			}
		}
		on.end(t, "q", nil)
	})
}

// If the context ends while the client connects, no goroutine may be left waiting.
func TestWaitEndsWhileConnecting(t *testing.T) {
	r := redistest.Mini(t)
	for range 100 { // go-redis may or may not notice it by itself
		ctx, cancel := context.WithCancel(context.Background())
		client := redis.NewClient(&redis.Options{Addr: r.Addr, Dialer: func(_ context.Context, network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr) //nolint:noctx // It must outlast the context.
			cancel()
			runtime.Gosched()
			return conn, err
		}})
		w := rdb.New(client, "").NewWaiter([]string{"q"}, "w")
		startWait(ctx, w, "q").end(t, "", context.Canceled)
		w.Close()
		_ = client.Close()
		if t.Failed() {
			break
		}
	}
}

// go-redis dials in the background, and a connection that was made for a wait that is over may
// arrive during a later one.
func TestWaitEndsWithLateConnection(t *testing.T) {
	r := redistest.Mini(t)
	late := make(chan struct{})
	var begun, made atomic.Int32
	client := redis.NewClient(&redis.Options{Addr: r.Addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		defer made.Add(1)
		if begun.Add(1) == 1 {
			select {
			case <-late:
			case <-ctx.Done(): // older releases of go-redis wait for the dialer
				return nil, ctx.Err()
			}
		}
		return net.Dial(network, addr) //nolint:noctx // It must outlast the context.
	}})
	t.Cleanup(func() { _ = client.Close() })
	w := rdb.New(client, "").NewWaiter([]string{"q"}, "w")
	t.Cleanup(w.Close)

	ctx, cancel := context.WithCancel(context.Background())
	on := startWait(ctx, w, "q")
	reaches(&begun, 1)
	cancel()
	on.end(t, "", context.Canceled)

	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	on = startWait(ctx, w, "q")
	close(late)
	reaches(&made, 2)
	cancel()
	on.end(t, "", context.Canceled)
}

func reaches(n *atomic.Int32, want int32) {
	for n.Load() < want {
		runtime.Gosched()
	}
}

func TestWaitOnBrokenMarker(t *testing.T) {
	r := redistest.Mini(t)
	r.AllowViolations()
	ctx := context.Background()
	w := newWaiter(t, r.Broker(), "w")
	redistest.Must(t, r.Client().Set(ctx, "asynq:{q}:marker", "no marker", 0))
	if _, err := w.Wait(ctx, []string{"q"}, time.Second); !script.Refused(err) {
		t.Errorf("a marker of a wrong type: %v", err)
	}
	r.Enqueue(t, "q", 1) // replaces the wrong value by a marker
	startWait(ctx, w, "q").end(t, "q", nil)
	w.Close()
	w.Close()
}

// On a client that is not go-redis's own, the waiter has no connection of its own to close: its
// waits are short.
func TestWaitOnUnknownClient(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		w := newWaiter(t, rdb.New(struct{ redis.UniversalClient }{r.Client()}, ""), "w")
		if queue, err := w.Wait(context.Background(), []string{"q"}, maxWait); queue != "" || err != nil {
			t.Errorf("without a marker: %q, error %v", queue, err)
		}
		r.Enqueue(t, "q", 1)
		startWait(context.Background(), w, "q").end(t, "q", nil)
	})
}

// If Redis crashes, the wait ends with an error. The waiter reconnects when Redis is back.
func TestWaiterFindsServerAgain(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	ctx, client := context.Background(), s.Client(t)
	b := rdb.New(client, "")
	w := newWaiter(t, b, "w")
	errs := make(chan error, 1)
	go func() {
		_, err := w.Wait(ctx, []string{"q"}, maxWait)
		errs <- err
	}()
	for !strings.Contains(client.ClientList(ctx).Val(), "cmd=blpop") {
		runtime.Gosched()
	}
	s.Kill()
	if err := <-errs; err == nil || script.Refused(err) {
		t.Errorf("the wait ended with %v", err)
	}
	s.Restart(t)
	on := startWait(ctx, w, "q")
	task := redistest.NewTask(t, "q", "a")
	for b.Enqueue(ctx, task); task.Err != nil; b.Enqueue(ctx, task) { // the pool may hold dead connections
		t.Log(task.Err)
	}
	on.end(t, "q", nil)
}
