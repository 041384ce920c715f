package loops

import (
	"context"
	"errors"
	"time"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// JanitorBroker is the part of rdb.Broker that a Janitor uses.
type JanitorBroker interface {
	FilledBroker
	Purge(ctx context.Context, queue string, state wire.State, n int) (int, error)
	PublishArchiveLimits(ctx context.Context, queues []string) error
}

// Janitor deletes completed tasks whose retention has ended, and archived tasks beyond the limits
// of the archive. It also publishes these limits.
type Janitor struct {
	Broker    JanitorBroker
	Queues    []string // of one lane
	Interval  time.Duration
	BatchSize int // tasks per script call

	trimmed   time.Time
	published time.Time
}

// trimEvery is the time between two trims of the archives. Archiving a task trims, too: the janitor
// only enforces the maximum age, and deletes leftovers.
const trimEvery = time.Minute

// publishEvery is the time between two publications of the limits of archives.
const publishEvery = time.Hour

// Tick deletes all tasks that are due, in batches, so that they cannot pile up at any rate of
// completed tasks.
func (j *Janitor) Tick(ctx context.Context) (time.Duration, error) {
	err := j.clean(ctx, wire.StateCompleted)
	if time.Since(j.trimmed) >= trimEvery {
		trimmed := j.clean(ctx, wire.StateArchived)
		if err = errors.Join(err, trimmed); err == nil {
			j.trimmed = time.Now()
		}
	}
	if j.published.IsZero() || time.Since(j.published) >= publishEvery {
		switch failed := j.Broker.PublishArchiveLimits(ctx, j.Queues); {
		case failed == nil:
			j.published = time.Now()
		case !script.Refused(failed): // a full Redis may accept it at the next tick
			err = errors.Join(err, failed)
		}
	}
	return j.Interval, err
}

// clean purges each queue with tasks in a state, in batches until one is not full. An error of one
// queue does not affect the others.
func (j *Janitor) clean(ctx context.Context, state wire.State) error {
	queues, err := j.Broker.Filled(ctx, j.Queues, func(k wire.Queue) string { return wire.CollectionKey(k, state, "") })
	failed := []error{err}
	for _, queue := range queues {
		for n := j.BatchSize; err == nil && n == j.BatchSize && ctx.Err() == nil; {
			n, err = j.Broker.Purge(ctx, queue, state, j.BatchSize)
		}
		failed, err = append(failed, err), nil
	}
	return errors.Join(failed...)
}
