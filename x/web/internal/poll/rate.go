package poll

import (
	"math"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	// smoothing is the time constant of rates: what is older than twice that counts for little.
	smoothing = 5 * time.Second

	// leastGap is the least time between two samples that a rate is made of. Looks that a user's change asks for may be closer.
	leastGap = 500 * time.Millisecond
)

// meter makes rates of a queue out of its counters. Times are Redis's, so that a look that was held up on its way counts right.
type meter struct {
	at                         time.Time
	processed, failed, pending int
	smooth                     Rate
	raw                        Rate // since the last sample, not smoothed: averages of it are exact
}

// note takes a sample, and returns the smoothed rate.
func (m *meter) note(info *asynq.QueueInfo) Rate {
	if m.at.IsZero() || info.ProcessedTotal < m.processed || info.FailedTotal < m.failed || info.Timestamp.Before(m.at) {
		// The first sample, or the queue was made anew, or Redis was restored: how much happened since is not known.
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

// blend moves old towards fresh. Where nothing happens any more, what is as good as none becomes none: an idle queue comes to rest at 0.
func blend(old, fresh, weight float64) float64 {
	v := old + (fresh-old)*weight
	if fresh == 0 && math.Abs(v) < 0.01 {
		return 0
	}
	return v
}

// plus adds rates of queues. Those that are not known are left out.
func (r Rate) plus(other Rate) Rate {
	if !other.Known {
		return r
	}
	return Rate{
		Known: true, Processed: r.Processed + other.Processed, Failed: r.Failed + other.Failed, Backlog: r.Backlog + other.Backlog,
	}
}
