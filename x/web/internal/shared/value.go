// Package shared caches values that are expensive to compute. They are computed in the background,
// once for all callers, and only while there are callers.
package shared

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Config configures a Value. All fields except Logger are required.
type Config[T any] struct {
	Name    string                                                  // for the log
	Ask     func(ctx context.Context, partial func(*T)) (*T, error) // computes the value; partial publishes intermediate values
	Fresh   time.Duration                                           // how long a value is valid
	Wait    time.Duration                                           // how long Get waits for the first value
	Timeout time.Duration                                           // of Ask
	Logger  *slog.Logger
}

// longRest is the minimum delay after a computation, as a multiple of its duration, so that a slow
// Redis is not queried all the time.
const longRest = 5

// retry is the delay after an error.
const retry = 2 * time.Second

// Value is a cached value. It is safe for concurrent use.
type Value[T any] struct {
	cfg  Config[T]
	ctx  context.Context // for Ask
	stop context.CancelFunc
	open sync.WaitGroup

	mu     sync.Mutex
	latest *T
	whole  bool // latest is a result of Ask, not an intermediate value
	err    error
	due    time.Time
	done   chan struct{} // closed when the current computation ends; nil if there is none
}

// New returns a Value, which computes nothing before the first Get. The caller must close it.
func New[T any](cfg Config[T]) *Value[T] {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	v := &Value[T]{cfg: cfg}
	v.ctx, v.stop = context.WithCancel(context.Background())
	return v
}

// Get returns the last value. If it is no longer valid, Get starts a new computation for later
// callers. If there is no value yet, Get waits briefly, and returns the intermediate value or nil.
// The error is that of the last computation.
func (v *Value[T]) Get(ctx context.Context) (*T, error) {
	v.mu.Lock()
	if v.done == nil && v.ctx.Err() == nil && !time.Now().Before(v.due) {
		v.done = make(chan struct{})
		v.open.Add(1)
		go v.compute(v.done)
	}
	latest, err, done := v.latest, v.err, v.done
	v.mu.Unlock()
	if latest != nil || done == nil {
		return latest, err
	}
	timer := time.NewTimer(v.cfg.Wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.latest, v.err
}

// Stale invalidates the value, so that the next Get starts a new computation.
func (v *Value[T]) Stale() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.due = time.Time{}
}

// Close stops the computation and waits for it to end. It may be called again.
func (v *Value[T]) Close() {
	v.mu.Lock()
	v.stop()
	v.mu.Unlock()
	v.open.Wait()
}

func (v *Value[T]) compute(done chan struct{}) {
	defer v.open.Done()
	ctx, cancel := context.WithTimeout(v.ctx, v.cfg.Timeout)
	defer cancel()
	began := time.Now()
	// Under the lock, so that a concurrent call of Stale is not lost.
	v.mu.Lock()
	v.due = began.Add(v.cfg.Timeout)
	v.mu.Unlock()
	value, err := v.call(ctx)
	took := time.Since(began)

	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = err
	stale := v.due.IsZero()
	switch {
	case err != nil:
		v.due = time.Now().Add(max(retry, longRest*took))
		v.cfg.Logger.Warn("web: "+v.cfg.Name+" unavailable", "error", err)
	default:
		v.latest, v.whole = value, true
		v.due = time.Now().Add(max(v.cfg.Fresh, longRest*took))
	}
	if stale {
		v.due = time.Now().Add(took)
	}
	v.done = nil
	close(done)
}

func (v *Value[T]) call(ctx context.Context) (value *T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			v.cfg.Logger.Error("web: panic", "of", v.cfg.Name, "panic", r, "stack", string(debug.Stack()))
		}
	}()
	return v.cfg.Ask(ctx, func(part *T) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if !v.whole {
			v.latest = part
		}
	})
}
