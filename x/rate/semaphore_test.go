package rate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

func (s *Semaphore) acquires(t *testing.T, id string, seconds int) bool {
	t.Helper()
	ok, err := s.acquire(context.Background(), id, time.Duration(seconds)*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// Eight concurrent clients get exactly the available tokens, also while tokens are taken and
// released.
func TestSemaphoreIsExact(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		const tokens = 3
		clients := make([]*Semaphore, 8)
		for i := range clients {
			clients[i] = p.semaphore(t, tokens)
		}
		var holding, most, got atomic.Int64
		var full sync.Map
		atOnce(len(clients), func(i int) {
			s := clients[i]
			for n := range 40 {
				id := fmt.Sprintf("%d-%d", i, n)
				ok, err := s.acquire(context.Background(), id, time.Minute)
				if err != nil {
					t.Error(err)
				}
				if !ok {
					full.Store(i, true)
					continue
				}
				got.Add(1)
				most.Store(max(most.Load(), holding.Add(1)))
				if again, err := s.acquire(context.Background(), id, time.Minute); err != nil || !again {
					t.Errorf("a second Acquire loses the token: %t, %v", again, err)
				}
				holding.Add(-1)
				if err := s.release(context.Background(), id); err != nil {
					t.Error(err)
				}
			}
		})
		if most.Load() > tokens || got.Load() < tokens {
			t.Errorf("%d held a token at a time, %d in all", most.Load(), got.Load())
		}
		if n := clients[0].conn.client.Exists(context.Background(), clients[0].key).Val(); n != 0 {
			t.Error("the key exists after the release of all tokens")
		}
		var taken atomic.Int64
		atOnce(len(clients), func(i int) {
			if ok, err := clients[i].acquire(context.Background(), fmt.Sprint(i), time.Minute); err != nil {
				t.Error(err)
			} else if ok {
				taken.Add(1)
			}
		})
		if n := taken.Load(); n != tokens {
			t.Errorf("%d of eight got a token, want %d", n, tokens)
		}
	})
}

// The stored values are compatible with other libraries.
func TestSemaphoreWire(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		s := p.semaphore(t, 2)
		ctx, client := context.Background(), s.conn.client
		now := client.Time(ctx).Val()
		if !s.acquires(t, "ours", 100) {
			t.Fatal("no token")
		}
		all := client.ZRangeWithScores(ctx, s.key, 0, -1).Val()
		if len(all) != 1 || all[0].Member != "ours" || all[0].Score < float64(now.Unix()+100) || all[0].Score > float64(now.Unix()+102) ||
			all[0].Score != float64(int64(all[0].Score)) {
			t.Errorf("Redis has %v", all)
		}
		if ttl := client.TTL(ctx, s.key).Val(); ttl < semaphoreKeep || ttl > semaphoreKeep+102*time.Second {
			t.Errorf("the key's TTL is %v", ttl)
		}
		// Another library adds a token with a later deadline, and an expired one.
		client.ZAdd(ctx, s.key, redis.Z{Score: float64(now.Unix() + 10_000), Member: "theirs"}, redis.Z{Score: float64(now.Unix() - 2), Member: "over"})
		if s.acquires(t, "third", 10) {
			t.Error("a token of another library does not count")
		}
		if !s.acquires(t, "ours", 50) {
			t.Error("a holder loses its token")
		}
		if ttl := client.TTL(ctx, s.key).Val(); ttl < semaphoreKeep+9_000*time.Second {
			t.Errorf("the key's TTL is %v: shorter than the last deadline", ttl)
		}
		if _, err := client.ZScore(ctx, s.key, "over").Result(); !errors.Is(err, redis.Nil) {
			t.Errorf("the expired token is still there: %v", err)
		}
		if err := s.release(ctx, "theirs"); err != nil {
			t.Error(err)
		}
		if !s.acquires(t, "third", 10) {
			t.Error("a released token is not free")
		}
		client.ZAdd(ctx, s.key, redis.Z{Score: math.Inf(1), Member: "no time"})
		if !s.acquires(t, "third", 20) || s.acquires(t, "no time at all", 20) {
			t.Error("an invalid score breaks the semaphore")
		}
	})
}

func TestSemaphoreExpiry(t *testing.T) {
	t.Parallel()
	p, set := stopped(t)
	s := p.semaphore(t, 1)
	if ok, err := s.acquire(context.Background(), "a", 2500*time.Millisecond); !ok || err != nil {
		t.Fatal(ok, err)
	}
	set(3*time.Second - time.Microsecond)
	if s.acquires(t, "b", 10) {
		t.Error("the token is free in the second of the deadline")
	}
	set(3 * time.Second)
	if !s.acquires(t, "b", 10) {
		t.Error("the token is not free after the deadline")
	}
	if err := s.release(context.Background(), "a"); !errors.Is(err, ErrNoToken) {
		t.Errorf("releases an expired token: %v", err)
	}
}

func TestSemaphoreNeedsAHandler(t *testing.T) {
	t.Parallel()
	p, _ := stopped(t)
	s := p.semaphore(t, 1)
	timed, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name, ctx := range map[string]context.Context{"nil": nil, "plain": context.Background(), "timed": timed} {
		if ok, err := s.Acquire(ctx); ok || !errors.Is(err, ErrNoHandler) {
			t.Errorf("%s: acquires %t, error %v", name, ok, err)
		}
		if err := s.Release(ctx); !errors.Is(err, ErrNoHandler) {
			t.Errorf("%s: releases with error %v", name, err)
		}
	}
}

// On a full Redis, limits work, because the existing tasks are still processed.
func TestFullRedis(t *testing.T) {
	if servers.plain == "" {
		return
	}
	server := proctest.StartRedis(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	p := place{opt: asynq.RedisClientOpt{Addr: server.Addr()}}
	l, s := p.limiter(t, PerHour(1)), p.semaphore(t, 1)
	if err := l.conn.client.Set(context.Background(), "x", "y", 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	if !l.allow(t, "k", 1).Allowed || l.allow(t, "k", 1).Allowed {
		t.Error("the limiter does not count")
	}
	if !s.acquires(t, "a", 60) || s.acquires(t, "b", 60) {
		t.Error("the semaphore does not count")
	}
}
