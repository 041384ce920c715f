package worker

import (
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// This file is what a lane does for queues with partitions. Their fetches sort the inbox of the
// queue and name the tasks that ended, so that other tasks of their partitions may start.

// sweepInterval is how often a server checks some of the running tasks of a queue: a task keeps its
// place in its partition if the server that settled it died before its next fetch.
const sweepInterval = 5 * time.Second

// released returns the tasks of the queue that the round trip settles and whose places in their
// partitions become free.
func (q *queueState) released(t *RoundTrip) (ended []rdb.Ended) {
	for _, a := range t.settled {
		if a.Queue == q.name && a.Message != nil && q.partitions.Releases(a.settlement.Outcome) {
			ended = append(ended, rdb.Ended{Partition: a.Message.Partition(q.partitions.ByType), ID: a.settlement.ID})
		}
	}
	return ended
}

// wakeAtLimit makes the queue ready if a limit of a partition may allow further tasks.
func (q *queueState) wakeAtLimit(t *RoundTrip, now time.Time) {
	if q.limitedUntil.IsZero() {
		return
	}
	settles := slices.ContainsFunc(t.settled, func(a *Attempt) bool { return a.Queue == q.name })
	if settles || !now.Before(q.limitedUntil) {
		q.limitedUntil = time.Time{}
		q.wake()
	}
}

// minEndRate is the number of tasks that must end in a second so that the first tasks of a long
// inbox may start before it is sorted (lib/first.lua). A task then waits up to 50 µs for each one
// before it. Sorting takes Redis about 10 µs for each, and starts none meanwhile.
const minEndRate = 20_000

// countPeriod is how long the ends of tasks are counted at a time.
const countPeriod = 100 * time.Millisecond

// countEnds counts the tasks of the queue that a round trip settles, while tasks remain in it.
func (q *queueState) countEnds(t *RoundTrip) {
	for _, a := range t.settled {
		if a.Queue == q.name {
			q.ends++
		}
	}
	if q.countedAt == 0 {
		q.countedAt, q.ends = uptime(), 0
		return
	}
	if took := since(q.countedAt); took >= countPeriod {
		q.endsSlowly = float64(q.ends) < minEndRate*took.Seconds()
		q.countedAt, q.ends = uptime(), 0
	}
}

// addPartitions adds to a fetch what it needs for the partitions of the queue. If sort is set, the
// fetch sorts the inbox in any case.
func (q *queueState) addPartitions(f *rdb.Fetch, t *RoundTrip, sort bool) {
	f.Partitions = q.partitions
	if first := !slices.ContainsFunc(t.fetches, func(other *fetch) bool {
		return &other.call != f && other.call.Queue == q.name
	}); first {
		f.Ended, q.repeated = slices.Concat(q.again, q.released(t)), len(q.again) > 0
		f.Ended = f.Ended[:min(len(f.Ended), rdb.MaxEnded)] // the check of running tasks finds others
		q.again = nil
	}
	if f.N > 0 {
		q.countEnds(t)
	}
	f.BeforeSort = !q.endsSlowly && !sort
	q.sortedAt = uptime()
	if since(q.sweptAt) >= sweepInterval {
		f.Sweep, q.sweptAt = true, q.sortedAt
	}
}

// planSorts adds fetches of no task for queues with partitions that get no slot: they release the
// places of tasks that ended, and sort the inbox, so that the next slot goes to the right
// partition.
func (l *lane) planSorts(t *RoundTrip, now time.Time) {
	for _, q := range l.queues {
		if q.partitions == nil || q.phase == unknown || q.phase == paused || q.unsettled > 0 || now.Before(q.retryAt) ||
			slices.ContainsFunc(t.fetches, func(f *fetch) bool { return f.call.Queue == q.name }) {
			continue
		}
		if l.sortDue(q) || len(q.again) > 0 || len(q.released(t)) > 0 {
			l.planFetch(t, q, 0)
		}
	}
}

// sortDue reports whether the inbox of a queue must be sorted although no slot is free.
func (l *lane) sortDue(q *queueState) bool {
	return q.partitions != nil && l.demand.wants(q.name) && !l.demand.accepts(q.name) &&
		since(q.sortedAt) >= l.cfg.CheckInterval
}

// applyPartitions records what a fetch has found out about the limits of partitions.
func (q *queueState) applyPartitions(f *rdb.Fetch, now time.Time) {
	q.limitedUntil = time.Time{}
	if f.Kept > 0 && !q.repeated {
		// Redis had to load the script that settles them first, so it ran after the fetch.
		q.again = f.Ended
	}
	if f.Due > 0 && !f.More {
		q.limitedUntil = now.Add(time.Duration(f.Due-f.Now) * time.Millisecond)
	}
	if f.N == 0 && f.Unsorted {
		q.sortedAt = 0 // the rest of the inbox follows at once
	}
	if f.N > 0 && !f.More && f.Code == script.CodeOK {
		// What ends now shows how many tasks there are, not how quick they are.
		q.countedAt, q.endsSlowly = 0, false
	}
}
