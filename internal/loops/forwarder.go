package loops

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/rdb"
)

// ForwardBroker is what a forwarder needs of rdb.Broker.
type ForwardBroker interface {
	Delayed(ctx context.Context, queues []string) (bool, error)
	Forward(ctx context.Context, queues []string, inOrder map[string]bool) []rdb.Due
}

// Forwarder moves tasks whose time has come from scheduled and retry to pending. It knows when the next one is due and sleeps until
// then, but no longer than Interval: other processes schedule tasks too.
type Forwarder struct {
	Broker   ForwardBroker
	Queues   []string        // of one lane
	InOrder  map[string]bool // queues whose failed tasks go to the front again
	Interval time.Duration
	Log      *slog.Logger

	wake     chan struct{}
	complain rate.Sometimes

	mu      sync.Mutex
	looking bool
	next    time.Time // when it wakes by itself; while it looks, at the latest
}

// NewForwarder returns a forwarder for the queues of a lane.
func NewForwarder(broker ForwardBroker, queues []string, interval time.Duration, log *slog.Logger) *Forwarder {
	return &Forwarder{
		Broker: broker, Queues: queues, Interval: interval, Log: log, wake: make(chan struct{}, 1),
		complain: rate.Sometimes{First: 1, Interval: 30 * time.Second},
	}
}

// Wake ends the rest between two ticks.
func (f *Forwarder) Wake() <-chan struct{} { return f.wake }

// Expect tells that a task will be due after a delay. If the forwarder would sleep past that, it looks at once, or is looking now and
// will not sleep for so long: what it sees may be older than the task.
func (f *Forwarder) Expect(delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := time.Now().Add(delay)
	if !due.Before(f.next) {
		return
	}
	f.next = due
	if f.looking {
		return
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Tick moves what is due.
func (f *Forwarder) Tick(ctx context.Context) (time.Duration, error) {
	f.mu.Lock()
	f.looking, f.next = true, time.Now().Add(f.Interval)
	f.mu.Unlock()
	rest, err := f.forward(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looking = false
	rest = min(rest, max(time.Until(f.next), 0))
	f.next = time.Now().Add(rest)
	return rest, err
}

func (f *Forwarder) forward(ctx context.Context) (time.Duration, error) {
	some, err := f.Broker.Delayed(ctx, f.Queues)
	if err != nil || !some {
		return f.Interval, err
	}
	rest := f.Interval
	var failed []error
	for _, due := range f.Broker.Forward(ctx, f.Queues, f.InOrder) {
		if due.Dropped > 0 {
			f.Log.Error("dropped IDs from scheduled or retry that no such task has", "queue", due.Queue, "count", due.Dropped)
		}
		if due.Err != nil {
			failed = append(failed, due.Err)
			continue
		}
		if due.Next >= 0 {
			rest = min(rest, due.Next)
		}
	}
	if len(failed) == len(f.Queues) {
		return rest, errors.Join(failed...)
	}
	if len(failed) > 0 {
		// The others go on at their pace: a broken queue must not slow them down, and it may stay broken for long.
		f.complain.Do(func() {
			f.Log.Error("delayed tasks of queues cannot be forwarded", "error", errors.Join(failed...))
		})
	}
	return rest, nil
}
