package trends

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Types are ranked by attempts, then by their total duration. A type in two queues is one.
func TestTypes(t *testing.T) {
	t.Parallel()
	long := asynq.AttemptStats{Succeeded: 2}
	long.Duration.Observe(time.Hour)
	types := Types([]*asynq.TypeStats{
		{Queue: "b", Type: "two", AttemptStats: asynq.AttemptStats{Succeeded: 3, Crashed: 1}},
		{Queue: "a", Type: "one", AttemptStats: asynq.AttemptStats{Succeeded: 2}},
		{Queue: "a", Type: "long", AttemptStats: long},
		{Queue: "a", Type: "two", AttemptStats: asynq.AttemptStats{Retried: 5}},
	})
	var got []string
	for _, s := range types {
		got = append(got, fmt.Sprint(s.Name, s.Queues, s.Attempts(), s.Failed()))
	}
	if want := []string{"two[a b] 9 6", "long[a] 2 0", "one[a] 2 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		length, want time.Duration
		most         int
	}{
		{time.Minute, time.Minute, 60}, {time.Hour, time.Minute, 60}, {6 * time.Hour, 10 * time.Minute, 60}, {24 * time.Hour, 30 * time.Minute, 60},
		{Fine, time.Hour, 60}, {Fine + time.Minute, time.Hour, 5000}, {Kept, 12 * time.Hour, 60}, {Kept, 3 * 24 * time.Hour, 10}, {Kept, 30 * 24 * time.Hour, 0},
	} {
		if got := Step(c.length, c.most); got != c.want {
			t.Errorf("%v in %d periods: step %v, want %v", c.length, c.most, got, c.want)
		}
	}
}

// The first period is not before the range, so that minutes are read for 48 hours.
func TestStart(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 34, 56, 0, time.UTC)
	for _, step := range []time.Duration{time.Minute, 7 * time.Minute, time.Hour, 5 * time.Hour, 24 * time.Hour} {
		for _, length := range []time.Duration{step, 24 * time.Hour, Fine, Kept} {
			from := Start(now, length, step)
			if n := len(periods(from, now, step)); from.Before(now.Add(-length)) && length >= step || n != int(max(length/step, 1)) {
				t.Errorf("%v by %v: from %v, %d periods", length, step, from, n)
			}
		}
	}
}

// Sizes are summed up over queues in a minute, and the largest sum of a period counts.
func TestOfQueues(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 34, 56, 0, time.UTC)
	from := Start(now, 30*time.Minute, 10*time.Minute)
	point := func(queue string, minute, pending int, wait time.Duration) *asynq.QueuePoint {
		return &asynq.QueuePoint{
			Queue: queue, Start: time.Date(2026, 5, 4, 12, minute, 0, 0, time.UTC), AttemptStats: asynq.AttemptStats{Succeeded: 1},
			Sizes: &asynq.QueueSizes{Pending: pending, Latency: wait},
		}
	}
	all := OfQueues([]*asynq.QueuePoint{
		point("a", 9, 99, 0), point("a", 10, 5, time.Second), point("a", 19, 1, 0), point("b", 10, 1, time.Minute), point("b", 19, 6, 0), point("b", 34, 2, 0),
	}, from, now, 10*time.Minute)
	if len(all) != 3 || all[0].Sizes == nil || all[0].Sizes.Pending != 7 || all[0].Sizes.Latency != time.Minute || all[0].Attempts() != 4 {
		t.Fatalf("%+v", all)
	}
	if all[1].Known || all[1].Sizes != nil || !all[2].Known || all[2].Sizes.Pending != 2 || all[2].Attempts() != 1 {
		t.Errorf("%+v", all[1:])
	}
}

// A task type has no attempts in a period after its first one, and unknown ones before.
func TestOfType(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 34, 56, 0, time.UTC)
	from := Start(now, 4*time.Minute, time.Minute)
	all := OfType([]*asynq.TypePoint{{Start: now.Add(-2 * time.Minute).Truncate(time.Minute), AttemptStats: asynq.AttemptStats{Retried: 3}}}, from, now, time.Minute)
	values := Values(all, func(p *Point) (float64, bool) { return float64(p.Failed()), p.Known })
	if !math.IsNaN(values[0]) || !slices.Equal(values[1:], []float64{3, 0, 0}) {
		t.Errorf("%v", values)
	}
	if line := Spark(values, 5); line != "  █▁▁" {
		t.Errorf("%q", line)
	}
}

// Joined periods have the sum of the attempts and the largest sizes.
func TestFold(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 34, 56, 0, time.UTC)
	all := []Point{
		{Start: now}, {Start: now.Add(1)}, {Start: now.Add(2), Known: true, AttemptStats: asynq.AttemptStats{Retried: 3}, Sizes: &asynq.QueueSizes{Pending: 4, Active: 1}},
		{Start: now.Add(3), Known: true, AttemptStats: asynq.AttemptStats{Retried: 2}, Sizes: &asynq.QueueSizes{Pending: 2, Active: 7}}, {Start: now.Add(4)},
	}
	folded := Fold(all, 2)
	if len(folded) != 3 || folded[0].Known || folded[0].Sizes != nil || !folded[1].Known || folded[1].Failed() != 5 || *folded[1].Sizes != (asynq.QueueSizes{Pending: 4, Active: 7}) {
		t.Errorf("%+v", folded)
	}
	if !folded[1].Start.Equal(now.Add(2)) || len(Fold(all, 1)) != 5 || len(Fold(nil, 3)) != 0 {
		t.Errorf("%+v", folded)
	}
}
