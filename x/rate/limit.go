package rate

import (
	"fmt"
	"time"
)

// Limit is a rate: Events in each Per, with bursts of up to Burst.
type Limit struct {
	// Events is the number of events in each Per, from 1 to 1,000,000,000.
	Events int

	// Per is a period in whole microseconds, up to 366 days.
	Per time.Duration

	// Burst is the capacity of the bucket, which is the number of tokens available after an idle
	// period. In any period t, at most Burst + t·Events/Per tokens are taken. The default is the
	// number of events per second, at least 1. For tasks, do not use a smaller one: snoozed tasks
	// return at whole seconds.
	Burst int
}

// PerSecond returns a limit of n events per second, with the default burst.
func PerSecond(n int) Limit { return Limit{Events: n, Per: time.Second} }

// PerMinute returns a limit of n events per minute, with the default burst.
func PerMinute(n int) Limit { return Limit{Events: n, Per: time.Minute} }

// PerHour returns a limit of n events per hour, with the default burst.
func PerHour(n int) Limit { return Limit{Events: n, Per: time.Hour} }

// String returns the limit as text, such as "10 per 1s, burst 20".
func (l Limit) String() string {
	return fmt.Sprintf("%d per %v, burst %d", l.Events, l.Per, l.Burst)
}

// bucket is a limit in whole numbers of units: refill units per microsecond, size units per token.
type bucket struct {
	refill, size, burst int64
}

const (
	maxEvents = 1_000_000_000
	maxPer    = 366 * 24 * time.Hour
	maxUnits  = 1 << 52 // largest integer of Lua's numbers, with room for a sum
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
