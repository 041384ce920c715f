package ui

import (
	"context"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/trend"
)

// statsSpans are the time ranges of task types: servers record them by minute.
var statsSpans = []span{
	{"", "1 h", "Last hour", time.Hour},
	{"6h", "6 h", "Last 6 hours", 6 * time.Hour},
	{"48h", "48 h", "Last 48 hours", 48 * time.Hour},
	{"720h", "30 d", "Last 30 days", 30 * 24 * time.Hour},
}

var typeCharts = append([]chartSpec{{"throughput", "Attempts per second", "/s", "processed,failed", true}}, attemptCharts...)

// typeStats returns the attempts of all task types over a time range, whose note names an error.
func (u *UI) typeStats(ctx context.Context, span *spanChoice) map[string]*asynq.AttemptStats {
	found, err := u.trends.TypeStats(ctx, trend.RangeOf(span.Length), u.state())
	if err != nil {
		span.Note = "Some statistics are unavailable: " + sentence(show.RedisError(err))
	}
	all := make(map[string]*asynq.AttemptStats, len(found))
	for _, s := range found {
		if all[s.Type] == nil {
			all[s.Type] = new(asynq.AttemptStats)
		}
		all[s.Type].Merge(&s.AttemptStats)
	}
	return all
}

// Attempts returns the number of recorded attempts.
func (r typeRow) Attempts() int64 {
	if r.Stats == nil {
		return 0
	}
	return r.Stats.Attempts()
}

// FailedAttempts returns the number of recorded attempts that failed.
func (r typeRow) FailedAttempts() int64 {
	if r.Stats == nil {
		return 0
	}
	return r.Stats.Failed()
}

// P95 returns the duration that 95 % of the recorded attempts did not exceed.
func (r typeRow) P95() time.Duration {
	if r.Stats == nil {
		return 0
	}
	return r.Stats.Duration.Quantile(0.95)
}

// TotalDuration returns how long all recorded attempts took together.
func (r typeRow) TotalDuration() time.Duration {
	if r.Stats == nil {
		return 0
	}
	return r.Stats.Duration.Sum()
}
