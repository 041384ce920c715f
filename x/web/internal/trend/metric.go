package trend

import (
	"math"
	"slices"

	"github.com/asynq-go/asynq"
)

// Metric is a number over time.
type Metric int

// The metrics. Sizes and the latency are those of queues: task types have none.
const (
	Processed Metric = iota // attempts per second
	Failed                  // failed attempts per second
	Pending                 // tasks
	Active                  // tasks
	Retry                   // tasks
	Scheduled               // tasks
	Archived                // tasks
	Latency                 // age of the oldest pending task in seconds
	Duration50
	Duration95
	Duration99
	Wait50
	Wait95
	Wait99

	allMetrics = int(Wait99) + 1
)

var metricNames = [allMetrics]string{
	"processed", "failed", "pending", "active", "retry", "scheduled", "archived", "latency",
	"duration_p50", "duration_p95", "duration_p99", "wait_p50", "wait_p95", "wait_p99",
}

// ParseMetric returns the metric with a name.
func ParseMetric(name string) (Metric, bool) {
	n := slices.Index(metricNames[:], name)
	return Metric(n), n >= 0
}

// values are the metrics of a bucket; NaN if unknown.
type values [allMetrics]float64

func unknown() (v values) {
	for m := range v {
		v[m] = math.NaN()
	}
	return v
}

// sums are the attempts and sizes of a bucket.
type sums struct {
	processed, failed int64
	attempts          asynq.AttemptStats              // only the histograms, and only of one queue or type
	sizes             map[int64]*[Latency + 1]float64 // by the start of the minute or hour
}

func (s *sums) add(a *asynq.AttemptStats, histograms bool) {
	s.processed += a.Attempts()
	s.failed += a.Failed()
	if histograms {
		s.attempts.Duration.Merge(a.Duration)
		s.attempts.Wait.Merge(a.Wait)
	}
}

// addSizes adds the sizes of a queue in a minute or hour.
func (s *sums) addSizes(at int64, q *asynq.QueueSizes, late bool) {
	if q == nil {
		return
	}
	if s.sizes == nil {
		s.sizes = make(map[int64]*[Latency + 1]float64)
	}
	of := s.sizes[at]
	if of == nil {
		of = new([Latency + 1]float64)
		s.sizes[at] = of
	}
	for m, n := range map[Metric]int{Pending: q.Pending, Active: q.Active, Retry: q.Retry, Scheduled: q.Scheduled, Archived: q.Archived} {
		of[m] += float64(n)
	}
	if late {
		of[Latency] = max(of[Latency], q.Latency.Seconds())
	}
}

// values returns the metrics of a bucket that lasted for so many seconds.
func (s *sums) values(seconds float64) values {
	v := unknown()
	v[Processed], v[Failed] = float64(s.processed)/seconds, float64(s.failed)/seconds
	for _, sizes := range s.sizes {
		for m := Pending; m <= Latency; m++ {
			if !(v[m] > sizes[m]) { // NaN at first
				v[m] = sizes[m]
			}
		}
	}
	for first, h := range map[Metric]*asynq.Histogram{Duration50: &s.attempts.Duration, Wait50: &s.attempts.Wait} {
		if h.Count() > 0 {
			for n, q := range [...]float64{0.5, 0.95, 0.99} {
				v[int(first)+n] = h.Quantile(q).Seconds()
			}
		}
	}
	return v
}
