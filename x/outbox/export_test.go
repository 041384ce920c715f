package outbox

import (
	"context"
	"time"

	"github.com/asynq-go/asynq"
)

// MaxMessage is the maximum size of a payload.
const MaxMessage = maxMessage

// SetNow sets the clock.
func (b *Outbox) SetNow(now func() time.Time) { b.now = now }

// SetAfterSend sets a function that a relay calls after it has sent a batch to Redis, before it
// changes the database. runtime.Goexit makes the relay end there, as a crash does.
func (r *Relay) SetAfterSend(f func()) { r.afterSend = f }

// RelayBatch moves one batch.
func (r *Relay) RelayBatch(ctx context.Context) (more bool, err error) { return r.relayBatch(ctx) }

// RetryDelay is the delay of a row after a number of attempts.
var RetryDelay = retryDelay

// OnNotification calls f before each notification of the listener that an option before has set.
func OnNotification(f func()) RelayOption {
	return func(r *Relay) {
		listen := r.listen
		r.listen = func(ctx context.Context, notify func()) error {
			return listen(ctx, func() {
				f()
				notify()
			})
		}
	}
}

// ErrExpired is the error of TaskAt for an expired task.
var ErrExpired = errExpired

// TaskAt returns the task that a relay sends at a time, of a row that is created now.
func (b *Outbox) TaskAt(at time.Time, task *asynq.Task) (*asynq.Task, error) {
	r, err := newRow(task, nil, b.now())
	if err != nil {
		return nil, err
	}
	relayed, _, err := r.task(defaultIdempotencyTTL, at)
	return relayed, err
}
