// Package shared keeps what is dear to find out: it is asked for in the background, once for all who look, and only while somebody does.
package shared

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Config says how to find a value out, and how often. All fields but Logger are required.
type Config[T any] struct {
	Name    string                                               // for the log
	Ask     func(ctx context.Context, tell func(*T)) (*T, error) // finds it out; tell hands over what is known by then
	Fresh   time.Duration                                        // for which a value is good
	Wait    time.Duration                                        // for which Get waits where there is none yet
	Timeout time.Duration                                        // of Ask
	Logger  *slog.Logger
}

// longRest is how many times as long as asking took is rested before it is asked again, so that a slow Redis is not asked all the time.
const longRest = 5

// retry is how long after an error it is asked again.
const retry = 2 * time.Second

// Value is something dear. It is safe for concurrent use.
type Value[T any] struct {
	cfg  Config[T]
	ctx  context.Context // of asking
	stop context.CancelFunc
	open sync.WaitGroup

	mu     sync.Mutex
	latest *T
	whole  bool // latest is what Ask returned, not what it has told
	err    error
	due    time.Time
	told   chan struct{} // closed when the asking under way has ended; nil where there is none
}

// New returns a Value that asks for nothing before the first Get. It must be closed.
func New[T any](cfg Config[T]) *Value[T] {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	v := &Value[T]{cfg: cfg}
	v.ctx, v.stop = context.WithCancel(context.Background())
	return v
}

// Get is what was found out last, which may be a little old: then it is asked for anew, for those who come later. Where there is none it
// waits for a moment, and returns what is known by then: nil if nothing. The error is that of the last time that it was asked for.
func (v *Value[T]) Get(ctx context.Context) (*T, error) {
	v.mu.Lock()
	if v.told == nil && v.ctx.Err() == nil && !time.Now().Before(v.due) {
		v.told = make(chan struct{})
		v.open.Add(1)
		go v.ask(v.told)
	}
	latest, err, told := v.latest, v.err, v.told
	v.mu.Unlock()
	if latest != nil || told == nil {
		return latest, err
	}
	timer := time.NewTimer(v.cfg.Wait)
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
	case <-ctx.Done():
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.latest, v.err
}

// Stale says that the value has changed: the next Get has it asked for anew.
func (v *Value[T]) Stale() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.due = time.Time{}
}

// Close ends asking, and returns when it has ended. It may be called again.
func (v *Value[T]) Close() {
	v.mu.Lock()
	v.stop()
	v.mu.Unlock()
	v.open.Wait()
}

func (v *Value[T]) ask(told chan struct{}) {
	defer v.open.Done()
	ctx, cancel := context.WithTimeout(v.ctx, v.cfg.Timeout)
	defer cancel()
	began := time.Now()
	// So that who has called Stale meanwhile is not forgotten.
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
		v.cfg.Logger.Warn("web: "+v.cfg.Name+" could not be found out", "error", err)
	default:
		v.latest, v.whole = value, true
		v.due = time.Now().Add(max(v.cfg.Fresh, longRest*took))
	}
	if stale {
		v.due = time.Now().Add(took)
	}
	v.told = nil
	close(told)
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
