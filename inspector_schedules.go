package asynq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// PauseSchedulerEntry pauses a periodic task: its ticks are skipped until ResumeSchedulerEntry, and
// not enqueued later, whatever MissedTicks says. A tick that is due while no scheduler runs is
// missed, not skipped. RunSchedulerEntry still enqueues the task.
//
// The pause is stored in Redis without an expiry. It outlasts restarts and changes of the leader,
// and applies to all schedulers of the Group; without a Group, to all entries with equal settings.
// An entry whose settings change is another entry, which is not paused. Pausing a paused entry does
// nothing.
//
// It returns ErrSchedulerEntryNotFound (errors.Is) if no running scheduler has the entry, and
// another error if the scheduler is one of another library.
func (i *Inspector) PauseSchedulerEntry(ctx context.Context, entryID string) error {
	if ctx == nil {
		return errNilContext
	}
	id, err := i.pauseIDOf(ctx, entryID)
	if err != nil {
		return err
	}
	return brokerError(i.broker.PauseEntry(ctx, id))
}

// ResumeSchedulerEntry ends the pause of a periodic task. Its next tick is enqueued. Resuming an
// entry that is not paused does nothing. The ID of an entry of a Group is also accepted if no
// scheduler has the entry any more, so that its pause can be deleted; otherwise it returns
// ErrSchedulerEntryNotFound (errors.Is).
func (i *Inspector) ResumeSchedulerEntry(ctx context.Context, entryID string) error {
	if ctx == nil {
		return errNilContext
	}
	id, failed := i.pauseIDOf(ctx, entryID)
	if failed != nil {
		id = entryID
	}
	resumed, err := i.broker.ResumeEntry(ctx, id)
	if err == nil && !resumed {
		return failed
	}
	return brokerError(err)
}

// pauseIDOf returns the pause ID of an entry of a running scheduler.
func (i *Inspector) pauseIDOf(ctx context.Context, entryID string) (string, error) {
	published, err := i.broker.SchedulerEntries(ctx)
	if err != nil {
		return "", brokerError(err)
	}
	n := slices.IndexFunc(published, func(p rdb.PublishedEntry) bool { return p.Entry.ID == entryID })
	if n < 0 || entryID == "" {
		return "", fmt.Errorf("asynq: %w: %q", ErrSchedulerEntryNotFound, entryID)
	}
	id := pauseID(published[n])
	if id == "" {
		return "", fmt.Errorf("asynq: the scheduler of entry %q is one of another library, which cannot pause it", entryID)
	}
	return id, nil
}

// pauseID returns the pause ID of an entry, "" if its scheduler knows none.
func pauseID(p rdb.PublishedEntry) string {
	c, err := wire.DecodeSchedulerCreation(p.Creation)
	if err != nil {
		return ""
	}
	return c.Pause
}

// pausedEntries returns which entries are paused, by their pause IDs.
func (i *Inspector) pausedEntries(entries []rdb.PublishedEntry) (map[string]time.Time, error) {
	ids := make([]string, 0, len(entries))
	for _, p := range entries {
		if id := pauseID(p); id != "" {
			ids = append(ids, id)
		}
	}
	paused, err := i.broker.EntryPauses(i.ctx, ids...)
	return paused, brokerError(script.IgnoreRefused(err))
}
