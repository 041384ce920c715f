package rate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// with adds a middleware to a handler.
func with(mw asynq.MiddlewareFunc, handler asynq.HandlerFunc) asynq.Handler { return mw(handler) }

func enqueue(t *testing.T, b *asynqtest.Broker, typename string, opts ...asynq.Option) {
	t.Helper()
	if _, err := b.Client().Enqueue(asynq.NewTask(typename, nil), opts...); err != nil {
		t.Fatal(err)
	}
}

// Tasks over the limit are snoozed to the second of their token, without using an attempt.
func TestLimiterMiddleware(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	l := NewLimiter(b.RedisConnOpt(), "api", Limit{Events: 2, Per: time.Second})
	t.Cleanup(func() { closed(t, l.Close()) })
	const tasks = 11
	for i := range tasks {
		enqueue(t, b, "call", asynq.TaskID(fmt.Sprintf("%02d", i)), asynq.MaxRetry(0))
	}
	ran := 0
	handler := with(l.Middleware(ByType, WithJitter(0)), func(context.Context, *asynq.Task) error {
		ran++
		return nil
	})
	outcomes := b.Drain(t, handler)
	if len(outcomes) != tasks || ran != 2 {
		t.Fatalf("%d attempts, %d ran", len(outcomes), ran)
	}
	start := b.Now()
	for i, o := range outcomes[2:] {
		if !errors.Is(o.Err, ErrLimited) || !asynq.IsSnooze(o.Err) || o.State != asynq.TaskStateRetry || o.Info.Retried != 0 {
			t.Errorf("%v: %+v", o, o.Info)
		}
		turn := time.Duration(i+1) * 500 * time.Millisecond
		if want := start.Add((turn + time.Second - 1).Truncate(time.Second)); !o.Info.NextProcessAt.Equal(want) {
			t.Errorf("task %d is due at %v, want %v", i, o.Info.NextProcessAt, want)
		}
	}
	// Each second has two tokens, and runs two tasks.
	for ran < tasks {
		before := ran
		b.Advance(time.Second)
		b.Drain(t, handler)
		if ran != min(before+2, tasks) {
			t.Fatalf("%d ran, then %d", before, ran)
		}
	}
	info, err := b.Inspector().GetQueueInfo("default")
	if err != nil || info.Processed != tasks || info.Failed != 0 {
		t.Errorf("processed %d, failed %d, error %v", info.Processed, info.Failed, err)
	}
}

func TestKeyFuncs(t *testing.T) {
	t.Parallel()
	one := Limit{Events: 1, Per: time.Hour, Burst: 1}
	customer := func(_ context.Context, task *asynq.Task) string { return task.Headers()["customer"] }
	for name, tt := range map[string]struct {
		key  KeyFunc
		want int // of the tasks below
	}{"type": {ByType, 2}, "queue": {ByQueue, 3}, "customer": {customer, 4}} {
		b := asynqtest.Run(t)
		l := NewLimiter(b.RedisConnOpt(), name, one)
		t.Cleanup(func() { closed(t, l.Close()) })
		for _, queue := range []string{"low", "mid", "high"} {
			enqueue(t, b, "a", asynq.Queue(queue), asynq.Header("customer", "1"))
			enqueue(t, b, "b", asynq.Queue(queue))
		}
		ran := 0
		b.Drain(t, with(l.Middleware(tt.key), func(context.Context, *asynq.Task) error {
			ran++
			return nil
		}))
		if ran != tt.want {
			t.Errorf("by %s %d tasks ran, want %d", name, ran, tt.want)
		}
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	d := newDelays([]MiddlewareOption{WithJitter(0.5)})
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		got := d.spread(10 * time.Second)
		least, most = min(least, got), max(most, got)
	}
	if least < 10*time.Second || least > 11*time.Second || most > 15*time.Second || most < 14*time.Second {
		t.Errorf("delays from %v to %v, want from 10 s to 15 s", least, most)
	}
	if got := newDelays([]MiddlewareOption{WithJitter(-1)}).spread(time.Second); got != time.Second {
		t.Errorf("a jitter below zero makes %v", got)
	}
}

