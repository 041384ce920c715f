package rate

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/asynq-go/asynq"
)

// stopped is an embedded Redis with a clock that only tests move.
func stopped(t testing.TB) (p place, set func(since time.Duration)) {
	t.Helper()
	mini := miniredis.RunT(t)
	mini.ClockTTL(true)
	mini.SetTime(start)
	return place{asynq.RedisClientOpt{Addr: mini.Addr()}, mini}, func(since time.Duration) { mini.SetTime(start.Add(since)) }
}

// fractions is a token bucket in exact fractions: the specification of take.lua.
type fractions struct {
	level, perMicro, burst *big.Rat
	at                     int64 // microseconds
}

func newFractions(l Limit, burst int64) *fractions {
	full := new(big.Rat).SetInt64(burst)
	return &fractions{level: full, burst: full, perMicro: big.NewRat(int64(l.Events), l.Per.Microseconds())}
}

// take does what the script does, at a time in microseconds. A rejected call without a place in the
// line changes nothing: the refill counts from the last write, also after the clock went back.
func (f *fractions) take(now int64, n int, inLine bool) (ok bool, left int64, wait int64) {
	level := f.level
	if now > f.at {
		level = new(big.Rat).Add(level, new(big.Rat).Mul(f.perMicro, new(big.Rat).SetInt64(now-f.at)))
		if level.Cmp(f.burst) > 0 {
			level = f.burst
		}
	}
	need := new(big.Rat).SetInt64(int64(n))
	if level.Cmp(need) >= 0 {
		level = new(big.Rat).Sub(level, need)
		ok = true
	} else {
		missing := new(big.Rat).Quo(new(big.Rat).Sub(need, level), f.perMicro)
		wait = new(big.Int).Div(new(big.Int).Add(missing.Num(), new(big.Int).Sub(missing.Denom(), big.NewInt(1))), missing.Denom()).Int64()
	}
	if ok || inLine || now < f.at {
		f.level, f.at = level, now
	}
	return ok, new(big.Int).Div(level.Num(), level.Denom()).Int64(), wait
}

// With any limit and any calls, the bucket behaves exactly like fractions.
func TestLimiterModel(t *testing.T) {
	t.Parallel()
	p, set := stopped(t)
	shared := p.limiter(t, PerSecond(1)) // for its connection
	opt := asynq.SharedRedisClient(shared.conn.client)
	scope := 0
	rapid.Check(t, func(rt *rapid.T) {
		scope++
		set(0)
		limit := Limit{
			Events: rapid.OneOf(rapid.IntRange(1, 50), rapid.IntRange(1, maxEvents)).Draw(rt, "events"),
			Per:    time.Duration(rapid.OneOf(rapid.Int64Range(1, 5_000_000), rapid.Int64Range(1, maxPer.Microseconds())).Draw(rt, "µs")) * time.Microsecond,
			Burst:  rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(1, 100_000)).Draw(rt, "burst"),
		}
		b, err := limit.bucket()
		if err != nil {
			rt.Skip(err)
		}
		l := NewLimiter(opt, fmt.Sprintf("%s:%d", t.Name(), scope), limit)
		model := newFractions(limit, b.burst)
		var now time.Duration
		for i := range rapid.IntRange(1, 25).Draw(rt, "calls") {
			n := rapid.IntRange(1, int(b.burst)).Draw(rt, "n")
			inLine := rapid.Bool().Draw(rt, "in line")
			ok, left, wait := model.take(now.Microseconds(), n, inLine)
			got, _, err := l.take(context.Background(), "k", n, inLine)
			want := Result{Allowed: ok, Remaining: int(left), RetryAfter: time.Duration(wait) * time.Microsecond}
			if err != nil || got != want {
				rt.Fatalf("call %d at %v, %v, %d tokens: got %+v, error %v, want %+v", i, now, limit, n, got, err, want)
			}
			switch step := rapid.IntRange(0, 5).Draw(rt, "step"); {
			case step == 0 && wait > 0 && wait < 1e12:
				now += want.RetryAfter // exactly then
			case step == 1:
				now -= time.Duration(rapid.Int64Range(0, 1e9).Draw(rt, "back")) * time.Microsecond
			case step < 4:
				now += time.Duration(rapid.Int64Range(0, 1e6).Draw(rt, "on")) * time.Microsecond
			case step == 4 && now < 1000*time.Hour:
				now += time.Duration(rapid.Int64Range(0, 1e11).Draw(rt, "far")) * time.Microsecond
			}
			set(now)
		}
	})
}

// The holders of tokens are those of a plain map of deadlines.
func TestSemaphoreModel(t *testing.T) {
	t.Parallel()
	p, set := stopped(t)
	opt := asynq.SharedRedisClient(p.semaphore(t, 1).conn.client)
	scope := 0
	rapid.Check(t, func(rt *rapid.T) {
		scope++
		set(0)
		tokens := rapid.IntRange(1, 4).Draw(rt, "tokens")
		s := NewSemaphore(opt, fmt.Sprintf("%s:%d", t.Name(), scope), tokens)
		holders := make(map[string]time.Duration) // until the end of the second of their deadline
		var now time.Duration
		for range rapid.IntRange(1, 30).Draw(rt, "calls") {
			for id, until := range holders {
				if now >= until {
					delete(holders, id)
				}
			}
			id := rapid.StringMatching("[a-f]").Draw(rt, "id")
			_, held := holders[id]
			if rapid.IntRange(0, 2).Draw(rt, "what") > 0 {
				left := time.Duration(rapid.IntRange(0, 10_000).Draw(rt, "ms")) * time.Millisecond
				want := held || len(holders) < tokens
				got, err := s.acquire(context.Background(), id, left)
				if err != nil || got != want {
					rt.Fatalf("%s acquires at %v: %t, error %v; %v hold %d", id, now, got, err, holders, tokens)
				}
				if want {
					holders[id] = (now + left).Truncate(time.Second) + time.Second
				}
			} else if err := s.release(context.Background(), id); held && err != nil {
				rt.Fatalf("%s releases at %v: %v; %v hold", id, now, err, holders)
			} else {
				delete(holders, id)
			}
			now += time.Duration(rapid.IntRange(0, 4000).Draw(rt, "ms on")) * time.Millisecond
			set(now)
		}
	})
}
