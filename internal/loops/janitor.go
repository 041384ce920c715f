package loops

import (
	"context"
	"errors"
	"time"
)

// JanitorBroker is what a janitor needs of rdb.Broker.
type JanitorBroker interface {
	ExpireCompleted(ctx context.Context, queue string, n int) (int, error)
	TrimArchived(ctx context.Context, queue string, n int) (int, error)
}

// Janitor deletes completed tasks whose retention is over, and what the archive may not keep.
type Janitor struct {
	Broker    JanitorBroker
	Queues    []string // of one lane
	Interval  time.Duration
	BatchSize int // tasks deleted by one script call

	trimmed time.Time
}

// trimEvery is how often archives are trimmed. Whoever archives a task trims too; the janitor only sees to age, and to what is left.
const trimEvery = time.Minute

// Tick deletes all that is due, batch by batch: however many tasks a second complete, they do not pile up.
func (j *Janitor) Tick(ctx context.Context) (time.Duration, error) {
	var failed []error
	trim := time.Since(j.trimmed) >= trimEvery
	for _, queue := range j.Queues {
		if err := j.clean(ctx, queue, j.Broker.ExpireCompleted); err != nil {
			failed = append(failed, err)
		}
		if !trim {
			continue
		}
		if err := j.clean(ctx, queue, j.Broker.TrimArchived); err != nil {
			failed = append(failed, err)
		}
	}
	if trim && len(failed) == 0 {
		j.trimmed = time.Now()
	}
	return j.Interval, errors.Join(failed...)
}

func (j *Janitor) clean(ctx context.Context, queue string, batch func(context.Context, string, int) (int, error)) error {
	for ctx.Err() == nil {
		n, err := batch(ctx, queue, j.BatchSize)
		if err != nil || n < j.BatchSize {
			return err
		}
	}
	return nil
}
