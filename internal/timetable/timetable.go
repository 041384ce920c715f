// Package timetable computes when periodic tasks are due: it parses cron specs and finds their
// ticks. It uses neither the clock nor Redis.
package timetable

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/robfig/cron/v3"
)

// Schedule is a sequence of ticks that are at least a millisecond apart.
type Schedule interface {
	// Next returns the first tick after t. It returns the zero time if there is none; for a spec
	// with five fields, if there is none within five years.
	Next(t time.Time) time.Time
}

// Parse parses a cron spec: five fields, or a descriptor such as @daily or @every 90s. Either may
// begin with CRON_TZ=zone or TZ=zone, which replaces loc.
//
// If aligned is set, the ticks of @every are the multiples of the interval since 1970, so that all
// processes agree on them. Otherwise the next tick is one interval after the argument of Next. The
// interval is truncated to whole seconds; the minimum is one second.
func Parse(spec string, loc *time.Location, aligned bool) (Schedule, error) {
	if !utf8.ValidString(spec) { // the parser ignores what follows "*-" and "?-"
		return nil, fmt.Errorf("cron spec %q: invalid UTF-8", spec)
	}
	rest := strings.TrimSpace(spec)
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		zone, ok := strings.CutPrefix(rest, prefix)
		if !ok {
			continue
		}
		zone, rest, _ = strings.Cut(zone, " ")
		var err error
		if loc, err = time.LoadLocation(zone); err != nil {
			return nil, fmt.Errorf("cron spec %q: %w", spec, err)
		}
		break
	}
	parsed, err := parse(strings.TrimSpace(rest))
	if err != nil {
		return nil, fmt.Errorf("cron spec %q: %w", spec, err)
	}
	if every, ok := parsed.(cron.ConstantDelaySchedule); ok {
		if aligned {
			return alignedEvery(every.Delay), nil
		}
		return parsed, nil
	}
	return inZone{parsed, loc}, nil
}

// parse parses a spec without a zone. The cron parser panics at some invalid specs.
func parse(spec string) (s Schedule, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("invalid spec: %v", v)
		}
	}()
	if strings.Contains(spec, "TZ=") {
		return nil, errors.New("more than one time zone")
	}
	if every, ok := strings.CutPrefix(spec, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d <= 0 {
			return nil, fmt.Errorf("the interval %v must be positive", d) // the parser would use a second
		}
	}
	return cron.ParseStandard(spec)
}

// inZone is a schedule in a time zone.
type inZone struct {
	Schedule
	loc *time.Location
}

func (z inZone) Next(t time.Time) time.Time { return z.Schedule.Next(t.In(z.loc)) }

// alignedEvery ticks at each multiple of an interval since 1970.
type alignedEvery time.Duration

func (d alignedEvery) Next(t time.Time) time.Time {
	ns := t.UnixNano()
	if ns > math.MaxInt64-int64(d) || !time.Unix(0, ns).Equal(t) {
		return time.Time{} // after the year 2262, the limit of nanoseconds
	}
	into := ns % int64(d)
	if into < 0 {
		into += int64(d)
	}
	return time.Unix(0, ns-into+int64(d)).In(t.Location())
}

// Every returns a schedule that ticks at each multiple of d since 1970.
func Every(d time.Duration) Schedule { return alignedEvery(d) }

// Latest returns the last tick that is after one time and not after until. It returns the zero time
// if there is none. It takes a few dozen calls of Next, independent of the number of ticks.
func Latest(s Schedule, after, until time.Time) time.Time {
	due := func(t time.Time) bool {
		next := s.Next(t)
		return !next.IsZero() && !next.After(until)
	}
	if !after.Before(until) || !due(after) {
		return time.Time{}
	}
	// Invariant: a tick after low and not after until exists; none after high does.
	low, high := after, until
	for d := time.Second; ; d *= 2 {
		t := until.Add(-d)
		if !t.After(after) {
			break
		}
		if due(t) {
			low = t
			break
		}
		high = t
	}
	for high.Sub(low) > time.Millisecond/2 {
		mid := low.Add(high.Sub(low) / 2)
		if due(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return s.Next(low)
}

// Newest returns the last n ticks that are after one time and not after until, oldest first.
func Newest(s Schedule, after, until time.Time, n int) []time.Time {
	ticks := make([]time.Time, 0, min(n, 16))
	for len(ticks) < n {
		t := Latest(s, after, until)
		if t.IsZero() {
			break
		}
		ticks = append(ticks, t)
		until = t.Add(-time.Nanosecond)
	}
	slices.Reverse(ticks)
	return ticks
}
