package asynq

import (
	"context"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// SchedulerEntry is what is known of a periodic task.
type SchedulerEntry struct {
	// ID of the entry.
	ID string

	// Spec says when the task is enqueued.
	Spec string

	// Task that is enqueued.
	Task *Task

	// Opts are the options that it is enqueued with. Those that cannot be read, because another library printed them in another
	// way, are missing.
	Opts []Option

	// Next is when the task is to be enqueued next; zero if never.
	Next time.Time

	// Prev is when the task was last due and enqueued; zero if it never was.
	Prev time.Time
}

// SchedulerEnqueueEvent tells that a periodic task was enqueued.
type SchedulerEnqueueEvent struct {
	// TaskID is the ID of the task that was enqueued.
	TaskID string

	// EnqueuedAt is when it was.
	EnqueuedAt time.Time
}

// SchedulerEntries lists the entries of all schedulers that live, as they were when these last told of them (see
// SchedulerOpts.HeartbeatInterval). Of a group, each entry is listed once.
func (i *Inspector) SchedulerEntries() ([]*SchedulerEntry, error) { return i.schedulerEntries(i.ctx) }

func (i *Inspector) schedulerEntries(ctx context.Context) ([]*SchedulerEntry, error) {
	published, err := until(ctx, func() ([]rdb.PublishedEntry, error) { return i.broker.SchedulerEntries(ctx) })
	if err != nil {
		return nil, brokerError(err)
	}
	entries := make([]*SchedulerEntry, 0, len(published))
	seen := make(map[string]bool, len(published))
	for _, p := range published {
		if seen[p.Entry.ID] {
			continue // told by the old leader of a group, which died lately
		}
		seen[p.Entry.ID] = true
		entries = append(entries, newSchedulerEntry(p))
	}
	return entries, nil
}

// newSchedulerEntry describes an entry by what its scheduler told.
func newSchedulerEntry(p rdb.PublishedEntry) *SchedulerEntry {
	e := &SchedulerEntry{ID: p.Entry.ID, Spec: p.Entry.Spec, Next: p.Entry.Next, Prev: p.Entry.Prev}
	if c, err := wire.DecodeSchedulerCreation(p.Creation); err == nil {
		e.Task, e.Opts = NewTaskWithHeaders(c.Type, c.Payload, c.Headers), parseOptions(c.Options)
	} else {
		e.Task, e.Opts = NewTask(p.Entry.TaskType, p.Entry.Payload), parseOptions(p.Entry.EnqueueOptions)
	}
	return e
}

// ListSchedulerEnqueueEvents lists when an entry enqueued its task, the newest first. Of each entry the last 1,000 events are kept, for
// 90 days after the last one. The list of an unknown entry is empty.
func (i *Inspector) ListSchedulerEnqueueEvents(entryID string, opts ...ListOption) ([]*SchedulerEnqueueEvent, error) {
	offset, limit := listWindow(opts)
	found, err := until(i.ctx, func() ([]*wire.SchedulerEnqueueEvent, error) {
		return i.broker.EnqueueEvents(i.ctx, entryID, offset, limit)
	})
	if err != nil {
		return nil, brokerError(err)
	}
	events := make([]*SchedulerEnqueueEvent, len(found))
	for n, e := range found {
		events[n] = &SchedulerEnqueueEvent{TaskID: e.TaskID, EnqueuedAt: e.EnqueuedAt}
	}
	return events, nil
}

// RunSchedulerEntry enqueues the task of an entry now, with its options, and adds that to the entry's history. The entry's own
// times stay as they are. The error is ErrSchedulerEntryNotFound (errors.Is) if no living scheduler has the entry, or one of
// Client.Enqueue. If there is an error and a TaskInfo, the task was enqueued and only the history lacks it.
func (i *Inspector) RunSchedulerEntry(ctx context.Context, entryID string) (*TaskInfo, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	entries, err := i.schedulerEntries(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.ID == entryID {
			return i.runEntry(ctx, e)
		}
	}
	return nil, fmt.Errorf("asynq: %w: %q", ErrSchedulerEntryNotFound, entryID)
}

func (i *Inspector) runEntry(ctx context.Context, e *SchedulerEntry) (*TaskInfo, error) {
	now := time.Now()
	made, err := newCreation(e.Task, e.Opts, i.broker.Keys, now)
	if err != nil {
		return nil, err
	}
	err = untilDone(ctx, func() error {
		i.broker.Enqueue(ctx, &made.order)
		return made.order.Err
	})
	if err != nil {
		return nil, publicError(err)
	}
	event := rdb.EnqueueEvent{Entry: e.ID, TaskID: made.order.ID, At: now}
	if err := untilDone(ctx, func() error { return i.broker.RecordEnqueues(ctx, event) }); err != nil {
		return made.info(), fmt.Errorf("asynq: the task is enqueued, but not in the history: %w", err)
	}
	return made.info(), nil
}
