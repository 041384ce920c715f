package rate

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func (l *Limiter) allow(t *testing.T, key string, n int) Result {
	t.Helper()
	r, err := l.AllowN(context.Background(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// atOnce runs f on n goroutines that start together.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// Eight concurrent clients take exactly the available tokens.
func TestLimiterIsExact(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		clients := make([]*Limiter, 8)
		for i := range clients {
			clients[i] = p.limiter(t, Limit{Events: 1, Per: time.Hour, Burst: 100})
		}
		var taken atomic.Int64
		atOnce(len(clients), func(i int) {
			for range 40 {
				if r, err := clients[i].Allow(context.Background(), "k"); err != nil {
					t.Error(err)
				} else if r.Allowed {
					taken.Add(1)
				}
			}
		})
		if n := taken.Load(); n != 100 {
			t.Errorf("%d tokens were taken, want 100", n)
		}
		r := clients[0].allow(t, "k", 1)
		if r.Allowed || r.Remaining != 0 || r.RetryAfter > time.Hour || r.RetryAfter < time.Hour-time.Minute {
			t.Errorf("afterwards: %+v", r)
		}
		if r := clients[0].allow(t, "other", 100); !r.Allowed || r.Remaining != 0 || r.RetryAfter != 0 {
			t.Errorf("another key: %+v", r)
		}
		ttl, err := clients[0].conn.client.TTL(context.Background(), clients[0].conn.bucketKey(t.Name(), "k")).Result()
		if err != nil || ttl < 98*time.Hour || ttl > 100*time.Hour+2*time.Second {
			t.Errorf("the key's TTL is %v, error %v", ttl, err)
		}
	})
}

// While the bucket is refilled, at most burst and rate allow are taken, and nearly as many.
func TestLimiterUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		const burst, perSecond = 20, 400
		clients := make([]*Limiter, 8)
		for i := range clients {
			clients[i] = p.limiter(t, Limit{Events: perSecond, Per: time.Second, Burst: burst})
		}
		var taken atomic.Int64
		start := time.Now()
		atOnce(len(clients), func(i int) {
			enough := func() bool { return taken.Load() > burst+1 || time.Since(start) > time.Minute }
			for time.Since(start) < 300*time.Millisecond || !enough() {
				if r, err := clients[i].Allow(context.Background(), "k"); err != nil {
					t.Error(err)
				} else if r.Allowed {
					taken.Add(1)
				}
			}
		})
		most := burst + int64(math.Ceil(time.Since(start).Seconds()*perSecond))
		if n := taken.Load(); n > most || n < burst+2 {
			t.Errorf("%d tokens were taken, want up to %d", n, most)
		}
	})
}

// start is a time in whole microseconds.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock makes a limiter on an embedded Redis with the fixed time start.
func clock(t *testing.T, limit Limit) (l *Limiter, set func(since time.Duration)) {
	t.Helper()
	t.Parallel()
	p, set := stopped(t)
	return p.limiter(t, limit), set
}

func TestLimiterTellsTheTime(t *testing.T) {
	l, set := clock(t, Limit{Events: 3, Per: time.Second, Burst: 2})
	l.allow(t, "k", 2)
	third := 333_334 * time.Microsecond // rounded up
	if r := l.allow(t, "k", 1); r.Allowed || r.RetryAfter != third {
		t.Fatalf("at once: %+v", r)
	}
	if r := l.allow(t, "k", 2); r.Allowed || r.RetryAfter != 666_667*time.Microsecond {
		t.Fatalf("two at once: %+v", r)
	}
	set(third - time.Microsecond)
	if r := l.allow(t, "k", 1); r.Allowed || r.RetryAfter != time.Microsecond {
		t.Fatalf("a microsecond early: %+v", r)
	}
	set(third)
	if r := l.allow(t, "k", 1); !r.Allowed {
		t.Fatalf("in time: %+v", r)
	}
	// Rounded-up time is not lost: three tokens take exactly a second.
	set(time.Second - time.Microsecond)
	if r := l.allow(t, "k", 2); r.Allowed || r.RetryAfter != time.Microsecond {
		t.Fatalf("a microsecond before the second: %+v", r)
	}
	set(time.Second)
	if r := l.allow(t, "k", 2); !r.Allowed {
		t.Fatalf("after a second: %+v", r)
	}
}

