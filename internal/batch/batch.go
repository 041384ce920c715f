// Package batch lets concurrent calls share requests (group commit).
//
// An item that is added while no request is in flight leaves at once. Items that are added while
// one is in flight share the next one, so requests grow with the load, and nothing waits while the
// load is low. A second request may overlap the first if it has enough items to be worth its fixed
// cost: while Redis executes one, the other is encoded or decoded.
//
// A Batcher has no goroutine while it is idle.
package batch

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Config configures a Batcher.
type Config[T any] struct {
	// Send sends a request with the items and returns after the reply, whose results it stores in
	// the items. It is called on several goroutines.
	Send func(items []T)

	// Second is the minimum number of items of a second request while one is in flight. If it is 0,
	// there is none, so requests arrive in order. With fewer than Full items, it has at least as
	// many as the first.
	Second, Full int

	// Linger is how long the first item of a request waits for others, or to be withdrawn. If it is
	// 0, it does not wait.
	Linger time.Duration

	// Panicked is called when Send panics, in addition to the error of the calls. It may be nil.
	Panicked func(err error)
}

// Batcher sends items in shared requests.
type Batcher[T any] struct {
	cfg Config[T]

	mu        sync.Mutex
	waiting   []*Call[T] // to be sent; nil where one was withdrawn
	live      int        // calls in waiting
	gate      Gate
	timer     *time.Timer // ends the linger of the next request
	lingering bool        // timer is running
}

// Call is an item that was added to a Batcher.
type Call[T any] struct {
	item T
	at   int           // index in Batcher.waiting; noIndex if the item is sent or withdrawn
	done chan struct{} // closed after the reply; nil if no caller waits
	err  error
}

const noIndex = -1

// New returns a Batcher.
func New[T any](cfg Config[T]) *Batcher[T] {
	return &Batcher[T]{cfg: cfg, gate: Gate{Second: cfg.Second, Full: cfg.Full}}
}

// Do sends an item and waits for the reply. If ctx ends first, it returns the cause: sent reports
// whether the item was sent, so that it may have taken effect and may still be in use. Otherwise
// the error is nil unless Send panicked.
//
// If a request may leave at once and ctx cannot end, Do sends it on the goroutine of its caller.
func (b *Batcher[T]) Do(ctx context.Context, item T) (sent bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	b.mu.Lock()
	if inline := ctx.Done() == nil && b.cfg.Linger == 0; inline && b.gate.Worth(b.live+1) {
		b.gate.Start(b.live + 1)
		batch := b.take()
		b.mu.Unlock()
		defer b.end()
		return true, b.request(batch, item)
	}
	c := b.add(item)
	c.done = make(chan struct{})
	b.mu.Unlock()
	select {
	case <-c.done:
		return true, c.err
	case <-ctx.Done():
		return !b.Withdraw(c), context.Cause(ctx)
	}
}

// Add adds an item and does not wait for the reply.
func (b *Batcher[T]) Add(item T) *Call[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.add(item)
}

// Withdraw takes an item back, and reports whether it was not sent.
func (b *Batcher[T]) Withdraw(c *Call[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.at == noIndex {
		return false
	}
	b.waiting[c.at] = nil
	c.at = noIndex
	if b.live--; b.live == 0 {
		b.waiting = b.waiting[:0]
	}
	return true
}

// add is Add for callers that hold the lock.
func (b *Batcher[T]) add(item T) *Call[T] {
	c := &Call[T]{item: item, at: len(b.waiting)}
	b.waiting = append(b.waiting, c)
	b.live++
	b.start()
	return c
}

// take returns the calls of the next request. The caller holds the lock.
func (b *Batcher[T]) take() []*Call[T] {
	batch := b.waiting[:0]
	for _, c := range b.waiting {
		if c != nil {
			c.at = noIndex
			batch = append(batch, c)
		}
	}
	b.waiting, b.live = nil, 0
	return batch
}

// worth reports whether a request for the waiting items may leave. The caller holds the lock.
func (b *Batcher[T]) worth() bool { return b.live > 0 && b.gate.Worth(b.live) }

// start starts a request or its linger, if one is worth sending. The caller holds the lock.
func (b *Batcher[T]) start() {
	switch {
	case !b.worth():
	case b.cfg.Linger == 0:
		b.gate.Start(0) // until flush takes the items
		go b.flush()
	case b.lingering:
	case b.timer == nil:
		b.lingering = true
		b.timer = time.AfterFunc(b.cfg.Linger, b.onTimer)
	default:
		b.lingering = true
		b.timer.Reset(b.cfg.Linger)
	}
}

// flush sends requests as long as they are worth it. The caller has counted one.
func (b *Batcher[T]) flush() {
	for {
		// Callers whose calls have returned may be about to call again. Until then this request
		// counts as in flight, so that they share the next one.
		runtime.Gosched()
		b.mu.Lock()
		b.gate.End()
		if !b.worth() {
			b.mu.Unlock()
			return
		}
		b.gate.Start(b.live)
		batch := b.take()
		b.mu.Unlock()
		_ = b.request(batch) // the calls have the error
	}
}

// onTimer is called by the timer.
func (b *Batcher[T]) onTimer() {
	b.mu.Lock()
	b.lingering = false
	if !b.worth() {
		b.mu.Unlock()
		return
	}
	b.gate.Start(b.live)
	batch := b.take()
	b.mu.Unlock()
	defer b.end()
	_ = b.request(batch) // the calls have the error
}

// end ends a request, and starts the next one if it is worth it.
func (b *Batcher[T]) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate.End()
	b.start()
}

// request sends the items of calls, and further ones, reports the end to the callers, and returns
// the error of the request.
func (b *Batcher[T]) request(batch []*Call[T], more ...T) (err error) {
	items := more
	if len(batch) > 0 {
		items = make([]T, 0, len(batch)+len(more))
		for _, c := range batch {
			items = append(items, c.item)
		}
		items = append(items, more...)
	}
	returned := false
	defer func() {
		if !returned {
			err = fmt.Errorf("batch: request panicked: %v", recover())
			if b.cfg.Panicked != nil {
				b.cfg.Panicked(err)
			}
		}
		for _, c := range batch {
			c.err = err
			if c.done != nil {
				close(c.done)
			}
		}
	}()
	b.cfg.Send(items)
	returned = true
	return nil
}
