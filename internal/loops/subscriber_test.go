package loops

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// news is a subscription with the messages of a test.
type news struct {
	heard  chan string // "" after the timeout of a wait
	failed chan error
	closed atomic.Int32
}

func (n *news) Next(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case err := <-n.failed:
		return "", err
	case id := <-n.heard:
		return id, nil
	}
}

func (n *news) Close() { n.closed.Add(1) }

// press is a broker that makes subscriptions, or fails.
type press struct {
	all     []*news
	failing error
}

func (p *press) subscribe(context.Context) (subscription, error) {
	if p.failing != nil {
		return nil, p.failing
	}
	n := &news{heard: make(chan string, 10), failed: make(chan error, 1)}
	p.all = append(p.all, n)
	return n, nil
}

func TestSubscriberReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var canceled []string
		p := &press{failing: errCut}
		s := &Subscriber{Receive: func(id string) { canceled = append(canceled, id) }, subscribeFunc: p.subscribe}
		if _, err := s.Tick(context.Background()); !errors.Is(err, errCut) {
			t.Errorf("returned %v", err)
		}
		p.failing = nil
		stop := run(t, s.Tick, nil)
		synctest.Wait()
		for _, id := range []string{"a", "", "b"} {
			p.all[0].heard <- id
		}
		synctest.Wait()
		p.all[0].failed <- errCut
		synctest.Wait()
		time.Sleep(time.Second) // the loop backs off
		synctest.Wait()
		if len(p.all) != 2 || p.all[0].closed.Load() != 1 {
			t.Fatalf("%d subscriptions, the first one was closed %d times", len(p.all), p.all[0].closed.Load())
		}
		p.all[1].heard <- "c"
		synctest.Wait()
		stop()
		if want := []string{"a", "b", "c"}; !slices.Equal(canceled, want) {
			t.Errorf("canceled %q, want %q", canceled, want)
		}
		if p.all[1].closed.Load() == 0 {
			t.Error("the last subscription was not closed")
		}
	})
}

// If a loop is stopped between two ticks, its subscription is closed.
func TestSubscriberStopsBetweenTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &press{}
		ctx, cancel := context.WithCancel(context.Background())
		s := &Subscriber{Receive: func(string) { cancel() }, subscribeFunc: p.subscribe}
		go func() {
			synctest.Wait()
			p.all[0].heard <- "a"
		}()
		if rest, err := s.Tick(ctx); rest != 0 || err != nil {
			t.Errorf("delay %v, error %v", rest, err)
		}
		synctest.Wait()
		if p.all[0].closed.Load() != 1 {
			t.Errorf("closed %d times", p.all[0].closed.Load())
		}
	})
}

func TestSubscriberOnRedis(t *testing.T) {
	r := redistest.Mini(t)
	proxy := redistest.StartProxy(t, r.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	canceled := make(chan string, 1)
	s := &Subscriber{Broker: rdb.New(client, wire.DefaultNamespace), Receive: func(id string) { canceled <- id }}
	stop := run(t, s.Tick, nil)
	defer stop()
	for _, id := range []string{"a", "b"} {
		mustReceive(t, r, id, canceled)
		proxy.Cut()
	}
}

// mustReceive publishes a cancellation until it is received.
func mustReceive(t *testing.T, r *redistest.Redis, id string, canceled <-chan string) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for {
		if err := r.Broker().Cancel(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-canceled:
			if got == id {
				return
			}
		case <-again.C:
		case <-late.C:
			t.Fatalf("no cancellation of %s", id)
		}
	}
}
