package runner

import (
	"math"
	"testing"
	"time"
)

func TestBackoffDoublesUpToMax(t *testing.T) {
	b := backoff{min: 100 * time.Millisecond, max: time.Second}
	for row := range 50 { // many rows, as the jitter is random
		for i, ms := range []int{100, 200, 400, 800, 1000, 1000, 1000} {
			whole := time.Duration(ms) * time.Millisecond
			if got := b.next(); got <= whole/2 || got > whole {
				t.Fatalf("row %d, failure %d: pause %v, want more than %v and at most %v", row, i+1, got, whole/2, whole)
			}
		}
		b.reset()
	}
}

func TestBackoffDoesNotOverflow(t *testing.T) {
	b := backoff{min: math.MaxInt64/2 + 1, max: math.MaxInt64}
	for range 4 {
		if got := b.next(); got <= 0 {
			t.Fatalf("pause %v, want more than 0", got)
		}
	}
}

func TestShorten(t *testing.T) {
	const d = time.Hour
	for _, share := range []float64{0, 0.1, 0.5, 1} {
		shortest := d - time.Duration(share*float64(d))
		least, most := d, time.Duration(0)
		for range 1000 {
			got := shorten(d, share)
			if got < shortest || got > d {
				t.Fatalf("shorten(%v, %v) = %v, want at least %v and at most %[1]v", d, share, got, shortest)
			}
			least, most = min(least, got), max(most, got)
		}
		// A thousand draws leave less than a tenth of the range unused at either end.
		if margin := (d - shortest) / 10; least > shortest+margin || most < d-margin {
			t.Errorf("shorten(%v, %v) stayed between %v and %v, want all of [%v, %[1]v] in use", d, share, least, most, shortest)
		}
	}
}
