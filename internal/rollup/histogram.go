package rollup

import (
	"iter"
	"math"
	"slices"
	"time"
)

// A histogram has the buckets of a Prometheus native histogram of schema 2: each bound is 2^¼ times
// the one before, and among them are all powers of two in seconds. Bucket i holds durations up to
// bounds[i]: the first up to 2^-20 s (954 ns), the last with a bound up to 2^21.5 s (34 days). One
// more holds all longer durations.
const (
	perDoubling = 4
	firstBound  = -20 * perDoubling // the exponent of the first bound, in quarters
	numBounds   = 167
	numBuckets  = numBounds + 1
)

var bounds = func() (b [numBounds]int64) {
	for i := range b {
		b[i] = int64(math.Exp2(float64(firstBound+i)/perDoubling) * float64(time.Second))
	}
	return b
}()

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	i, _ := slices.BinarySearch(bounds[:], int64(d))
	return i
}

// SchemaIndex returns the index of a bucket in a Prometheus native histogram of schema 2. ok is
// false for the bucket of durations beyond the last bound.
func SchemaIndex(bucket int) (index int, ok bool) { return bucket + firstBound, bucket < numBounds }

// Histogram counts durations. The zero value is an empty histogram. Copies share their counts.
type Histogram struct {
	first  int     // the bucket of counts[0]
	counts []int64 // of consecutive buckets
	sum    int64   // microseconds
}

// Observe adds a duration. A negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	h.add(bucketOf(d), 1)
	h.sum += int64(d / time.Microsecond)
}

// add adds n durations to a bucket. The sum remains the caller's.
func (h *Histogram) add(bucket int, n int64) {
	switch {
	case len(h.counts) == 0:
		h.first, h.counts = bucket, []int64{n}
		return
	case bucket < h.first:
		h.counts = append(make([]int64, h.first-bucket, h.first-bucket+len(h.counts)), h.counts...)
		h.first = bucket
	case bucket >= h.first+len(h.counts):
		h.counts = append(h.counts, make([]int64, bucket-h.first-len(h.counts)+1)...)
	}
	h.counts[bucket-h.first] += n
}

// Merge adds the durations of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		if n != 0 {
			h.add(other.first+i, n)
		}
	}
	h.sum += other.sum
}

// Clone returns a copy that shares nothing.
func (h *Histogram) Clone() Histogram {
	return Histogram{first: h.first, counts: slices.Clone(h.counts), sum: h.sum}
}

// Count returns the number of durations.
func (h *Histogram) Count() (n int64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Micros returns the sum of the durations in microseconds.
func (h *Histogram) Micros() int64 { return h.sum }

// Quantile returns the middle of the bucket that holds the quantile q, from 0 to 1: as a ratio, it
// is as far from both bounds.
func (h *Histogram) Quantile(q float64) time.Duration {
	n := h.Count()
	if n == 0 || math.IsNaN(q) {
		return 0
	}
	rank := int64(math.Ceil(min(max(q, 0), 1) * float64(n)))
	rank = min(max(rank, 1), n)
	for i, c := range h.counts {
		if rank -= c; rank <= 0 {
			return middle(h.first + i)
		}
	}
	return middle(h.first + len(h.counts) - 1)
}

// middle returns the duration that stands for a bucket.
func middle(bucket int) time.Duration {
	switch {
	case bucket <= 0:
		return time.Duration(bounds[0])
	case bucket >= numBounds:
		return time.Duration(bounds[numBounds-1])
	default:
		return time.Duration(math.Round(math.Sqrt(float64(bounds[bucket-1]) * float64(bounds[bucket]))))
	}
}

// Buckets yields the buckets that hold durations, with their index, lowest first.
func (h *Histogram) Buckets() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for i, n := range h.counts {
			if n != 0 && !yield(h.first+i, n) {
				return
			}
		}
	}
}

// Bound returns the upper bound of a bucket; the longest time.Duration for the last one.
func Bound(bucket int) time.Duration {
	if bucket >= numBounds {
		return math.MaxInt64
	}
	return time.Duration(bounds[max(bucket, 0)])
}
