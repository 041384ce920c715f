package worker

import (
	"context"
	"sync"
)

const (
	// maxCalls is the number of calls of a CallQueue that run at the same time.
	maxCalls = 10
	// maxWaitingCalls is the number of unfinished calls from which on Room blocks.
	maxWaitingCalls = 1000
)

// CallQueue runs callbacks of the user that may take long, at most 10 at the same time, in the
// order in which they were added. It has goroutines only while there are calls. The zero value is
// ready for use.
type CallQueue struct {
	mu      sync.Mutex
	waiting []func()
	running int
	closing bool
	changed chan struct{} // closed when a call ends or the queue is closing; nil without waiters
}

// Add adds a call, which may end its goroutine with runtime.Goexit, but must not panic.
func (q *CallQueue) Add(call func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, call)
	q.start()
}

// start starts waiting calls. The caller holds the lock.
func (q *CallQueue) start() {
	for q.running < maxCalls && len(q.waiting) > 0 {
		call := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.running++
		go func() {
			defer q.ended()
			call()
		}()
	}
}

func (q *CallQueue) ended() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	q.start()
	q.notify()
}

// notify wakes those who wait for a change. The caller holds the lock.
func (q *CallQueue) notify() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// Room blocks while 1,000 calls are unfinished, until ctx ends or Unblock is called. Callers that
// wait for it before they add calls limit the memory that the queue needs.
func (q *CallQueue) Room(ctx context.Context) {
	_ = q.wait(ctx, func() bool { return q.closing || q.running+len(q.waiting) < maxWaitingCalls }) // either way the caller continues
}

// Unblock ends all calls of Room, and further ones return at once.
func (q *CallQueue) Unblock() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closing = true
	q.notify()
}

// Drain waits until all calls have ended, or ctx has.
func (q *CallQueue) Drain(ctx context.Context) error {
	return q.wait(ctx, func() bool { return q.running+len(q.waiting) == 0 })
}

// Drop removes the calls that have not started. It returns the number of unfinished calls.
func (q *CallQueue) Drop() (unfinished int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	unfinished = q.running + len(q.waiting)
	q.waiting = nil
	return unfinished
}

// wait waits until ok returns true, which is called with the lock held, or ctx ends.
func (q *CallQueue) wait(ctx context.Context, ok func() bool) error {
	for {
		q.mu.Lock()
		if ok() {
			q.mu.Unlock()
			return nil
		}
		if q.changed == nil {
			q.changed = make(chan struct{})
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
