package rate

import (
	"fmt"
	"time"
)

// Limit is how much may happen: Events in each length of time Per, and Burst at once.
type Limit struct {
	// Events in each Per. From 1 to 1,000,000,000.
	Events int

	// Per is a length of time in whole microseconds, up to 366 days.
	Per time.Duration

	// Burst is how many tokens a bucket holds: as many may be taken at once after a time of rest. In any length of time t, no more than
	// Burst + t·Events/Per are taken. Default: what comes in a second, at least 1. A limiter for tasks should have no less than
	// that, because tasks that are put off come back on whole seconds.
	Burst int
}

// PerSecond is n events in a second, with the default burst.
func PerSecond(n int) Limit { return Limit{Events: n, Per: time.Second} }

// PerMinute is n events in a minute.
func PerMinute(n int) Limit { return Limit{Events: n, Per: time.Minute} }

// PerHour is n events in an hour.
func PerHour(n int) Limit { return Limit{Events: n, Per: time.Hour} }

// String is the limit as text, such as "10 per 1s, burst 20".
func (l Limit) String() string {
	return fmt.Sprintf("%d per %v, burst %d", l.Events, l.Per, l.Burst)
}

// bucket is a limit in whole numbers: of units, of which refill come in a microsecond, and size make a token.
type bucket struct {
	refill, size, burst int64
}

const (
	maxEvents = 1_000_000_000
	maxPer    = 366 * 24 * time.Hour
	maxUnits  = 1 << 52 // that a number of Lua holds, with room for a sum
)

func (l Limit) bucket() (bucket, error) {
	switch {
	case l.Events < 1 || l.Events > maxEvents:
		return bucket{}, fmt.Errorf("rate: Limit.Events is %d: it must be from 1 to %d", l.Events, maxEvents)
	case l.Per < time.Microsecond || l.Per > maxPer || l.Per%time.Microsecond != 0:
		return bucket{}, fmt.Errorf("rate: Limit.Per is %v: it must be whole microseconds, up to %v", l.Per, maxPer)
	case l.Burst < 0:
		return bucket{}, fmt.Errorf("rate: Limit.Burst is %d: it must not be negative", l.Burst)
	}
	events, per := int64(l.Events), l.Per.Microseconds()
	common := gcd(events, per)
	b := bucket{refill: events / common, size: per / common, burst: int64(l.Burst)}
	if b.burst == 0 {
		b.burst = max(1, events*int64(time.Second/time.Microsecond)/per)
	}
	if b.burst > maxUnits/b.size {
		return bucket{}, fmt.Errorf("rate: the limit of %v cannot be counted exactly: choose a smaller Burst or a shorter Per", l)
	}
	return b, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
