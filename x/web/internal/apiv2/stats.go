package apiv2

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// AttemptStats count attempts.
type AttemptStats struct {
	Attempts  int64      `json:"attempts" doc:"The attempts that ended: without expired and lease_lost."`
	Failed    int64      `json:"failed" doc:"The sum of retried, archived and crashed."`
	Succeeded int64      `json:"succeeded"`
	Retried   int64      `json:"retried"`
	Deferred  int64      `json:"deferred" doc:"Attempts that did not count as failed or as retries."`
	Archived  int64      `json:"archived"`
	Revoked   int64      `json:"revoked"`
	Expired   int64      `json:"expired" doc:"Tasks that were archived because their deadline passed before an attempt."`
	Requeued  int64      `json:"requeued" doc:"Attempts that a shutdown ended."`
	LeaseLost int64      `json:"lease_lost" doc:"Attempts whose server lost its lease. The server that recovers the task counts them as crashed."`
	Crashed   int64      `json:"crashed"`
	Duration  *Durations `json:"duration" doc:"How long attempts took. null: not known of any."`
	Wait      *Durations `json:"wait" doc:"How long tasks were pending, of a sample of the attempts. null: not known of any."`
}

// Durations are percentiles of durations. They are at most 9.1 % off.
type Durations struct {
	Count int64   `json:"count"`
	Sum   float64 `json:"sum_seconds"`
	P50   float64 `json:"p50_seconds"`
	P95   float64 `json:"p95_seconds"`
	P99   float64 `json:"p99_seconds"`
}

func newDurations(h asynq.Histogram) *Durations {
	if h.Count() == 0 {
		return nil
	}
	at := func(q float64) float64 { return h.Quantile(q).Seconds() }
	return &Durations{h.Count(), h.Sum().Seconds(), at(0.5), at(0.95), at(0.99)}
}

func newAttemptStats(s *asynq.AttemptStats) AttemptStats {
	return AttemptStats{
		s.Attempts(), s.Failed(), s.Succeeded, s.Retried, s.Deferred, s.Archived, s.Revoked, s.Expired, s.Requeued, s.LeaseLost, s.Crashed,
		newDurations(s.Duration), newDurations(s.Wait),
	}
}

// TypeStats are the attempts of a task type in a queue.
type TypeStats struct {
	Queue string `json:"queue"`
	Type  string `json:"type" doc:"Empty for all types that servers do not count by themselves, beyond the first 100 of a queue."`
	AttemptStats
}

// TypeStatsList is the attempts of task types.
type TypeStatsList struct {
	Items  []TypeStats  `json:"items"`
	Errors []QueueError `json:"errors" doc:"The queues that could not be read."`
}

// StatsPoint are the attempts in a minute or an hour, and the sizes of queues.
type StatsPoint struct {
	Start  time.Time `json:"start"`
	Length int       `json:"length_seconds" doc:"60 or 3600."`
	AttemptStats
	Sizes *Sizes `json:"sizes" doc:"The largest sizes, summed up over the queues. null: no server was running, or the points are those of a type."`
}

// Sizes are numbers of tasks by state.
type Sizes struct {
	Pending     int     `json:"pending"`
	Active      int     `json:"active"`
	Scheduled   int     `json:"scheduled"`
	Retry       int     `json:"retry"`
	Archived    int     `json:"archived"`
	Completed   int     `json:"completed"`
	Aggregating int     `json:"aggregating"`
	Latency     float64 `json:"latency_seconds" doc:"The age of the oldest pending task."`
}

func (s *Sizes) add(q *asynq.QueueSizes) {
	s.Pending += q.Pending
	s.Active += q.Active
	s.Scheduled += q.Scheduled
	s.Retry += q.Retry
	s.Archived += q.Archived
	s.Completed += q.Completed
	s.Aggregating += q.Aggregating
	s.Latency = max(s.Latency, q.Latency.Seconds())
}

// StatsHistory is attempts over time, oldest first.
type StatsHistory struct {
	Items  []StatsPoint `json:"items"`
	Errors []QueueError `json:"errors" doc:"The queues that could not be read."`
}

// ErrorStats count the failed attempts with one kind of error.
type ErrorStats struct {
	Queue string    `json:"queue"`
	Kind  string    `json:"kind" doc:"The common part of the error texts. Empty for all kinds that servers do not count by themselves."`
	Type  string    `json:"type"`
	Count int64     `json:"count"`
	First time.Time `json:"first" doc:"The start of the first minute, or hour, with such an error."`
	Last  time.Time `json:"last" doc:"The start of the last minute, or hour, with such an error."`
}

// ErrorStatsList is failed attempts by kind of error.
type ErrorStatsList struct {
	Items  []ErrorStats `json:"items"`
	Errors []QueueError `json:"errors" doc:"The queues that could not be read."`
}

