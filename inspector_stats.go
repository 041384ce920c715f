package asynq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// The methods in this file read what servers and Receivers count (see Config.DisableStats): by
// minute for 48 hours, and by hour for 30 days. All have the same parameters:
//
//   - queue is the name of a queue, or empty for all queues.
//   - from and to limit the time: from the minute or hour that contains from, until before to.
//     A zero to is now. Times that are too old have no statistics.
//
// They return ErrQueueNotFound (errors.Is) if there is no such queue, and an error if from is not
// before to. If some queues cannot be read, they return the others, and an error.

// TypeStats returns the attempts of all task types, those with the longest total Duration first,
// and among equals those with the most attempts. Numbers are exact, except what a killed process
// had not written yet: of the last 5 seconds, or up to a minute if it had many types.
//
// queue may be empty for all queues. If from is more than 48 hours ago, the first hour is counted
// whole.
func (i *Inspector) TypeStats(ctx context.Context, queue string, from, to time.Time) ([]*TypeStats, error) {
	queues, from, to, err := i.statsRange(ctx, queue, from, to)
	if err != nil {
		return nil, err
	}
	found, err := i.inspector.TypeStats(ctx, queues, from, to)
	all := make([]*TypeStats, len(found))
	for n, s := range found {
		all[n] = &TypeStats{Queue: s.Queue, Type: s.Type, AttemptStats: newAttemptStats(&s.Stats)}
	}
	slices.SortFunc(all, func(a, b *TypeStats) int {
		return cmp.Or(
			cmp.Compare(b.Duration.Sum(), a.Duration.Sum()), cmp.Compare(b.Attempts(), a.Attempts()),
			strings.Compare(a.Queue, b.Queue), strings.Compare(a.Type, b.Type),
		)
	})
	return all, brokerError(err)
}

// QueueHistory returns the attempts and sizes of a queue, oldest first: one point a minute, or one
// an hour if from is more than 48 hours ago. There is no point for a minute without a running
// server of the queue.
//
// queue may be empty for all queues; then the points are sorted by queue first.
func (i *Inspector) QueueHistory(ctx context.Context, queue string, from, to time.Time) ([]*QueuePoint, error) {
	queues, from, to, err := i.statsRange(ctx, queue, from, to)
	if err != nil {
		return nil, err
	}
	found, err := i.inspector.QueueHistory(ctx, queues, from, to)
	points := make([]*QueuePoint, len(found))
	for n := range found {
		p := &found[n]
		points[n] = &QueuePoint{
			Queue: p.Queue, Start: p.Start, Length: p.Length, AttemptStats: newAttemptStats(&p.Stats), Sizes: newQueueSizes(&p.Stats),
		}
	}
	return points, brokerError(err)
}

// TypeHistory returns the attempts of a task type, oldest first: one point a minute, or one an hour
// if from is more than 48 hours ago. There is no point for a minute without an attempt. An empty
// typename stands for types that are not counted by themselves, see TypeStats.
//
// queue may be empty for all queues; then the points are sorted by queue first.
func (i *Inspector) TypeHistory(ctx context.Context, queue, typename string, from, to time.Time) ([]*TypePoint, error) {
	queues, from, to, err := i.statsRange(ctx, queue, from, to)
	if err != nil {
		return nil, err
	}
	found, err := i.inspector.TypeHistory(ctx, queues, typename, from, to)
	points := make([]*TypePoint, len(found))
	for n := range found {
		p := &found[n]
		points[n] = &TypePoint{
			Queue: p.Queue, Type: typename, Start: p.Start, Length: p.Length, AttemptStats: newAttemptStats(&p.Stats),
		}
	}
	return points, brokerError(err)
}

// ErrorStats returns the errors of failed attempts by kind and task type, most first. First and
// Last are minutes, or hours if from is more than 48 hours ago.
//
// queue may be empty for all queues.
func (i *Inspector) ErrorStats(ctx context.Context, queue string, from, to time.Time) ([]*ErrorStats, error) {
	queues, from, to, err := i.statsRange(ctx, queue, from, to)
	if err != nil {
		return nil, err
	}
	found, err := i.inspector.ErrorStats(ctx, queues, from, to)
	all := make([]*ErrorStats, len(found))
	for n, s := range found {
		all[n] = &ErrorStats{Queue: s.Queue, Kind: s.Kind, Type: s.Type, Count: s.Count, First: s.First, Last: s.Last}
	}
	return all, brokerError(err)
}

// statsRange returns the queues to read, and the limits of the time.
func (i *Inspector) statsRange(ctx context.Context, queue string, from, to time.Time) (queues []string, first, end time.Time, err error) {
	if ctx == nil {
		return nil, from, to, errNilContext
	}
	now := time.Now()
	if to.IsZero() || to.After(now.Add(time.Hour)) {
		to = now
	}
	if !from.Before(to) {
		return nil, from, to, fmt.Errorf("asynq: statistics from %v: it must be before %v", from, to)
	}
	if oldest := now.Add(-wire.StatsHoursTTL); from.Before(oldest) {
		from = oldest
	}
	if queue == "" {
		queues, err = i.broker.Queues(ctx)
		slices.Sort(queues)
		return queues, from, to, brokerError(err)
	}
	if err := validQueue(queue, noQueueText); err != nil {
		return nil, from, to, err
	}
	return []string{queue}, from, to, i.mustExist(ctx, queue, noQueueText)
}
