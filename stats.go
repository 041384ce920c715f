package asynq

import (
	"iter"
	"math"
	"time"

	"github.com/asynq-go/asynq/internal/rollup"
)

// AttemptStats count the attempts of a period.
type AttemptStats struct {
	// The number of attempts by outcome, as in Outcome.
	Succeeded, Retried, Deferred, Archived, Revoked, Expired, Requeued, LeaseLost int64

	// Crashed is the number of attempts whose server crashed or lost its lease. It is counted by
	// the server that recovered the task. If the first server still runs, it counts the same
	// attempt as LeaseLost.
	Crashed int64

	// Duration has how long attempts took, of all that started and whose server did not crash.
	Duration Histogram

	// Wait has how long tasks were pending before an attempt, by the clock of Redis. It is a sample
	// of the attempts: each server measures up to four fetches a second of each queue, and all if
	// they have an Observer with AttemptStarted.
	Wait Histogram
}

// Attempts returns the number of attempts that ended, each counted once: without Expired, which did
// not start, and without LeaseLost, which another server counts as Crashed.
func (s *AttemptStats) Attempts() int64 {
	return s.Succeeded + s.Retried + s.Deferred + s.Archived + s.Revoked + s.Requeued + s.Crashed
}

// Failed returns the number of failed attempts: Retried, Archived and Crashed.
func (s *AttemptStats) Failed() int64 { return s.Retried + s.Archived + s.Crashed }

// Merge adds the attempts of other, which may be nil.
func (s *AttemptStats) Merge(other *AttemptStats) {
	if other == nil {
		return
	}
	s.Succeeded += other.Succeeded
	s.Retried += other.Retried
	s.Deferred += other.Deferred
	s.Archived += other.Archived
	s.Revoked += other.Revoked
	s.Expired += other.Expired
	s.Requeued += other.Requeued
	s.LeaseLost += other.LeaseLost
	s.Crashed += other.Crashed
	s.Duration.Merge(other.Duration)
	s.Wait.Merge(other.Wait)
}

func newAttemptStats(s *rollup.Stats) AttemptStats {
	return AttemptStats{
		Succeeded: s.Counts[rollup.Succeeded],
		Retried:   s.Counts[rollup.Retried],
		Deferred:  s.Counts[rollup.Deferred],
		Archived:  s.Counts[rollup.Archived],
		Revoked:   s.Counts[rollup.Revoked],
		Expired:   s.Counts[rollup.Expired],
		Requeued:  s.Counts[rollup.Requeued],
		LeaseLost: s.Counts[rollup.LeaseLost],
		Crashed:   s.Counts[rollup.Crashed],
		Duration:  Histogram{s.Duration},
		Wait:      Histogram{s.Wait},
	}
}

// Histogram counts durations in buckets whose bounds grow by a factor of 2^¼ (19 %), from 1 µs to
// 34 days. Its bounds are those of a Prometheus native histogram of schema 2 in seconds. The zero
// value is empty. It is not safe for concurrent changes.
type Histogram struct{ h rollup.Histogram }

// Observe adds a duration. A negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	changed := h.h.Clone() // copies of a Histogram are independent
	changed.Observe(d)
	h.h = changed
}

// Merge adds the durations of other.
func (h *Histogram) Merge(other Histogram) {
	changed := h.h.Clone()
	changed.Merge(&other.h)
	h.h = changed
}

// Count returns the number of durations.
func (h Histogram) Count() int64 { return h.h.Count() }

// Sum returns the sum of the durations, to the microsecond; the longest Duration, 292 years, if it
// is longer.
func (h Histogram) Sum() time.Duration {
	return time.Duration(min(h.h.Micros(), math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}

// Mean returns the mean duration, 0 if the histogram is empty.
func (h Histogram) Mean() time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return time.Duration(float64(h.h.Micros()) / float64(n) * float64(time.Microsecond))
}

// Quantile returns the duration that the share q of all durations does not exceed, such as 0.95; q
// is limited to the range from 0 to 1. The result is at most 9.1 % too high or too low, for
// durations from 1 µs to 34 days. It is 0 if the histogram is empty.
func (h Histogram) Quantile(q float64) time.Duration { return h.h.Quantile(q) }

// Buckets yields the buckets that are not empty, shortest durations first: the longest duration of
// each, and how many durations it has. The next shorter bound is that divided by 2^¼. The first
// bucket, up to 954 ns, and the last one, up to 292 years, have no bound below.
func (h Histogram) Buckets() iter.Seq2[time.Duration, int64] {
	return func(yield func(time.Duration, int64) bool) {
		for bucket, n := range h.h.Buckets() {
			if !yield(rollup.Bound(bucket), n) {
				return
			}
		}
	}
}

// TypeStats are the attempts of a task type in a queue.
type TypeStats struct {
	Queue string // name of the queue
	// Type is the type of the tasks. It is empty for all types together that are not counted by
	// themselves: beyond the 100 types that a server counts of a queue at a time, those with a type
	// of more than 256 bytes, and tasks that cannot be decoded.
	Type string
	AttemptStats
}

// TypePoint are the attempts of a task type in one minute or hour.
type TypePoint struct {
	Queue  string        // name of the queue
	Type   string        // type of the tasks, see TypeStats
	Start  time.Time     // start of the minute or hour, in UTC
	Length time.Duration // a minute or an hour
	AttemptStats
}

// QueuePoint are the attempts of a queue in one minute or hour, and its sizes.
type QueuePoint struct {
	Queue  string        // name of the queue
	Start  time.Time     // start of the minute or hour, in UTC
	Length time.Duration // a minute or an hour
	AttemptStats
	Sizes *QueueSizes // nil if no server of the queue was running
}

// QueueSizes are the largest sizes of a queue in a period. Its servers read them once a minute.
type QueueSizes struct {
	// Number of tasks in each state. Aggregating does not include tasks that are being aggregated;
	// it is 0 if the queue has more than 100 groups.
	Pending, Active, Scheduled, Retry, Archived, Completed, Aggregating int

	Latency time.Duration // age of the oldest pending task
}

func newQueueSizes(s *rollup.Stats) *QueueSizes {
	if !s.Sampled {
		return nil
	}
	return &QueueSizes{
		Pending:     int(s.Sizes[rollup.Pending]),
		Active:      int(s.Sizes[rollup.Active]),
		Scheduled:   int(s.Sizes[rollup.Scheduled]),
		Retry:       int(s.Sizes[rollup.Retry]),
		Archived:    int(s.Sizes[rollup.InArchive]),
		Completed:   int(s.Sizes[rollup.Completed]),
		Aggregating: int(s.Sizes[rollup.Aggregating]),
		Latency:     time.Duration(min(s.Sizes[rollup.Oldest], int64(maxInterval/time.Millisecond))) * time.Millisecond,
	}
}

// ErrorStats count the errors of one kind, of a task type in a queue.
type ErrorStats struct {
	Queue string // name of the queue

	// Kind is the common part of the texts of these errors. It is empty for all kinds together that
	// are not counted by themselves: beyond the 100 kinds and types that a server counts of a queue
	// at a time, and the 1,000 new texts that it looks at in a second.
	Kind string

	Type  string // type of the tasks, see TypeStats; empty also if Kind is
	Count int64  // number of failed attempts

	First, Last time.Time // starts of the first and the last minute or hour with such an error
}
