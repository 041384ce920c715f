package poll

import (
	"math"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	// smoothing is the time constant of rates: samples older than twice that have little weight.
	smoothing = 5 * time.Second

	// leastGap is the minimum time between two samples of a rate. Polls after a user's change may
	// be closer.
	leastGap = 500 * time.Millisecond
)

// meter computes the rates of a queue from its counters. It uses Redis's time, so that delayed
// responses do not distort rates.
type meter struct {
	at                         time.Time
	processed, failed, pending int
	smooth                     Rate
	raw                        Rate // since the last sample, not smoothed, so that its averages are exact
}

// note adds a sample and returns the smoothed rate.
func (m *meter) note(info *asynq.QueueInfo) Rate {
	if m.at.IsZero() || info.ProcessedTotal < m.processed || info.FailedTotal < m.failed || info.Timestamp.Before(m.at) {
		// The first sample, or the queue was recreated, or Redis was restored: the counters since
		// the last sample are unknown.
		m.restart(info)
		return Rate{}
	}
	gap := info.Timestamp.Sub(m.at)
	if gap < leastGap {
		return m.smooth
	}
	seconds := gap.Seconds()
	m.raw = Rate{
		Known:     true,
		Processed: float64(info.ProcessedTotal-m.processed) / seconds,
		Failed:    float64(info.FailedTotal-m.failed) / seconds,
		Backlog:   float64(info.Pending-m.pending) / seconds,
	}
	weight := 1.0
	if m.smooth.Known {
		weight = 1 - math.Exp(-seconds/smoothing.Seconds())
	}
	m.smooth = Rate{
		Known:     true,
		Processed: blend(m.smooth.Processed, m.raw.Processed, weight),
		Failed:    blend(m.smooth.Failed, m.raw.Failed, weight),
		Backlog:   blend(m.smooth.Backlog, m.raw.Backlog, weight),
	}
	m.keep(info)
	return m.smooth
}

func (m *meter) restart(info *asynq.QueueInfo) {
	m.raw, m.smooth = Rate{}, Rate{}
	m.keep(info)
}

func (m *meter) keep(info *asynq.QueueInfo) {
	m.at, m.processed, m.failed, m.pending = info.Timestamp, info.ProcessedTotal, info.FailedTotal, info.Pending
}

// blend moves old towards fresh. Negligible rates become 0, so that the rates of an idle queue
// reach 0.
func blend(old, fresh, weight float64) float64 {
	v := old + (fresh-old)*weight
	if fresh == 0 && math.Abs(v) < 0.01 {
		return 0
	}
	return v
}

// plus adds rates. Unknown rates are ignored.
func (r Rate) plus(other Rate) Rate {
	if !other.Known {
		return r
	}
	return Rate{
		Known: true, Processed: r.Processed + other.Processed, Failed: r.Failed + other.Failed, Backlog: r.Backlog + other.Backlog,
	}
}
