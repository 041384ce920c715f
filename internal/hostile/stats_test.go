package hostile_test

import (
	"context"
	"math"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// hostileRanges calls a method that reads statistics of a time.
func hostileRanges(h *hostile, call func(ctx context.Context, queue string, from, to time.Time) error) {
	ctx, now := context.Background(), time.Now()
	h.wantErr(call(noContext, "default", now.Add(-time.Hour), now), nil, "ctx must not be nil")
	for _, queue := range missingNames() {
		if queue != "" {
			h.wantErr(call(ctx, queue, now.Add(-time.Hour), now), nil, "queue")
		}
	}
	h.wantErr(call(ctx, "missing queue", now.Add(-time.Hour), now), asynq.ErrQueueNotFound)
	for _, from := range []time.Time{now, endOfTime, now.Add(time.Hour)} {
		h.wantErr(call(ctx, "default", from, now), nil, "must be before")
	}
	for _, from := range []time.Time{{}, yearZero, time.Unix(math.MinInt32, 0)} {
		for _, to := range []time.Time{{}, now, endOfTime, time.Unix(0, 0)} {
			if from.Before(to) || to.IsZero() {
				h.noErr(call(ctx, "", from, to))
				h.noErr(call(ctx, "default", from, to))
			}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	h.wantErr(call(ctx, "default", now.Add(-time.Hour), now), context.Canceled)
}

var hostileStats = map[string]func(h *hostile){
	"Inspector.TypeStats": func(h *hostile) {
		hostileRanges(h, func(ctx context.Context, queue string, from, to time.Time) error {
			return testenv.ErrorOf(h.inspect.TypeStats(ctx, queue, from, to))
		})
	},
	"Inspector.QueueHistory": func(h *hostile) {
		hostileRanges(h, func(ctx context.Context, queue string, from, to time.Time) error {
			return testenv.ErrorOf(h.inspect.QueueHistory(ctx, queue, from, to))
		})
	},
	"Inspector.TypeHistory": func(h *hostile) {
		for _, typename := range append(append([]string{"", notUTF8, longName}, blankNames...), unusualNames...) {
			h.noErr(testenv.ErrorOf(h.inspect.TypeHistory(context.Background(), "default", typename, time.Now().Add(-time.Hour), time.Time{})))
		}
		hostileRanges(h, func(ctx context.Context, queue string, from, to time.Time) error {
			return testenv.ErrorOf(h.inspect.TypeHistory(ctx, queue, "type", from, to))
		})
	},
	"Inspector.ErrorStats": func(h *hostile) {
		hostileRanges(h, func(ctx context.Context, queue string, from, to time.Time) error {
			return testenv.ErrorOf(h.inspect.ErrorStats(ctx, queue, from, to))
		})
	},
	"AttemptStats.Attempts": func(h *hostile) {
		h.check((&asynq.AttemptStats{}).Attempts() == 0, "empty statistics have attempts")
	},
	"AttemptStats.Failed": func(h *hostile) {
		h.check((&asynq.AttemptStats{}).Failed() == 0, "empty statistics have failures")
	},
	"AttemptStats.Merge": func(h *hostile) {
		s := asynq.AttemptStats{Succeeded: 1, Crashed: 2}
		s.Duration.Observe(time.Second)
		s.Merge(nil)
		s.Merge(&s)
		h.check(s.Attempts() == 6 && s.Duration.Count() == 2, "merged with itself: %+v", s)
	},
	"Histogram.Observe": func(h *hostile) {
		var all asynq.Histogram
		for _, d := range []time.Duration{mostNegative, -1, 0, 1, longest} {
			all.Observe(d)
		}
		first := all
		first.Observe(time.Second)
		h.check(all.Count() == 5, "a change of a copy changes the histogram: %d durations", all.Count())
	},
	"Histogram.Merge": func(h *hostile) {
		var all asynq.Histogram
		all.Merge(asynq.Histogram{})
		all.Observe(longest)
		all.Merge(all)
		h.check(all.Count() == 2 && all.Sum() > longest-time.Millisecond, "merged with itself: %d, %v", all.Count(), all.Sum())
	},
	"Histogram.Count": func(h *hostile) { h.check(asynq.Histogram{}.Count() == 0, "an empty histogram has durations") },
	"Histogram.Sum":   func(h *hostile) { h.check(asynq.Histogram{}.Sum() == 0, "an empty histogram has a sum") },
	"Histogram.Mean":  func(h *hostile) { h.check(asynq.Histogram{}.Mean() == 0, "an empty histogram has a mean") },
	"Histogram.Quantile": func(h *hostile) {
		var one asynq.Histogram
		h.check(one.Quantile(0.5) == 0, "an empty histogram has a median")
		one.Observe(time.Second)
		for _, q := range []float64{math.Inf(-1), -1, 0, 1, 2, math.Inf(1)} {
			d := one.Quantile(q)
			h.check(d > 900*time.Millisecond && d < 1100*time.Millisecond, "quantile %v of a second: %v", q, d)
		}
		h.check(one.Quantile(math.NaN()) == 0, "quantile NaN: %v", one.Quantile(math.NaN()))
	},
	"Histogram.Buckets": func(h *hostile) {
		for range (asynq.Histogram{}).Buckets() {
			h.check(false, "an empty histogram has buckets")
		}
		var two asynq.Histogram
		two.Observe(0)
		two.Observe(longest)
		for bound := range two.Buckets() {
			h.check(bound > 0 && bound < time.Microsecond, "first bound %v", bound)
			break
		}
	},
}
