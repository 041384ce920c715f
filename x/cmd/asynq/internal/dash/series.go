package dash

import (
	"math"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/trends"
)

// maxSamples is the number of samples kept per queue, enough for the widest screen.
const maxSamples = 240

// series is a sequence of samples at regular intervals, newest last. NaN means a missing sample.
type series []float64

func (s *series) add(v float64) {
	*s = append(*s, v)
	if len(*s) > maxSamples {
		*s = append(series(nil), (*s)[len(*s)-maxSamples:]...)
	}
}

// last returns the newest sample, or 0 if it is missing.
func (s series) last() float64 {
	if len(s) == 0 || math.IsNaN(s[len(s)-1]) {
		return 0
	}
	return s[len(s)-1]
}

// top returns the maximum of the newest n samples.
func (s series) top(n int) float64 { return trends.Max(s.newest(n)) }

func (s series) newest(n int) series { return s[max(0, len(s)-max(0, n)):] }

// track is the recent history of a queue, or of all queues.
type track struct {
	// done and failed are attempts per second, wait is the age of the oldest pending task in
	// seconds.
	done, failed, wait series
	at                 time.Time
	doneTotal          int
	failedTotal        int
}

// history is the recent history of all queues.
type history struct {
	queues map[string]*track
	all    track
	at     time.Time
}

// add adds the samples of a poll. It skips polls that follow the previous one too closely for
// regular intervals, but always adds the second one, which yields the first rates.
func (h *history) add(b *base, every time.Duration) {
	if len(h.all.done) > 1 && b.at.Sub(h.at) < every*8/10 {
		return
	}
	h.at = b.at
	if h.queues == nil {
		h.queues = make(map[string]*track)
	}
	seen := make(map[string]bool, len(b.queues))
	sum, known, read := [3]float64{}, false, len(b.queues) == 0
	for _, q := range b.queues {
		seen[q.name] = true
		t := h.queues[q.name]
		if t == nil {
			t = new(track)
			h.queues[q.name] = t
		}
		if q.info == nil {
			t.gap()
			continue
		}
		if t.sample(q.info) {
			known = true
			sum[0] += t.done.last()
			sum[1] += t.failed.last()
		}
		sum[2], read = max(sum[2], t.wait.last()), true
	}
	for name := range h.queues {
		if !seen[name] {
			delete(h.queues, name)
		}
	}
	if !known {
		sum[0], sum[1] = math.NaN(), math.NaN()
	}
	if !read {
		sum[2] = math.NaN()
	}
	h.all.done.add(sum[0])
	h.all.failed.add(sum[1])
	h.all.wait.add(sum[2])
}

func (h *history) of(queue string) *track {
	if t := h.queues[queue]; t != nil {
		return t
	}
	return new(track)
}

// gap adds missing samples.
func (t *track) gap() {
	for _, s := range []*series{&t.done, &t.failed, &t.wait} {
		s.add(math.NaN())
	}
}

// sample adds the samples of a queue. It reports whether they include rates, which need two
// samples.
func (t *track) sample(q *asynq.QueueInfo) bool {
	first, seconds := t.at.IsZero(), q.Timestamp.Sub(t.at).Seconds()
	done, failed := q.ProcessedTotal-t.doneTotal, q.FailedTotal-t.failedTotal
	t.at, t.doneTotal, t.failedTotal = q.Timestamp, q.ProcessedTotal, q.FailedTotal
	t.wait.add(q.Latency.Seconds())
	// A total decreases if the queue is deleted and recreated, and a clock may be set back.
	if first || seconds <= 0 || done < 0 || failed < 0 {
		t.done.add(math.NaN())
		t.failed.add(math.NaN())
		return false
	}
	t.done.add(float64(done) / seconds)
	t.failed.add(float64(failed) / seconds)
	return true
}

// spark draws the newest samples in one line of w cells, the newest at the right. Missing samples
// are blank.
func spark(s series, w int) string { return trends.Spark(s, w) }

// graph draws the newest samples as bars from zero to their maximum, in h lines of w cells.
func graph(s series, w, h int) []string { return trends.Graph(s, w, h) }
