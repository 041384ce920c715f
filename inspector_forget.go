package asynq

import (
	"context"
	"fmt"
)

// ForgetSchedulers deletes what Redis keeps of schedulers that have ended for good: who led their group, and the histories of entries, by
// their IDs (see ListSchedulerEnqueueEvents). Without it that is gone 30 days after the group was last led, and 90 days after an entry last
// enqueued: it is kept that long so that schedulers that start again go on where they were. What is kept of an entry's ticks goes with the
// queue of its tasks.
//
// Without a group only histories are deleted. What is not there is no error; a group that a scheduler leads is one, and then nothing is
// deleted: shut its schedulers down first.
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
