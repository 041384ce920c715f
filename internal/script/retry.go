package script

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The pause before the first retry, and its maximum; it doubles with each retry.
const (
	minPause = 50 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// RunRetrying sends calls that create tasks, and retries those whose outcome a failover leaves
// unknown until the budget is used up. Their idempotency records prevent duplicate tasks. It waits
// for a call in flight when the budget ends. It reuses the slice.
func (b *Conn) RunRetrying(ctx context.Context, budget time.Duration, calls []*Call) {
	first := time.Now()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		began := time.Now()
		b.Run(ctx, calls...)
		wait := pause/2 + rand.N(pause) //nolint:gosec // jitter
		open := calls[:0]
		for _, c := range calls {
			down := c.Queue.outage.record(began, Transient(c.Err))
			left := budget - max(down, time.Since(first)) // without an outage only this call's time counts
			if Transient(c.Err) && left > 0 {
				open, wait = append(open, c), min(wait, left)
			}
		}
		if calls = open; len(calls) == 0 {
			return
		}
		if cluster := b.Cluster(); cluster != nil {
			cluster.ReloadState(ctx) // a failed primary does not announce its successor
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// outage is a period in which enqueue calls of a queue fail. All calls of a queue share one retry
// budget per outage. Otherwise queued calls would each wait for the full budget, one after the
// other.
type outage struct {
	mu          sync.Mutex
	began, last time.Time
}

// maxOutageGap is the time without calls after which an outage counts as over.
const maxOutageGap = 5 * time.Second

// record records the result of a call, and returns how long calls have been failing.
func (o *outage) record(began time.Time, failed bool) time.Duration {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !failed:
		o.began, o.last = time.Time{}, time.Time{}
		return 0
	case o.last.IsZero() || began.Sub(o.last) > maxOutageGap:
		o.began = began
	}
	o.last = now
	return now.Sub(o.began)
}

// Transient reports whether err is typical of a failover: a connection error, a timeout, or a reply
// that says so. Other error replies are final.
func Transient(err error) bool {
	switch {
	case err == nil, errors.Is(err, redis.ErrClosed):
		return false
	case !Refused(err):
		return true
	}
	return slices.ContainsFunc(transientPrefixes, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// transientPrefixes are the prefixes of error replies during a failover.
var transientPrefixes = []string{"MOVED ", "ASK ", "CLUSTERDOWN ", "TRYAGAIN ", "READONLY ", "LOADING ", "MASTERDOWN "}

// sleep waits for d, and reports whether ctx is still valid.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
