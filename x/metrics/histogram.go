package metrics

import (
	"maps"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/asynq-go/asynq"
)

const (
	// histogramSchema is that of asynq.Histogram: each bound is 2^¼ times the one before.
	histogramSchema = 2
	perDoubling     = 4
	// zeroIndex is the bucket of all durations up to 2^-20 s.
	zeroIndex = -20 * perDoubling
	// lastIndex is the bucket of all durations beyond 2^21.5 s.
	lastIndex = 87
)

// classicBounds are among the bounds of asynq.Histogram, so that the classic buckets are exact:
// 2^-10 s (1 ms), 2^-8 s, …, 2^12 s (68 min).
var classicBounds = func() (indexes []int) {
	for exponent := -10; exponent <= 12; exponent += 2 {
		indexes = append(indexes, exponent*perDoubling)
	}
	return indexes
}()

// histogramSums are the durations of attempts, by index of a native histogram.
type histogramSums struct {
	buckets map[int]int64
	seconds float64
}

func newHistogramSums(h asynq.Histogram) histogramSums {
	s := histogramSums{buckets: make(map[int]int64), seconds: h.Sum().Seconds()}
	for bound, n := range h.Buckets() {
		index := int(math.Round(perDoubling * math.Log2(bound.Seconds())))
		s.buckets[min(index, lastIndex)] += n
	}
	return s
}

func (s *histogramSums) add(other *histogramSums, sign int64) {
	if s.buckets == nil {
		s.buckets = make(map[int]int64)
	}
	for index, n := range other.buckets {
		s.buckets[index] += sign * n
	}
	s.seconds += float64(sign) * other.seconds
}

// metric returns a copy as a native and a classic histogram.
func (s *histogramSums) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	return &histogramMetric{
		Metric: prometheus.MustNewConstMetric(desc, prometheus.UntypedValue, 0, labels...), // for its labels
		sums:   histogramSums{maps.Clone(s.buckets), s.seconds},
	}
}

// histogramMetric is both a native and a classic histogram.
type histogramMetric struct {
	prometheus.Metric
	sums histogramSums
}

// Write encodes the histogram.
func (m *histogramMetric) Write(out *dto.Metric) error {
	if err := m.Metric.Write(out); err != nil {
		return err
	}
	h := &dto.Histogram{
		SampleSum: &m.sums.seconds, Schema: new(int32(histogramSchema)), ZeroThreshold: new(math.Exp2(zeroIndex / perDoubling)),
		ZeroCount: new(uint64(0)),
	}
	var total, before int64
	previous, classic := math.MinInt, 0
	bucket := func(until int) { // adds the classic buckets before an index
		for ; classic < len(classicBounds) && classicBounds[classic] < until; classic++ {
			h.Bucket = append(h.Bucket, &dto.Bucket{
				UpperBound: new(math.Exp2(float64(classicBounds[classic]) / perDoubling)), CumulativeCount: new(uint64(total)),
			})
		}
	}
	for _, index := range slices.Sorted(maps.Keys(m.sums.buckets)) {
		n := m.sums.buckets[index]
		if n <= 0 {
			continue
		}
		bucket(index)
		total += n
		if index <= zeroIndex {
			*h.ZeroCount += uint64(n)
			continue
		}
		switch {
		case previous == math.MinInt:
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: new(int32(index)), Length: new(uint32(1))})
		case index == previous+1:
			*h.PositiveSpan[len(h.PositiveSpan)-1].Length++
		default:
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: new(int32(index - previous - 1)), Length: new(uint32(1))})
		}
		h.PositiveDelta = append(h.PositiveDelta, n-before)
		previous, before = index, n
	}
	bucket(math.MaxInt)
	if len(h.PositiveSpan) == 0 {
		h.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}} // else it is a classic histogram only
	}
	h.SampleCount = new(uint64(total))
	out.Untyped, out.Histogram = nil, h
	return nil
}
