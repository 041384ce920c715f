package rate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

// Limiter is a token bucket for each key of a scope, shared by all processes that use the same scope. It is exact, however many ask at
// once. It is safe for concurrent use.
//
// Processes with different limits for a scope share its buckets too: each call goes by the limit of its own process, so a limit can be
// changed by one process after the other.
type Limiter struct {
	conn   connection
	scope  string
	bucket bucket
}

// NewLimiter returns a limiter for a scope, a name of any kind. It panics if rco cannot make a connection, the scope is blank, or
// the limit is outside of its bounds.
func NewLimiter(rco asynq.RedisConnOpt, scope string, limit Limit) *Limiter {
	mustScope(scope)
	b, err := limit.bucket()
	if err != nil {
		panic(err)
	}
	return &Limiter{conn: connect(rco), scope: scope, bucket: b}
}

// Result is what a Limiter answers.
type Result struct {
	// Allowed says that the tokens were taken.
	Allowed bool

	// Remaining is how many whole tokens are left.
	Remaining int

	// RetryAfter is how long it takes until there are enough tokens, if nobody else takes some; zero if Allowed. It is exact to the
	// microsecond, rounded up.
	RetryAfter time.Duration
}

// Allow is AllowN with one token.
func (l *Limiter) Allow(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN takes n tokens out of the bucket of a key, if there are as many, and else none. It does not wait. It fails if n is less than 1
// or more than the burst, and if Redis gives no answer: the tokens may be taken then. Where a connection fails, go-redis may
// repeat the call, which then takes them twice: never are there more taken than the limit allows.
func (l *Limiter) AllowN(ctx context.Context, key string, n int) (Result, error) {
	result, _, err := l.take(ctx, key, n, false)
	return result, err
}

var errNilContext = errors.New("rate: ctx must not be nil: pass context.Background() if there is no other")

// take asks for tokens. With a place in the line, who is refused is also told how long it is until its turn: behind all those that were
// told theirs before.
func (l *Limiter) take(ctx context.Context, key string, n int, inLine bool) (r Result, turn time.Duration, err error) {
	if ctx == nil {
		return Result{}, 0, errNilContext
	}
	if n < 1 || int64(n) > l.bucket.burst {
		return Result{}, 0, fmt.Errorf("rate: %d tokens asked for: there are from 1 to %d, the burst, at a time", n, l.bucket.burst)
	}
	comesBack := 0
	if inLine {
		comesBack = 1
	}
	reply, err := takeScript.Run(ctx, l.conn.client, []string{l.conn.bucketKey(l.scope, key)},
		n, l.bucket.refill, l.bucket.size, l.bucket.burst, comesBack).Int64Slice()
	if err != nil {
		return Result{}, 0, fmt.Errorf("rate: asking for a token: %w", err)
	}
	if len(reply) != 4 {
		return Result{}, 0, fmt.Errorf("rate: asking for a token: Redis answered %v", reply)
	}
	r = Result{Allowed: reply[0] == 1, Remaining: int(reply[1]), RetryAfter: time.Duration(reply[2]) * time.Microsecond}
	return r, time.Duration(reply[3]) * time.Microsecond, nil
}

// Close closes the connection. It fails if that is not the limiter's own.
func (l *Limiter) Close() error { return l.conn.close() }
