package asynq

import (
	"context"
	"fmt"
)

// ForgetSchedulers deletes what Redis keeps of schedulers that have ended for good: who led their group, and the histories of these entries
// (see ListSchedulerEnqueueEvents). By itself that goes 30 days after the group was last led, and 90 days after an entry last enqueued. The
// last tick of each entry is kept beside the queue of its tasks, and goes with it (DeleteQueue) or after 30 days.
//
// An empty group means that only histories are deleted. What is not there is no error. While a scheduler leads the group nothing is deleted,
// and the error says so: shut its schedulers down first.
func (i *Inspector) ForgetSchedulers(ctx context.Context, group string, entryIDs ...string) error {
	if ctx == nil {
		return errNilContext
	}
	if group != "" {
		forgotten, err := until(ctx, func() (bool, error) { return i.broker.ForgetGroup(ctx, group) })
		if err != nil {
			return brokerError(err)
		}
		if !forgotten {
			return fmt.Errorf("asynq: a scheduler leads the group %q: shut its schedulers down first; one that crashed leads for %v at most", group, groupLease)
		}
	}
	if err := untilDone(ctx, func() error { return i.broker.ForgetEnqueues(ctx, entryIDs...) }); err != nil {
		return brokerError(err)
	}
	return nil
}
