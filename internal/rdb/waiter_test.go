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

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// patience is how long a wait may last that nothing ends: the test has failed by then.
const patience = 20 * time.Second

// waiting is a wait that is on.
type waiting struct {
	queue chan string
	err   chan error
}

func startWait(ctx context.Context, w *rdb.Waiter, queues ...string) waiting {
	on := waiting{make(chan string, 1), make(chan error, 1)}
	go func() {
		queue, err := w.Wait(ctx, queues, patience)
		on.queue <- queue
		on.err <- err
	}()
	return on
}

// end waits until the wait is over, and compares what it returned.
func (on waiting) end(t *testing.T, queue string, err error) {
	t.Helper()
	late := time.NewTimer(patience / 2)
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

func newWaiter(t *testing.T, b *rdb.Broker, name string) *rdb.Waiter {
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
				queue, err := w.Wait(ctx, []string{"q"}, patience)
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

func TestWaiterIsRoused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		w, other := newWaiter(t, b, "w"), newWaiter(t, b, "other")
		on := startWait(ctx, w, "q")
		if err := w.Rouse(ctx); err != nil {
			t.Fatal(err)
		}
		on.end(t, "", nil)

		// Of two, one ends the next wait: nothing is lost between them.
		if err := other.Rouse(ctx); err != nil {
			t.Fatal(err)
		}
		wantDump(t, r, "Q:rouse:other = [1] ttl 1m0s")
		startWait(ctx, other, "q").end(t, "", nil)
		wantDump(t, r, "")
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
				must(t, r.Client().Ping(ctx))
			}
			cancel()
			on.end(t, "", context.Canceled)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		r.Enqueue(t, "q", 1)
		unchanged(t, r, "a wait with a context that has ended", func() {
			startWait(ended, w, "q").end(t, "", context.Canceled)
		})
		// It works again. Redis may yet have to see that the others are gone, and give one of them the marker.
		on := startWait(context.Background(), w, "q")
		for len(on.queue) == 0 && time.Since(start) < patience {
			if err := b.PassMarker(context.Background(), "q"); err != nil {
				t.Fatal(err)
			}
		}
		on.end(t, "q", nil)
	})
}

// The context may end while the connection is being made: nobody must be left waiting on it.
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

// go-redis dials in the background, and a connection that was made for a wait that is over may arrive during a later one.
func TestWaitEndsWithLateConnection(t *testing.T) {
	r := redistest.Mini(t)
	late := make(chan struct{})
	var begun, made atomic.Int32
	client := redis.NewClient(&redis.Options{Addr: r.Addr, Dialer: func(_ context.Context, network, addr string) (net.Conn, error) {
		if begun.Add(1) == 1 {
			<-late
		}
		defer made.Add(1)
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
	must(t, r.Client().Set(ctx, "asynq:{q}:marker", "no marker", 0))
	if _, err := w.Wait(ctx, []string{"q"}, time.Second); !rdb.Refused(err) {
		t.Errorf("a marker of a wrong type: %v", err)
	}
	r.Enqueue(t, "q", 1) // in place of what stood there a marker is left again
	startWait(ctx, w, "q").end(t, "q", nil)
	w.Close()
	w.Close()
}

// On a client that is not go-redis's own, the waiter has no connection of its own to close: its waits are short.
func TestWaitOnUnknownClient(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		w := newWaiter(t, rdb.New(struct{ redis.UniversalClient }{r.Client()}, ""), "w")
		if queue, err := w.Wait(context.Background(), []string{"q"}, patience); queue != "" || err != nil {
			t.Errorf("without a marker: %q, error %v", queue, err)
		}
		r.Enqueue(t, "q", 1)
		startWait(context.Background(), w, "q").end(t, "q", nil)
	})
}

// A server that dies ends the wait with an error, and once it is back the waiter finds it again.
func TestWaiterFindsServerAgain(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	ctx, client := context.Background(), s.Client(t)
	b := rdb.New(client, "")
	w := newWaiter(t, b, "w")
	errs := make(chan error, 1)
	go func() {
		_, err := w.Wait(ctx, []string{"q"}, patience)
		errs <- err
	}()
	for !strings.Contains(client.ClientList(ctx).Val(), "cmd=blpop") {
		runtime.Gosched()
	}
	s.Kill()
	if err := <-errs; err == nil || rdb.Refused(err) {
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
