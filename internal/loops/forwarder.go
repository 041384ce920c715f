package loops

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// FilledBroker is the part of rdb.Broker that finds the queues of a lane with work for a loop.
type FilledBroker interface {
	Filled(ctx context.Context, queues []string, keys ...func(wire.Queue) string) ([]string, error)
}

// laneFailed reports whether the errors of visited queues of a lane concern all of them: no queue
// works, or the connection is lost.
func laneFailed(failed []error, visited, all int) bool {
	return len(failed) > 0 && (len(failed) == all || len(failed) == visited && !script.Refused(failed[0]))
}

// ForwardBroker is the part of rdb.Broker that a Forwarder uses.
type ForwardBroker interface {
	FilledBroker
	Forward(ctx context.Context, queues []string, inOrder map[string]bool) []rdb.Due
}

// Forwarder moves due tasks from scheduled and retry to pending. It sleeps until the next task is
// due, but no longer than Interval, because other processes schedule tasks, too.
type Forwarder struct {
	Broker   ForwardBroker
	Queues   []string        // of one lane
	InOrder  map[string]bool // queues whose retried tasks return to the front
	Interval time.Duration
	Log      *slog.Logger

	wake     chan struct{}
	errorLog rate.Sometimes

	mu       sync.Mutex
	scanning bool
	next     time.Time // when it wakes without a signal; during a tick, the latest time for that
}

// maxForwarded limits the queues of one pipeline.
const maxForwarded = 100

// NewForwarder returns a Forwarder for the queues of a lane.
func NewForwarder(broker ForwardBroker, queues []string, interval time.Duration, log *slog.Logger) *Forwarder {
	return &Forwarder{
		Broker: broker, Queues: queues, Interval: interval, Log: log, wake: make(chan struct{}, 1),
		errorLog: rate.Sometimes{First: 1, Interval: 30 * time.Second},
	}
}

// Wake ends the pause between two ticks.
func (f *Forwarder) Wake() <-chan struct{} { return f.wake }

// Expect announces a task that is due after a delay. If the Forwarder would sleep for longer, it
// wakes now. During a tick, it shortens the following pause instead: the tick may have missed the
// task.
func (f *Forwarder) Expect(delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := time.Now().Add(delay)
	if !due.Before(f.next) {
		return
	}
	f.next = due
	if f.scanning {
		return
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Tick moves the tasks that are due.
func (f *Forwarder) Tick(ctx context.Context) (time.Duration, error) {
	f.mu.Lock()
	f.scanning, f.next = true, time.Now().Add(f.Interval)
	f.mu.Unlock()
	delay, err := f.forward(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scanning = false
	delay = min(delay, max(time.Until(f.next), 0))
	f.next = time.Now().Add(delay)
	return delay, err
}

func (f *Forwarder) forward(ctx context.Context) (time.Duration, error) {
	queues, err := f.Broker.Filled(ctx, f.Queues, wire.Queue.Scheduled, wire.Queue.Retry)
	if err != nil || len(queues) == 0 {
		return f.Interval, err
	}
	delay := f.Interval
	var failed []error
	var all []rdb.Due
	for some := range slices.Chunk(queues, maxForwarded) {
		all = append(all, f.Broker.Forward(ctx, some, f.InOrder)...)
	}
	for _, due := range all {
		if due.Dropped > 0 {
			f.Log.Error("dropped IDs without a scheduled or retry task", "queue", due.Queue, "count", due.Dropped)
		}
		if due.Err != nil {
			failed = append(failed, due.Err)
			continue
		}
		if due.Next >= 0 {
			delay = min(delay, due.Next)
		}
	}
	if laneFailed(failed, len(queues), len(f.Queues)) {
		return delay, errors.Join(failed...)
	}
	if len(failed) > 0 {
		// The loop must not back off: the other queues need it, and a queue may stay broken for
		// long.
		f.errorLog.Do(func() {
			f.Log.Error("delayed tasks of some queues not forwarded", "error", errors.Join(failed...))
		})
	}
	return delay, nil
}
