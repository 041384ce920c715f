package runner

import (
	"math/rand/v2"
	"time"
)

// backoffJitter is the largest share taken off a back-off: enough to spread out the servers that lost the same Redis
// at the same moment, while a pause still never shrinks below half of its nominal length.
const backoffJitter = 0.5

// backoff yields the pauses between the failures of a row. It needs 0 < min <= max.
type backoff struct {
	min, max time.Duration
	nominal  time.Duration // of the last pause, before jitter; 0 at the start of a row
}

// next returns the next pause of the row: min at first, then doubling up to max, shortened at random by up to a half.
func (b *backoff) next() time.Duration {
	switch {
	case b.nominal == 0:
		b.nominal = b.min
	case b.nominal > b.max/2: // compared this way round, since doubling could overflow
		b.nominal = b.max
	default:
		b.nominal *= 2
	}
	return shorten(b.nominal, backoffJitter)
}

// reset ends the row: the next pause starts at min again.
func (b *backoff) reset() { b.nominal = 0 }

// shorten takes a random part, of up to the given share, off d.
func shorten(d time.Duration, share float64) time.Duration {
	return d - time.Duration(rand.Float64()*share*float64(d))
}
