package asynq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// QueueInfoResult is the result of QueueInfos for one queue. Either Info or Err is set.
type QueueInfoResult struct {
	Queue string        // name of the queue
	Info  *QueueInfo    // state of the queue
	Err   error         // why Info is nil: ErrQueueNotFound (errors.Is) if there is no such queue
	Took  time.Duration // time from the start of the call until this result
}

// QueueInfos returns the state of the named queues, or of all queues if none is named, with few
// round trips. See GetQueueInfo. The results are in the order of the names; all queues are sorted
// by name. An error of one queue does not affect the others.
//
// It returns when ctx ends; queues without a reply then have the error of ctx. The error is set if
// the names of the queues could not be read.
func (i *Inspector) QueueInfos(ctx context.Context, queues ...string) ([]QueueInfoResult, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	began := time.Now()
	names, err := i.broker.Queues(ctx)
	if err != nil {
		return nil, brokerError(err)
	}
	took := time.Since(began)
	slices.Sort(names)
	if len(queues) == 0 {
		queues = names
	}
	results := make(map[string]QueueInfoResult, len(queues))
	for _, queue := range queues {
		results[queue] = QueueInfoResult{Queue: queue, Err: queueNotFound(queue, queueNotFoundText), Took: took}
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return results[name].Err == nil })
	// The lanes are queried concurrently, so that a failed shard does not delay the others.
	lanes := i.broker.Lanes(names)
	answers := make(chan []QueueInfoResult, len(lanes))
	for _, lane := range lanes {
		go func() { answers <- i.ask(ctx, began, lane) }()
	}
	for range lanes {
		for _, r := range <-answers {
			results[r.Queue] = r
		}
	}
	all := make([]QueueInfoResult, len(queues))
	for n, queue := range queues {
		all[n] = results[queue]
	}
	return all, nil
}

// ask queries the queues of a lane: all states in one pipeline, then all memory estimates.
func (i *Inspector) ask(ctx context.Context, began time.Time, lane []string) []QueueInfoResult {
	results := make([]QueueInfoResult, len(lane))
	stats, errs := i.inspector.Stats(ctx, lane)
	for n, queue := range lane {
		results[n] = QueueInfoResult{Queue: queue, Took: time.Since(began)}
		if errs[n] != nil {
			results[n].Err = brokerError(errs[n])
			continue
		}
		results[n].Info = newQueueInfo(queue, stats[n])
	}
	if i.samples <= 0 {
		return results
	}
	bytes, errs := i.inspector.Memory(ctx, lane, stats, i.samples)
	for n := range results {
		r := &results[n]
		switch {
		case r.Info == nil:
			continue
		case errs[n] != nil:
			r.Info, r.Err = nil, brokerError(errs[n])
		default:
			r.Info.MemoryUsage = bytes[n]
		}
		r.Took = time.Since(began)
	}
	return results
}

// defaultMemorySamples is the number of tasks per state that QueueInfo.MemoryUsage is estimated
// from.
const defaultMemorySamples = 20

// QueueInfo is the state of a queue at one moment.
type QueueInfo struct {
	Queue string // name of the queue

	// MemoryUsage is the approximate number of bytes that the queue and its tasks use in Redis. It
	// is estimated from a few tasks of each state (see WithMemorySamples), slightly later than the
	// other fields. It is 0 if Redis does not report memory usage.
	MemoryUsage int64

	// Latency is the age of the oldest pending task, 0 if there is none.
	Latency time.Duration

	// ScheduledOverdue and RetryOverdue are how long the earliest scheduled task, or the earliest
	// task in retry, has been overdue; 0 if none is. While a server processes the queue, they
	// rarely exceed a few seconds.
	ScheduledOverdue, RetryOverdue time.Duration

	// LeaseOverdue is the time since the first lease of an active task expired, 0 if none has. Such
	// a task is orphaned: its server crashed, and no server has recovered it yet.
	LeaseOverdue time.Duration

	Size   int // number of tasks in all states, including completed tasks
	Groups int // number of groups with tasks

	// Held is the number of tasks that wait because of their partition: see PartitionConfig.
	Held int

	// Number of tasks in each state. Aggregating includes tasks that are being aggregated.
	// Scheduled does not include held tasks.
	Pending, Active, Scheduled, Retry, Archived, Completed, Aggregating int

	// Processed is the number of attempts finished on this UTC day, and Failed how many of them
	// failed.
	Processed, Failed int

	// ProcessedTotal and FailedTotal count the attempts since the queue was created.
	ProcessedTotal, FailedTotal int

	// Archive has the limits of the archive, see Inspector.ArchiveLimits.
	Archive ArchiveConfig

	Paused    bool      // whether the queue is paused
	Timestamp time.Time // time of this state by the clock of Redis
}

// WithMemorySamples returns a view of the inspector that estimates QueueInfo.MemoryUsage from up to
// n tasks of each state, and as many groups. The default is 20, the maximum 100. If n is 0 or
// negative, MemoryUsage is 0, which saves a call.
func (i *Inspector) WithMemorySamples(n int) *Inspector {
	view := *i
	view.samples = n
	return &view
}