// A handler holds a token while it runs, regardless of how it ends.
func TestSemaphoreMiddleware(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	s := NewSemaphore(b.RedisConnOpt(), "api", 1)
	t.Cleanup(func() { closed(t, s.Close()) })
	held := func() int64 { return s.conn.client.ZCard(context.Background(), s.key).Val() }
	mw := s.Middleware(10*time.Second, WithJitter(0))
	for name, handler := range map[string]asynq.HandlerFunc{
		"succeeds": func(context.Context, *asynq.Task) error { return nil },
		"fails":    func(context.Context, *asynq.Task) error { return errors.New("failed") },
		"panics":   func(context.Context, *asynq.Task) error { panic("at once") },
	} {
		enqueue(t, b, name, asynq.MaxRetry(0))
		outcomes := b.Drain(t, with(mw, func(ctx context.Context, task *asynq.Task) error {
			if held() != 1 {
				t.Errorf("%s: %d tokens are held", name, held())
			}
			return handler(ctx, task)
		}))
		if len(outcomes) != 1 || held() != 0 {
			t.Errorf("%s: %v, then %d tokens are held", name, outcomes, held())
		}
	}
	s.acquires(t, "another task", 3600)
	enqueue(t, b, "waits", asynq.MaxRetry(0))
	outcomes := b.Drain(t, with(mw, func(context.Context, *asynq.Task) error {
		t.Error("runs without a token")
		return nil
	}))
	if len(outcomes) != 1 || !errors.Is(outcomes[0].Err, ErrLimited) || !outcomes[0].Info.NextProcessAt.Equal(b.Now().Add(10*time.Second)) {
		t.Errorf("returned %v", outcomes)
	}
}

// A handler that calls Acquire gets the same token as the middleware.
func TestSemaphoreInAHandler(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	s := NewSemaphore(b.RedisConnOpt(), "api", 1)
	t.Cleanup(func() { closed(t, s.Close()) })
	enqueue(t, b, "x", asynq.Timeout(time.Minute))
	outcomes := b.Drain(t, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		if ok, err := s.Acquire(ctx); !ok || err != nil {
			t.Errorf("acquires %t, error %v", ok, err)
		}
		if ok, err := s.Acquire(ctx); !ok || err != nil {
			t.Errorf("acquires again %t, error %v", ok, err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if ok, err := s.Acquire(ended); ok || err == nil {
			t.Errorf("acquires after the release %t, error %v", ok, err)
		}
		if err := s.Release(ended); err != nil {
			t.Errorf("does not release after the deadline: %v", err)
		}
		if err := s.Release(ctx); !errors.Is(err, ErrNoToken) {
			t.Errorf("releases twice: %v", err)
		}
		return nil
	}))
	if len(outcomes) != 1 || outcomes[0].Err != nil {
		t.Errorf("got %v", outcomes)
	}
}

// If Redis does not reply, tasks are snoozed: they neither run without a limit nor use attempts.
func TestMiddlewareWithoutRedis(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	gone := asynq.SharedRedisClient(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}))
	for name, mw := range map[string]asynq.MiddlewareFunc{
		"limiter":   NewLimiter(gone, "api", PerSecond(1)).Middleware(ByType, WithRedisDelay(7*time.Second), WithJitter(0)),
		"semaphore": NewSemaphore(gone, "api", 1).Middleware(time.Hour, WithRedisDelay(7*time.Second), WithJitter(0)),
	} {
		enqueue(t, b, name, asynq.MaxRetry(0))
		outcomes := b.Drain(t, with(mw, func(context.Context, *asynq.Task) error {
			t.Errorf("%s: runs without a limit", name)
			return nil
		}))
		if len(outcomes) != 1 || !outcomes[0].Info.NextProcessAt.Equal(b.Now().Add(7*time.Second)) || outcomes[0].Info.Retried != 0 ||
			errors.Is(outcomes[0].Err, ErrLimited) || !strings.Contains(outcomes[0].Err.Error(), "refused") {
			t.Errorf("%s: returned %v", name, outcomes)
		}
	}
}
