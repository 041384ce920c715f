package rdb

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The pause before a call is sent again is this long at first, and twice as long each time.
const (
	firstPause = 50 * time.Millisecond
	longPause  = 500 * time.Millisecond
)

// insist sends calls that make tasks, and sends those again whose outcome a failover leaves open, as long as Patience
// lasts. Their sender and number keep Redis from making a task twice. A call that is on its way when Patience ends is waited for. The slice is
// used up.
func (b *Broker) insist(ctx context.Context, calls []*call) {
	first := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		began := time.Now()
		b.run(ctx, calls...)
		wait := pause/2 + rand.N(pause) //nolint:gosec // It keeps clients apart, no secrets.
		open := calls[:0]
		for _, c := range calls {
			down := c.queue.outage.note(began, passes(c.err))
			left := b.Patience - max(down, time.Since(first)) // there is no outage where only this call fails
			if passes(c.err) && left > 0 {
				open, wait = append(open, c), min(wait, left)
			}
		}
		if calls = open; len(calls) == 0 {
			return
		}
		if cluster, ok := b.client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // a primary that is gone tells nobody who has taken its place
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// outage is a time in which enqueue calls of a queue fail. All of them together wait for its end for as long as Patience, or calls that
// queue up would each begin to wait when the one before gives up.
type outage struct {
	mu          sync.Mutex
	began, last time.Time
}

// forgetOutage is the time without a call after which nothing is known of an outage any more.
const forgetOutage = 5 * time.Second

// note takes down how a call went, and returns how long calls have failed by now.
func (o *outage) note(began time.Time, failed bool) time.Duration {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !failed:
		o.began, o.last = time.Time{}, time.Time{}
		return 0
	case o.last.IsZero() || began.Sub(o.last) > forgetOutage:
		o.began = began
	}
	o.last = now
	return now.Sub(o.began)
}

// passes reports whether err is of a kind that comes with a failover, and goes with it: no connection, no answer, or an answer that
// says so. What else Redis answers is final.
func passes(err error) bool {
	switch {
	case err == nil, errors.Is(err, redis.ErrClosed):
		return false
	case !Refused(err):
		return true
	}
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsReadOnlyError(err) ||
		redis.IsLoadingError(err) || redis.IsMasterDownError(err)
}

// sleep waits for d, and reports whether ctx lasted as long.
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
