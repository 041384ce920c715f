package poll

import "math"

// level is one resolution of a series: so many buckets of so many seconds.
type level struct {
	step  int64 // a multiple of tick
	slots int64
}

// tick is the length of the smallest bucket in seconds. A sample counts once for each tick since the one before, so that averages
// of longer buckets are averages over time, however often it was looked.
const tick = 2

// levels are the resolutions: 2 s for 10 minutes, 30 s for 6 hours, 5 minutes for 3 days.
var levels = []level{{2, 300}, {30, 720}, {300, 864}}

// track keeps some metrics of one thing over time in fixed memory: all slots of all levels (1,884) are 7.5 kB, once for the stamps, and
// once for each metric that was ever anything but 0. So an idle queue takes 7.5 kB, and none more than 68 kB.
type track struct {
	rings []ring
	last  int64 // number of the tick that was filled last
	seen  int64 // when it was last there, in unix seconds
}

// ring holds the means of buckets. A slot is only valid if its stamp is the number of the bucket that is asked for, so nothing has to
// be cleared as time goes on.
type ring struct {
	level
	stamps  []uint32
	values  [][]float32 // by metric; nil: always 0 so far; NaN: not known
	current uint32      // the bucket that is being filled
	counts  []uint16    // of samples in it, by metric
}

func newTrack(metrics int) *track {
	t := &track{rings: make([]ring, len(levels))}
	for i, l := range levels {
		t.rings[i] = ring{level: l, stamps: make([]uint32, l.slots), values: make([][]float32, metrics), counts: make([]uint16, metrics)}
	}
	return t
}

// add takes a sample at a time in unix seconds. It stands for the time since the one before, if that is no longer ago than hold: what is
// longer is a gap. NaN is a value that is not known.
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
			r.values[m] = make([]float32, r.slots) // 0 until now
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

// at is the mean of a metric in a bucket; NaN if it is not known.
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

// mean is that of the buckets from one on that are known, n of them.
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
