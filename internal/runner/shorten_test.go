package runner

import (
	"testing"
	"time"
)

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
		// In a thousand draws, less than a tenth of the range stays unused at either end.
		if margin := (d - shortest) / 10; least > shortest+margin || most < d-margin {
			t.Errorf("shorten(%v, %v) stayed between %v and %v, want all of [%v, %[1]v] in use", d, share, least, most, shortest)
		}
	}
}