// A clock that goes back neither adds nor withholds tokens for the repeated period.
func TestLimiterClockSetBack(t *testing.T) {
	l, set := clock(t, Limit{Events: 1, Per: time.Second, Burst: 5})
	l.allow(t, "k", 5)
	set(-time.Hour)
	if r := l.allow(t, "k", 1); r.Allowed || r.RetryAfter != time.Second {
		t.Fatalf("an hour back: %+v", r)
	}
	set(-time.Hour + time.Second)
	if r := l.allow(t, "k", 1); !r.Allowed || r.Remaining != 0 {
		t.Fatalf("a second later: %+v", r)
	}
	if _, turn, err := l.take(context.Background(), "k", 1, true); err != nil || turn != time.Second {
		t.Fatalf("delay %v, error %v", turn, err)
	}
	set(-2 * time.Hour)
	if _, turn, err := l.take(context.Background(), "k", 1, true); err != nil || turn != 2*time.Second {
		t.Fatalf("the line moved with the clock: delay %v, error %v", turn, err)
	}
}

// A bucket keeps its tokens when the limit changes.
func TestLimiterChangeOfLimit(t *testing.T) {
	t.Parallel()
	p, _ := stopped(t)
	perMinute := p.limiter(t, Limit{Events: 60, Per: time.Minute, Burst: 10})
	perDay := p.limiter(t, Limit{Events: 7, Per: 24 * time.Hour, Burst: 6})
	if r := perMinute.allow(t, "k", 6); r.Remaining != 4 {
		t.Fatalf("result %+v", r)
	}
	if r := perDay.allow(t, "k", 1); !r.Allowed || r.Remaining != 3 {
		t.Fatalf("with fewer per day: %+v", r)
	}
	if r := perMinute.allow(t, "k", 3); !r.Allowed || r.Remaining != 0 {
		t.Fatalf("with the first limit: %+v", r)
	}
	perMinute.allow(t, "large", 1)
	if r := perDay.allow(t, "large", 1); r.Remaining != 5 {
		t.Fatalf("a bucket exceeds its size: %+v", r)
	}
}

// Callers that return at their time each get the time of a token of their own.
func TestLimiterLine(t *testing.T) {
	l, set := clock(t, Limit{Events: 2, Per: time.Second, Burst: 2})
	ask := func() (bool, time.Duration) {
		t.Helper()
		r, turn, err := l.take(context.Background(), "k", 1, true)
		if err != nil {
			t.Fatal(err)
		}
		return r.Allowed, turn
	}
	l.allow(t, "k", 2)
	var turns []time.Duration
	for i := range 10 {
		ok, turn := ask()
		if want := time.Duration(i+1) * 500 * time.Millisecond; ok || turn != want {
			t.Fatalf("delay of %d: %v, want %v", i, turn, want)
		}
		turns = append(turns, turn)
	}
	if r := l.allow(t, "k", 1); r.RetryAfter != 500*time.Millisecond {
		t.Fatalf("without a place in the line: %+v", r)
	}
	for _, turn := range turns {
		set(turn)
		if ok, _ := ask(); !ok {
			t.Fatalf("no token at %v", turn)
		}
	}
	if ok, turn := ask(); ok || turn != 500*time.Millisecond {
		t.Fatalf("the line has not ended: %v", turn)
	}
}

// With a line of any length, the delay is at most an hour.
func TestLimiterLineEnds(t *testing.T) {
	l, _ := clock(t, PerMinute(1))
	l.allow(t, "k", 1)
	for i := range 70 {
		_, turn, err := l.take(context.Background(), "k", 1, true)
		if want := min(time.Duration(i+1)*time.Minute, time.Hour); err != nil || turn != want {
			t.Fatalf("delay of %d: %v, error %v, want %v", i, turn, err, want)
		}
	}
}

