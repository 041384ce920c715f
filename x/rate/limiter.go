package rate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

// Limiter limits the rate of events with a token bucket per key. All processes that use the same
// scope share the buckets. It is exact for any number of concurrent callers, and safe for
// concurrent use.
//
// Processes with different limits for a scope also share its buckets: each call uses the limit of
// its own process, so a limit can be changed in one process after the other.
type Limiter struct {
	conn   connection
	scope  string
	bucket bucket
}

// NewLimiter returns a limiter for a scope, which may be any name. It panics if rco cannot make a
// connection, the scope is blank, or the limit is out of range.
func NewLimiter(rco asynq.RedisConnOpt, scope string, limit Limit) *Limiter {
	mustScope(scope)
	b, err := limit.bucket()
	if err != nil {
		panic(err)
	}
	return &Limiter{conn: connect(rco), scope: scope, bucket: b}
}

// Result is the result of a call of a Limiter.
type Result struct {
	// Allowed reports whether the tokens were taken.
	Allowed bool

	// Remaining is the number of whole tokens left.
	Remaining int

	// RetryAfter is the time until there are enough tokens if no other caller takes some. It is
	// zero if Allowed is true, and otherwise exact to the microsecond, rounded up.
	RetryAfter time.Duration
}

// Allow calls AllowN with one token.
func (l *Limiter) Allow(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN takes n tokens from the bucket of a key, or none if there are not enough. It does not
// wait. It returns an error if n is less than 1 or more than the burst, or if Redis does not reply;
// the tokens may be taken then. If a connection fails, go-redis may repeat the call, which then
// takes the tokens twice. The limit is never exceeded.
func (l *Limiter) AllowN(ctx context.Context, key string, n int) (Result, error) {
	result, _, err := l.take(ctx, key, n, false)
	return result, err
}

var errNilContext = errors.New("rate: ctx must not be nil: pass context.Background() if there is no other")

// take takes tokens. With a place in the line, a rejected caller gets the time until its turn,
// after all callers that were rejected before.
func (l *Limiter) take(ctx context.Context, key string, n int, inLine bool) (r Result, turn time.Duration, err error) {
	if ctx == nil {
		return Result{}, 0, errNilContext
	}
	if n < 1 || int64(n) > l.bucket.burst {
		return Result{}, 0, fmt.Errorf("rate: %d tokens requested: the burst allows 1 to %d", n, l.bucket.burst)
	}
	comesBack := 0
	if inLine {
		comesBack = 1
	}
	reply, err := takeScript.Run(ctx, l.conn.client, []string{l.conn.bucketKey(l.scope, key)},
		n, l.bucket.refill, l.bucket.size, l.bucket.burst, comesBack).Int64Slice()
	if err != nil {
		return Result{}, 0, fmt.Errorf("rate: take tokens: %w", err)
	}
	if len(reply) != 4 {
		return Result{}, 0, fmt.Errorf("rate: take tokens: unexpected reply %v", reply)
	}
	r = Result{Allowed: reply[0] == 1, Remaining: int(reply[1]), RetryAfter: time.Duration(reply[2]) * time.Microsecond}
	return r, time.Duration(reply[3]) * time.Microsecond, nil
}

// Close closes the connection. It returns an error if the limiter does not own the connection.
func (l *Limiter) Close() error { return l.conn.close() }
