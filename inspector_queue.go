package asynq

import (
	"context"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// defaultMemorySamples is how many tasks of each state QueueInfo.MemoryUsage is estimated from.
const defaultMemorySamples = 20

// QueueInfo is the state of a queue at one moment.
type QueueInfo struct {
	// Queue is the queue's name.
	Queue string

	// MemoryUsage is about how many bytes of Redis's memory the queue and its tasks take. It is estimated from a few tasks of each state
	// (see WithMemorySamples), a moment later than the rest; 0 if Redis does not tell.
	MemoryUsage int64

	// Latency is how long the oldest pending task has been waiting; 0 if there is none.
	Latency time.Duration

	// ScheduledOverdue and RetryOverdue are for how long the scheduled task, or the one that waits for its next attempt, that was due
	// first has been due; 0 if none is. While a server processes the queue, that is hardly ever more than a few seconds.
	ScheduledOverdue, RetryOverdue time.Duration

	// LeaseOverdue is how long ago the first lease of an active task ended; 0 if none has. Such a task is an orphan: its server
	// crashed, and none has taken it over yet.
	LeaseOverdue time.Duration

	// Size is the number of tasks, without completed ones.
	Size int

	// Groups is the number of groups that hold tasks.
	Groups int

	// Numbers of tasks in each state. Aggregating includes those that are being aggregated right now.
	Pending, Active, Scheduled, Retry, Archived, Completed, Aggregating int

	// Processed is how many attempts ended on this UTC day, and Failed how many of them failed.
	Processed, Failed int

	// ProcessedTotal and FailedTotal are the same since the queue was made.
	ProcessedTotal, FailedTotal int

	// Paused says that no tasks of the queue are taken.
	Paused bool

	// Timestamp is when this was so, by the clock of Redis.
	Timestamp time.Time
}

// WithMemorySamples returns a view of the inspector that estimates QueueInfo.MemoryUsage from up to n tasks of each state, and as many
// groups. More than 100 count as 100, and 0 or less leave MemoryUsage at 0, which saves a call. Default 20.
func (i *Inspector) WithMemorySamples(n int) *Inspector {
	view := *i
	view.samples = n
	return &view
}

// GetQueueInfo tells the state of a queue: all of it at one moment, but for MemoryUsage, and for Aggregating in a queue that has more
// than 500 groups. What it costs does not depend on the number of tasks. The error is ErrQueueNotFound (errors.Is) if there is no
// such queue.
func (i *Inspector) GetQueueInfo(queue string) (*QueueInfo, error) {
	if err := i.mustExist(i.ctx, queue); err != nil {
		return nil, err
	}
	s, err := until(i.ctx, func() (*rdb.QueueStats, error) { return i.broker.Stats(i.ctx, queue) })
	if err != nil {
		return nil, brokerError(err)
	}
	info := newQueueInfo(queue, s)
	if err := i.addMemory(i.ctx, info, s); err != nil {
		return nil, err
	}
	return info, nil
}

// addMemory adds an estimate of the memory, if it is asked for.
func (i *Inspector) addMemory(ctx context.Context, info *QueueInfo, s *rdb.QueueStats) (err error) {
	if i.samples <= 0 {
		return nil
	}
	if info.MemoryUsage, err = until(ctx, func() (int64, error) { return i.broker.Memory(ctx, info.Queue, s, i.samples) }); err != nil {
		return brokerError(err)
	}
	return nil
}

func newQueueInfo(queue string, s *rdb.QueueStats) *QueueInfo {
	overdue := func(since time.Time) time.Duration {
		if since.IsZero() {
			return 0
		}
		return max(s.Now.Sub(since), 0)
	}
	info := &QueueInfo{
		Queue:          queue,
		Groups:         s.Groups,
		Pending:        s.Sizes[wire.StatePending],
		Active:         s.Sizes[wire.StateActive],
		Scheduled:      s.Sizes[wire.StateScheduled],
		Retry:          s.Sizes[wire.StateRetry],
		Archived:       s.Sizes[wire.StateArchived],
		Completed:      s.Sizes[wire.StateCompleted],
		Aggregating:    s.Sizes[wire.StateAggregating],
		Processed:      int(s.ProcessedToday),
		Failed:         int(s.FailedToday),
		ProcessedTotal: int(s.ProcessedTotal),
		FailedTotal:    int(s.FailedTotal),
		Paused:         s.Paused,
		Timestamp:      s.Now,
	}
	info.Size = info.Pending + info.Active + info.Scheduled + info.Retry + info.Archived + info.Aggregating
	info.Latency = overdue(s.Oldest)
	info.ScheduledOverdue, info.RetryOverdue = overdue(s.NextScheduled), overdue(s.NextRetry)
	info.LeaseOverdue = overdue(s.NextLease)
	return info
}

// DailyStats are the counters of a queue for one UTC day.
type DailyStats struct {
	// Queue is the queue's name.
	Queue string

	// Processed is how many attempts ended on the day, failed ones among them.
	Processed int

	// Failed is how many of them failed.
	Failed int

	// Date is when the day began, in UTC.
	Date time.Time
}

// maxHistory bounds the days that History makes entries for, far beyond those that are kept.
const maxHistory = 100_000

// History tells how many tasks of a queue were processed on each of the last n UTC days, today's first. Counters are kept for 90
// days; older ones are 0. It fails if n is less than 1 or more than 100,000; the error is ErrQueueNotFound (errors.Is) if there is no such queue.
func (i *Inspector) History(queue string, n int) ([]*DailyStats, error) {
	if n < 1 || n > maxHistory {
		return nil, fmt.Errorf("asynq: history of %d days: it must be from 1 to %d", n, maxHistory)
	}
	if err := i.mustExist(i.ctx, queue); err != nil {
		return nil, err
	}
	days, err := until(i.ctx, func() ([]rdb.DailyStats, error) { return i.broker.History(i.ctx, queue, n) })
	if err != nil {
		return nil, brokerError(err)
	}
	stats := make([]*DailyStats, n)
	for d, day := range days {
		stats[d] = &DailyStats{Queue: queue, Processed: int(day.Processed), Failed: int(day.Failed), Date: day.Day}
	}
	return stats, nil
}

// GroupInfo is a group of a queue at one moment.
type GroupInfo struct {
	// Group is the group's name.
	Group string

	// Size is how many tasks wait in the group. Those that are being aggregated right now no longer do.
	Size int

	// Oldest is when the first of these tasks came into the group, by the clock of Redis and to the second; zero if that is not known.
	Oldest time.Time
}

// Groups lists the groups of a queue that hold tasks, by name. The error is ErrQueueNotFound (errors.Is) if there is no such queue.
func (i *Inspector) Groups(queue string) ([]*GroupInfo, error) {
	groups, err := until(i.ctx, func() ([]rdb.Group, error) { return i.broker.Groups(i.ctx, queue) })
	if err != nil {
		return nil, brokerError(err)
	}
	if len(groups) == 0 {
		return nil, i.mustExist(i.ctx, queue)
	}
	infos := make([]*GroupInfo, len(groups))
	for n, g := range groups {
		infos[n] = &GroupInfo{Group: g.Name, Size: g.Size, Oldest: g.Oldest}
	}
	return infos, nil
}