func TestLimiterRefusesBadInput(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		l := p.limiter(t, Limit{Events: 1, Per: time.Second, Burst: 3})
		for _, n := range []int{math.MinInt, -1, 0, 4, math.MaxInt} {
			if _, err := l.AllowN(context.Background(), "k", n); err == nil || !strings.Contains(err.Error(), "burst") {
				t.Errorf("%d tokens: error %v", n, err)
			}
		}
		if _, err := l.Allow(nil, "k"); err == nil { //nolint:staticcheck // That is what is tested.
			t.Error("no error without a context")
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := l.Allow(ended, "k"); err == nil {
			t.Error("no error with a context that has ended")
		}
		if r := l.allow(t, "k", 3); !r.Allowed {
			t.Errorf("rejected calls took tokens: %+v", r)
		}
		key := l.conn.bucketKey(l.scope, "list")
		if err := l.conn.client.LPush(context.Background(), key, "x").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Allow(context.Background(), "list"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("a key of another type: error %v", err)
		}
	})
}

func TestConstructorsPanic(t *testing.T) {
	t.Parallel()
	opt := asynq.RedisClientOpt{Addr: "127.0.0.1:1"}
	good := PerSecond(1)
	for name, f := range map[string]func(){
		"scope":          func() { NewLimiter(opt, " ", good) },
		"no options":     func() { NewLimiter(nil, "x", good) },
		"namespace":      func() { NewLimiter(asynq.WithNamespace(opt, "{"), "x", good) },
		"no events":      func() { NewLimiter(opt, "x", Limit{Per: time.Second}) },
		"events":         func() { NewLimiter(opt, "x", Limit{Events: math.MaxInt, Per: time.Second}) },
		"no time":        func() { NewLimiter(opt, "x", Limit{Events: 1}) },
		"ns":             func() { NewLimiter(opt, "x", Limit{Events: 1, Per: time.Microsecond + 1}) },
		"long":           func() { NewLimiter(opt, "x", Limit{Events: 1, Per: math.MaxInt64}) },
		"burst":          func() { NewLimiter(opt, "x", Limit{Events: 1, Per: time.Second, Burst: -1}) },
		"large":          func() { NewLimiter(opt, "x", Limit{Events: 1, Per: 24 * time.Hour, Burst: math.MaxInt}) },
		"semaphore":      func() { NewSemaphore(opt, "x", 0) },
		"blank":          func() { NewSemaphore(opt, "\t", 1) },
		"nothing":        func() { NewSemaphore(nil, "x", 1) },
		"no key":         func() { new(Limiter).Middleware(nil) },
		"shared nothing": func() { NewSemaphore(asynq.SharedRedisClient(nil), "x", 1) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "rate: ") {
					t.Errorf("%s: panics with %q", name, text)
				}
			}()
			f()
		}()
	}
}

// Shared clients stay open, and namespaces are independent.
func TestNamespacesAndSharedClients(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		limit := Limit{Events: 1, Per: time.Hour, Burst: 1}
		plain := p.limiter(t, limit)
		shared := asynq.SharedRedisClient(plain.conn.client)
		other := NewLimiter(asynq.WithNamespace(shared, "other"), t.Name(), limit)
		same := NewLimiter(shared, t.Name(), limit)
		if !other.allow(t, "k", 1).Allowed || !plain.allow(t, "k", 1).Allowed || same.allow(t, "k", 1).Allowed {
			t.Error("buckets do not follow the namespaces")
		}
		if err := other.Close(); err == nil {
			t.Error("a shared connection is closed")
		}
		if err := NewSemaphore(shared, "x", 1).Close(); err == nil {
			t.Error("a shared connection is closed")
		}
		plain.allow(t, "k", 1)
	})
}

func TestDefaultBurst(t *testing.T) {
	t.Parallel()
	for limit, want := range map[Limit]int64{
		PerSecond(10): 10, PerMinute(600): 10, PerMinute(61): 1, PerHour(1): 1, PerHour(36_000): 10,
		{Events: 1, Per: time.Millisecond}: 1000, {Events: 5, Per: time.Second, Burst: 2}: 2,
	} {
		if b, err := limit.bucket(); err != nil || b.burst != want {
			t.Errorf("%v has burst %d, error %v, want %d", limit, b.burst, err, want)
		}
	}
}
