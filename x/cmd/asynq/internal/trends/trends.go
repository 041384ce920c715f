// Package trends sums up the statistics over time that servers record, for tables and charts.
package trends

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// Kept is how long statistics are kept, and Fine how long by the minute.
const (
	Kept = 30 * 24 * time.Hour
	Fine = 48 * time.Hour
)

// Other names task types that are not counted by themselves.
const Other = "(other)"

// Type are the attempts of a task type in all its queues.
type Type struct {
	Name   string // empty for types that are not counted by themselves
	Queues []string
	asynq.AttemptStats
}

// Types sums up attempts by type, types with the most attempts first, and among equals those with
// the longest total duration.
func Types(all []*asynq.TypeStats) []*Type {
	known := make(map[string]*Type)
	var types []*Type
	for _, s := range all {
		t := known[s.Type]
		if t == nil {
			t = &Type{Name: s.Type}
			known[s.Type] = t
			types = append(types, t)
		}
		t.Queues = append(t.Queues, s.Queue)
		t.Merge(&s.AttemptStats)
	}
	slices.SortFunc(types, func(a, b *Type) int {
		return cmp.Or(cmp.Compare(b.Attempts(), a.Attempts()), cmp.Compare(b.Duration.Sum(), a.Duration.Sum()), strings.Compare(a.Name, b.Name))
	})
	for _, t := range types {
		slices.Sort(t.Queues)
	}
	return types
}

// Point are the attempts in a period, and the sizes of queues.
type Point struct {
	Start time.Time // in UTC
	asynq.AttemptStats

	// Sizes are the largest ones in the period, each the sum over all queues; nil if no server was
	// running, and for task types. Latency is that of the queue with the oldest task.
	Sizes *asynq.QueueSizes

	Known bool // the attempts are known
}

// steps are the lengths of periods. Longer ones are multiples of the last.
var steps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
	6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// Step returns the shortest length of periods such that at most so many cover a length of time.
func Step(length time.Duration, most int) time.Duration {
	for _, step := range steps {
		if length <= step*time.Duration(most) && step >= Finest(length) {
			return step
		}
	}
	day := steps[len(steps)-1]
	return (length/time.Duration(max(most, 1)) + day - 1).Truncate(day)
}

// Finest returns the shortest possible length of periods for a length of time before now.
func Finest(length time.Duration) time.Duration {
	if length > Fine {
		return time.Hour
	}
	return time.Minute
}

// Start returns the start of the first period of a length of time before now, which it does not
// exceed: beyond Fine, statistics are by the hour.
func Start(now time.Time, length, step time.Duration) time.Time {
	n := max(length/step, 1)
	return now.UTC().Truncate(step).Add(-step * (n - 1))
}

// periods returns the periods from a time on.
func periods(from, now time.Time, step time.Duration) []Point {
	var all []Point
	for at := from; !at.After(now); at = at.Add(step) {
		all = append(all, Point{Start: at})
	}
	return all
}

// of returns the period that contains a time, or nil.
func of(all []Point, at time.Time, step time.Duration) *Point {
	if len(all) == 0 || at.Before(all[0].Start) {
		return nil
	}
	if n := int(at.Sub(all[0].Start) / step); n < len(all) {
		return &all[n]
	}
	return nil
}

// OfQueues sums up the history of queues by periods, from the one that starts at from until now.
// Periods without a running server are not known.
func OfQueues(found []*asynq.QueuePoint, from, now time.Time, step time.Duration) []Point {
	all := periods(from, now, step)
	sums := make(map[time.Time]*asynq.QueueSizes) // by minute or hour
	for _, q := range found {
		p := of(all, q.Start, step)
		if p == nil {
			continue
		}
		p.Known = true
		p.Merge(&q.AttemptStats)
		if q.Sizes == nil {
			continue
		}
		if sums[q.Start] == nil {
			sums[q.Start] = new(asynq.QueueSizes)
		}
		merge(sums[q.Start], q.Sizes, func(a, b int) int { return a + b })
	}
	for at, sum := range sums {
		p := of(all, at, step)
		if p.Sizes == nil {
			p.Sizes = new(asynq.QueueSizes)
		}
		merge(p.Sizes, sum, func(a, b int) int { return max(a, b) })
	}
	return all
}

func merge(into, from *asynq.QueueSizes, join func(a, b int) int) {
	into.Pending = join(into.Pending, from.Pending)
	into.Active = join(into.Active, from.Active)
	into.Scheduled = join(into.Scheduled, from.Scheduled)
	into.Retry = join(into.Retry, from.Retry)
	into.Archived = join(into.Archived, from.Archived)
	into.Completed = join(into.Completed, from.Completed)
	into.Aggregating = join(into.Aggregating, from.Aggregating)
	into.Latency = max(into.Latency, from.Latency)
}

// OfType sums up the history of a task type by periods, like OfQueues. A period without attempts is
// known after the first one.
func OfType(found []*asynq.TypePoint, from, now time.Time, step time.Duration) []Point {
	all := periods(from, now, step)
	first := len(all)
	for _, t := range found {
		p := of(all, t.Start, step)
		if p == nil {
			continue
		}
		p.Merge(&t.AttemptStats)
		first = min(first, int(p.Start.Sub(from)/step))
	}
	for n := first; n < len(all); n++ {
		all[n].Known = true
	}
	return all
}

// Fold joins each n periods to one; the last one may have fewer.
func Fold(all []Point, n int) []Point {
	if n <= 1 {
		return all
	}
	var folded []Point
	for some := range slices.Chunk(all, n) {
		p := Point{Start: some[0].Start}
		for _, s := range some {
			p.Known = p.Known || s.Known
			p.Merge(&s.AttemptStats)
			if s.Sizes != nil {
				if p.Sizes == nil {
					p.Sizes = new(asynq.QueueSizes)
				}
				merge(p.Sizes, s.Sizes, func(a, b int) int { return max(a, b) })
			}
		}
		folded = append(folded, p)
	}
	return folded
}

// Values returns a value of each period; NaN if get reports that it is unknown.
func Values(all []Point, get func(*Point) (float64, bool)) []float64 {
	values := make([]float64, len(all))
	for n := range all {
		v, ok := get(&all[n])
		if !ok {
			v = math.NaN()
		}
		values[n] = v
	}
	return values
}
