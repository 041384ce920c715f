package bulk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// FullError is the error of archiving that would delete tasks without consent.
type FullError struct {
	Queue    string
	Tasks    int // tasks to archive
	Discards int // tasks that would be deleted
	Limit    int // tasks that the archive keeps
}

func (e *FullError) Error() string {
	return fmt.Sprintf("archiving %s of queue %q deletes %s, oldest first: the archive of a queue keeps the newest %s",
		show.Plural(int64(e.Tasks), "task"), e.Queue, show.Plural(int64(e.Discards), "archived task"), show.Number(int64(e.Limit)))
}

// Limit returns the maximum number of tasks in the archive of a queue; the default if it cannot be
// read.
func (m *Manager) Limit(ctx context.Context, queue string) int {
	limits, err := m.cfg.Inspector.ArchiveLimits(ctx, queue)
	if err != nil {
		return asynq.ArchiveMaxTasks
	}
	return limits.MaxTasks
}

// Discards returns the number of tasks that are deleted from the archive of a queue when this many
// tasks are archived.
func (m *Manager) Discards(ctx context.Context, queue string, tasks int) (int, error) {
	room, err := m.cfg.Inspector.ArchiveRoom(ctx, queue)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return 0, nil // nor are there tasks to archive
	}
	return max(tasks-room, 0), err
}

// budget is the number of tasks that an operation may archive. It does not account for tasks that
// others archive in the meantime.
type budget struct {
	room      int
	limit     int  // of the archive
	unlimited bool // the oldest tasks may be deleted
	left      atomic.Int64
	over      atomic.Bool // some tasks had no room
}

// budgetOf returns nil if the operation does not archive tasks.
func (m *Manager) budgetOf(ctx context.Context, p *plan) (*budget, error) {
	if p.Kind != Archive {
		return nil, nil
	}
	room, err := m.cfg.Inspector.ArchiveRoom(ctx, p.Queue)
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		return nil, err
	}
	b := &budget{room: room, limit: m.Limit(ctx, p.Queue), unlimited: p.DiscardOldest}
	b.left.Store(int64(room))
	return b, nil
}

// take reserves room for a task and reports whether there was any.
func (b *budget) take() bool {
	if b == nil || b.unlimited || b.left.Add(-1) >= 0 {
		return true
	}
	b.over.Store(true)
	return false
}

// giveBack returns unused room.
func (b *budget) giveBack() {
	if b != nil {
		b.left.Add(1)
	}
}

// discarded returns the number of tasks that archiving one by one has deleted.
func (b *budget) discarded(archived int) int {
	if b == nil {
		return 0
	}
	return max(archived-b.room, 0)
}

// err returns the error of tasks without room.
func (b *budget) err() error {
	if b == nil || !b.over.Load() {
		return nil
	}
	return fmt.Errorf("the archive is full: it keeps the newest %s tasks and had room for %s. The other tasks are unchanged",
		show.Number(int64(b.limit)), show.Number(int64(b.room)))
}
