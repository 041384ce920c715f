package script

import (
	"math"
	"strings"
	"time"
)

// Seconds rounds a duration up to whole seconds, the unit of the wire format, so that short
// durations do not become 0.
func Seconds(d time.Duration) int64 { return Ceil(d, time.Second) }

// Ceil returns a duration in units, rounded up.
func Ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// Milliseconds converts a number of milliseconds from a script. It clamps values that do not fit
// into a time.Duration; foreign processes may have written such times.
func Milliseconds(ms int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

// Flag returns 1 for true, 0 for false.
func Flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// EscapeGlob returns a pattern that matches only the text.
func EscapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
