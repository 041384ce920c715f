package poll

import "math"

// level is one resolution of a series: a number of buckets of a length in seconds.
type level struct {
	step  int64 // a multiple of tick
	slots int64
}

// tick is the length of the smallest bucket in seconds. A sample counts once for each tick since
// the previous one, so that averages of longer buckets are averages over time, regardless of the
// polling interval.
const tick = 2

// levels are the resolutions: 2 s for 10 minutes, 30 s for 6 hours, 5 minutes for 3 days.
var levels = []level{{2, 300}, {30, 720}, {300, 864}}

// track records metrics of one queue in fixed memory: the slots of all levels (1,884) take 7.5 kB
// for the stamps, and 7.5 kB for each metric that was ever not 0. An idle queue takes 7.5 kB, and
// the maximum is 68 kB.
type track struct {
	rings []ring
	last  int64 // number of the last tick
	seen  int64 // time of the last sample in Unix seconds
}

// ring has the means of buckets. A slot is valid only if its stamp is the number of the requested
// bucket, so old slots need no clearing.
type ring struct {
	level
	stamps  []uint32
	values  [][]float32 // by metric; nil: always 0 so far; NaN: unknown
	current uint32      // the current bucket
	counts  []uint16    // samples in the current bucket, by metric
}

func newTrack(metrics int) *track {
	t := &track{rings: make([]ring, len(levels))}
	for i, l := range levels {
		t.rings[i] = ring{level: l, stamps: make([]uint32, l.slots), values: make([][]float32, metrics), counts: make([]uint16, metrics)}
	}
	return t
}

// add adds a sample at a time in Unix seconds. The sample covers the time since the previous one,
// unless that is longer ago than hold: then there is a gap. NaN is an unknown value.
func (t *track) add(at, hold int64, sample []float64) {
	now := at / tick
	from := now
	if now > t.last && (now-t.last)*tick <= hold {
		from = t.last + 1
	}
	for n := from; n <= now; n++ {
		for i := range t.rings {
			t.rings[i].add(uint32(n*tick/t.rings[i].step), sample)
		}
	}
	t.last = now
}

func (r *ring) add(bucket uint32, sample []float64) {
	slot := int64(bucket) % r.slots
	if r.current != bucket || r.stamps[slot] != bucket {
		r.current, r.stamps[slot] = bucket, bucket
		clear(r.counts)
		for _, values := range r.values {
			if values != nil {
				values[slot] = float32(math.NaN())
			}
		}
	}
	for m, v := range sample {
		if r.values[m] == nil {
			if v == 0 {
				r.counts[m]++
				continue
			}
			r.values[m] = make([]float32, r.slots) // 0 so far
			if r.counts[m] == 0 {
				r.values[m][slot] = float32(math.NaN())
			}
		}
		if math.IsNaN(v) {
			continue
		}
		if r.counts[m] < math.MaxUint16 {
			r.counts[m]++
		}
		mean := &r.values[m][slot]
		if r.counts[m] == 1 {
			*mean = float32(v)
		} else {
			*mean += (float32(v) - *mean) / float32(r.counts[m])
		}
	}
}

// at returns the mean of a metric in a bucket; NaN if unknown.
func (r *ring) at(metric int, bucket int64) float64 {
	slot := bucket % r.slots
	if bucket <= 0 || int64(r.stamps[slot]) != bucket {
		return math.NaN()
	}
	if r.values[metric] == nil {
		return 0
	}
	return float64(r.values[metric][slot])
}

// mean returns the mean of the known values of n buckets.
func (r *ring) mean(metric int, from, n int64) float64 {
	sum, known := 0.0, 0
	for b := from; b < from+n; b++ {
		if v := r.at(metric, b); !math.IsNaN(v) {
			sum += v
			known++
		}
	}
	if known == 0 {
		return math.NaN()
	}
	return sum / float64(known)
}
