package health

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	// recentStats is the time of which the attempts count as recent. It ends now.
	recentStats = 10 * time.Minute

	// earlierStats is the time before that, with which the durations of recent attempts are
	// compared.
	earlierStats = 2 * time.Hour

	// failingHistories is the number of failing types of which the start of the failures is read.
	failingHistories = 3
)

// Stats are the attempts of task types, as servers count them: see Inspector.TypeStats.
type Stats struct {
	Recent  []*asynq.TypeStats  // of the last 10 minutes
	Earlier []*asynq.TypeStats  // of the two hours before
	Errors  []*asynq.ErrorStats // of the last 10 minutes, most first

	// History has the minutes of up to three types that fail most, oldest first.
	History []*asynq.TypePoint
}

// ReadStats reads statistics of all queues, with three round trips and one for each failing type.
// It returns what it could read with an error.
func ReadStats(ctx context.Context, i *asynq.Inspector, s Settings, now time.Time) (*Stats, error) {
	s = s.withDefaults()
	from := now.Add(-recentStats)
	stats := new(Stats)
	var errs [3]error
	stats.Recent, errs[0] = i.TypeStats(ctx, "", from, now)
	if len(stats.Recent) == 0 {
		return stats, ignoreGone(errs[0]) // no server counts, or nothing runs
	}
	stats.Earlier, errs[1] = i.TypeStats(ctx, "", from.Add(-earlierStats), from)
	stats.Errors, errs[2] = i.ErrorStats(ctx, "", from, now)
	all := errs[:]
	for _, t := range failingTypes(stats.Recent, s) {
		if len(stats.History) > 0 && len(all) >= len(errs)+failingHistories {
			break
		}
		points, err := i.TypeHistory(ctx, t.Queue, t.Type, now.Add(-earlierStats), now)
		stats.History, all = append(stats.History, points...), append(all, err)
	}
	for n, err := range all {
		all[n] = ignoreGone(err)
	}
	return stats, errors.Join(all...)
}

// ignoreGone ignores that a queue was deleted meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return nil
	}
	return err
}

// failingTypes returns the types of which too many attempts failed, those with the most failures
// first.
func failingTypes(recent []*asynq.TypeStats, s Settings) []*asynq.TypeStats {
	var all []*asynq.TypeStats
	for _, t := range recent {
		if n := t.Attempts(); n >= int64(s.FailingAttempts) && float64(t.Failed()) > s.FailingWarning*float64(n) {
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b *asynq.TypeStats) int { return int(b.Failed() - a.Failed()) })
	return all
}