// statsParams returns the parameters of all statistics.
func statsParams() []param {
	return []param{
		queueParam,
		{name: "from", kind: "string", doc: "Only attempts from this time on, in RFC 3339: from the start of its minute, or of its hour if it is more than 48 hours ago. The default is 24 hours before to. Statistics are kept for 30 days."},
		{name: "to", kind: "string", doc: "Only attempts before this time, in RFC 3339. The default is now."},
	}
}

// readStats calls read for the selected queues, or once with an empty name for all queues. It
// returns the queues that could not be read, or an error if none could.
func readStats[T any](c *call, read func(ctx context.Context, queue string, from, to time.Time) ([]T, error)) ([]T, []QueueError, error) {
	queues := slices.Compact(slices.Sorted(slices.Values(c.strs("queue"))))
	if err := c.viewQueues(queues); err != nil {
		return nil, nil, err
	}
	from, err := c.time("from")
	if err != nil {
		return nil, nil, err
	}
	to, err := c.time("to")
	if err != nil {
		return nil, nil, err
	}
	if to.IsZero() {
		to = time.Now()
	}
	if from.IsZero() {
		from = to.Add(-24 * time.Hour)
	}
	if !from.Before(to) {
		return nil, nil, badParam("from", "must be before to")
	}
	if len(queues) == 0 {
		queues = []string{""}
	}
	var all []T
	failed := []QueueError{}
	for _, queue := range queues {
		found, err := read(c.r.Context(), queue, from, to)
		all = append(all, found...)
		switch {
		case errors.Is(err, asynq.ErrQueueNotFound), err != nil && len(found) == 0:
			return nil, nil, err
		case err != nil:
			failed = append(failed, QueueError{queue, show.RedisError(err)})
		}
	}
	return all, failed, nil
}

func (c *call) typeStats() (any, error) {
	found, failed, err := readStats(c, c.api.Inspector.TypeStats)
	if err != nil {
		return nil, err
	}
	out := TypeStatsList{Items: make([]TypeStats, len(found)), Errors: failed}
	for n, s := range found {
		out.Items[n] = TypeStats{s.Queue, s.Type, newAttemptStats(&s.AttemptStats)}
	}
	slices.SortStableFunc(out.Items, func(a, b TypeStats) int { return cmpSum(b.Duration, a.Duration) })
	return out, nil
}

func (c *call) statsHistory() (any, error) {
	type point struct {
		start  time.Time
		length time.Duration
		*asynq.AttemptStats
		sizes *asynq.QueueSizes
	}
	found, failed, err := readStats(c, func(ctx context.Context, queue string, from, to time.Time) ([]point, error) {
		var points []point
		if c.query.Has("type") {
			all, err := c.api.Inspector.TypeHistory(ctx, queue, c.query.Get("type"), from, to)
			for _, p := range all {
				points = append(points, point{p.Start, p.Length, &p.AttemptStats, nil})
			}
			return points, err
		}
		all, err := c.api.Inspector.QueueHistory(ctx, queue, from, to)
		for _, p := range all {
			points = append(points, point{p.Start, p.Length, &p.AttemptStats, p.Sizes})
		}
		return points, err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b point) int { return a.start.Compare(b.start) })
	out := StatsHistory{Items: []StatsPoint{}, Errors: failed}
	for len(found) > 0 { // the points of all queues at one time
		p := StatsPoint{Start: found[0].start, Length: int(found[0].length / time.Second)}
		var sum asynq.AttemptStats
		for len(found) > 0 && found[0].start.Equal(p.Start) {
			sum.Merge(found[0].AttemptStats)
			if found[0].sizes != nil {
				if p.Sizes == nil {
					p.Sizes = new(Sizes)
				}
				p.Sizes.add(found[0].sizes)
			}
			found = found[1:]
		}
		p.AttemptStats = newAttemptStats(&sum)
		out.Items = append(out.Items, p)
	}
	return out, nil
}

func (c *call) errorStats() (any, error) {
	found, failed, err := readStats(c, c.api.Inspector.ErrorStats)
	if err != nil {
		return nil, err
	}
	out := ErrorStatsList{Items: make([]ErrorStats, len(found)), Errors: failed}
	for n, s := range found {
		out.Items[n] = ErrorStats{s.Queue, s.Kind, s.Type, s.Count, s.First, s.Last}
	}
	slices.SortStableFunc(out.Items, func(a, b ErrorStats) int { return cmp.Compare(b.Count, a.Count) })
	return out, nil
}

// cmpSum compares the sums of durations.
func cmpSum(a, b *Durations) int {
	sum := func(d *Durations) float64 {
		if d == nil {
			return 0
		}
		return d.Sum
	}
	return cmp.Compare(sum(a), sum(b))
}
