package dash

import (
	"errors"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/failures"
)

const (
	// errorInterval is how often failed tasks are scanned while the errors are on the screen.
	errorInterval = 10 * time.Second
	// maxScanPerState and maxScanTotal limit the number of scanned tasks.
	maxScanPerState = 1000
	maxScanTotal    = 10000
	// errorSamples is the maximum number of listed tasks per kind of error.
	errorSamples = 100
)

// errorGroups are the errors of retry and archived tasks, grouped by kind.
type errorGroups struct {
	at    time.Time
	kinds []*failures.Kind // most frequent first
	// tasks is the number of scanned tasks. partial means that more tasks exist.
	tasks   int
	partial bool
}

// kind returns a kind of error by its ID, or nil.
func (g *errorGroups) kind(id string) *failures.Kind {
	if g == nil {
		return nil
	}
	for _, k := range g.kinds {
		if k.ID == id {
			return k
		}
	}
	return nil
}

func (f fetcher) errors(b *base) (*errorGroups, error) {
	found := &errorGroups{at: time.Now()}
	tally := failures.NewTally(errorSamples)
	for _, q := range b.queues {
		if q.info == nil {
			continue
		}
		for _, state := range failures.States {
			if count(q.info, state) == 0 {
				continue
			}
			if tally.Tasks >= maxScanTotal {
				found.partial = true
				break
			}
			for task, err := range f.insp.Tasks(f.ctx, q.name, state, asynq.TaskFilter{MaxScan: maxScanPerState}) {
				if errors.Is(err, asynq.ErrScanLimit) {
					found.partial = true
					break
				}
				if err != nil {
					if errors.Is(err, asynq.ErrQueueNotFound) {
						break
					}
					return nil, err
				}
				tally.Add(task)
			}
		}
	}
	found.tasks, found.kinds = tally.Tasks, tally.Kinds()
	return found, nil
}