// GetQueueInfo returns the state of a queue at one moment, except MemoryUsage, and Aggregating if
// the queue has more than 500 groups. Its cost does not depend on the number of tasks. It returns
// ErrQueueNotFound (errors.Is) if the queue does not exist.
func (i *Inspector) GetQueueInfo(queue string) (*QueueInfo, error) {
	if err := validQueue(queue, noQueueText); err != nil {
		return nil, err
	}
	if err := i.mustExist(i.ctx, queue, noQueueText); err != nil {
		return nil, err
	}
	r := i.ask(i.ctx, time.Now(), []string{queue})[0]
	return r.Info, r.Err
}

func newQueueInfo(queue string, s *inspect.QueueStats) *QueueInfo {
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
		Held:           s.Held,
		Scheduled:      s.Sizes[wire.StateScheduled],
		Retry:          s.Sizes[wire.StateRetry],
		Archived:       s.Sizes[wire.StateArchived],
		Completed:      s.Sizes[wire.StateCompleted],
		Aggregating:    s.Sizes[wire.StateAggregating],
		Processed:      int(s.ProcessedToday),
		Failed:         int(s.FailedToday),
		ProcessedTotal: int(s.ProcessedTotal),
		FailedTotal:    int(s.FailedTotal),
		Archive:        publicLimits(s.Archive),
		Paused:         s.Paused,
		Timestamp:      s.Now,
	}
	info.Size = info.Pending + info.Held + info.Active + info.Scheduled + info.Retry + info.Archived + info.Completed +
		info.Aggregating
	info.Latency = overdue(s.Oldest)
	info.ScheduledOverdue, info.RetryOverdue = overdue(s.NextScheduled), overdue(s.NextRetry)
	info.LeaseOverdue = overdue(s.NextLease)
	return info
}

// DailyStats are the counters of a queue for one UTC day.
type DailyStats struct {
	Queue     string    // name of the queue
	Processed int       // number of attempts finished on the day, including failed ones
	Failed    int       // number of failed attempts
	Date      time.Time // start of the day in UTC
}

// maxHistory limits the days of History, far beyond those that Redis keeps.
const maxHistory = 100_000

// History returns the counters of a queue for each of the last n UTC days, today first. Redis keeps
// counters for 90 days; older ones are 0. It returns an error if n is less than 1 or more than
// 100,000, and ErrQueueNotFound (errors.Is) if the queue does not exist.
func (i *Inspector) History(queue string, n int) ([]*DailyStats, error) {
	if n < 1 || n > maxHistory {
		return nil, fmt.Errorf("asynq: history of %d days: it must be from 1 to %d", n, maxHistory)
	}
	if err := validQueue(queue, noQueueText); err != nil {
		return nil, err
	}
	if err := i.mustExist(i.ctx, queue, noQueueText); err != nil {
		return nil, err
	}
	days, err := i.inspector.History(i.ctx, queue, n)
	return converted(days, err, func(day inspect.DailyStats) *DailyStats {
		return &DailyStats{Queue: queue, Processed: int(day.Processed), Failed: int(day.Failed), Date: day.Day}
	})
}

// GroupInfo is the state of a group of a queue at one moment.
type GroupInfo struct {
	Group string // name of the group

	// Size is how many tasks wait in the group. Those that are being aggregated right now no longer
	// do.
	Size int

	// Oldest is when the oldest of these tasks entered the group, by the clock of Redis in whole
	// seconds. It is zero if unknown.
	Oldest time.Time
}

// Groups returns the groups of a queue that have tasks, sorted by name. It returns none, and no
// error, if the queue does not exist.
func (i *Inspector) Groups(queue string) ([]*GroupInfo, error) {
	groups, err := i.inspector.Groups(i.ctx, queue)
	return converted(groups, err, func(g inspect.Group) *GroupInfo {
		return &GroupInfo{Group: g.Name, Size: g.Size, Oldest: g.Oldest}
	})
}

// DeleteQueue deletes a queue and everything that Redis stores for it: tasks, locks, groups and
// statistics. Without force the queue must be empty. With force it may have tasks, but no active
// ones.
//
// With force it pauses the queue and deletes all of its tasks at one moment. Then it scans the
// names of all keys in Redis, in small steps, until it finds none of the queue. If the call fails
// before the end, the queue remains paused: call DeleteQueue again. A task that is enqueued during
// the call is deleted with the queue or recreates it.
//
// It returns ErrQueueNotFound if the queue does not exist, ErrQueueNotEmpty if it has tasks and
// force is not set, and ErrTaskState if force is set and a task is active (errors.Is). In these
// cases it deletes nothing.
func (i *Inspector) DeleteQueue(queue string, force bool) error {
	if err := i.mustExist(i.ctx, queue, noQueueToDelete); err != nil {
		return err
	}
	if err := validateQueueName(queue); err != nil {
		return err
	}
	err := i.inspector.RemoveQueue(i.ctx, queue, force)
	switch {
	case errors.Is(err, script.ErrTaskActive):
		return &stateError{fmt.Sprintf("asynq: cannot delete queue %q: it has active tasks: cancel them first, or wait until they finish", queue)}
	case errors.Is(err, script.ErrQueueNonempty) && force:
		return fmt.Errorf("asynq: %w: clients keep enqueueing to queue %q, which is now paused: stop them, and delete it again", ErrQueueNotEmpty, queue)
	case errors.Is(err, script.ErrQueueNonempty):
		return fmt.Errorf("asynq: %w: queue=%q", ErrQueueNotEmpty, queue) // programs compare the text
	default:
		return brokerError(err)
	}
}
