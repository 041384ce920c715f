// Package timetable tells when periodic tasks are due. It reads cron specs and computes with their ticks; it knows no clock, no Redis
// and no tasks.
package timetable

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is a row of ticks, which are at least a millisecond apart.
type Schedule interface {
	// Next returns the first tick after t; the zero time if there is none, or, of a spec of five fields, none within five years.
	Next(t time.Time) time.Time
}

// Parse reads a cron spec: five fields, or a descriptor such as @daily or @every 90s, both with CRON_TZ=zone or TZ=zone before them
// if the zone is not loc.
//
// The ticks of @every are multiples of the delay since 1970 if aligned is set, so that all who read the spec agree on them;
// otherwise the first one is a delay after the time that Next is asked about. The delay is cut to whole seconds, at least one.
func Parse(spec string, loc *time.Location, aligned bool) (Schedule, error) {
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

// parse reads a spec without a zone. The parser panics at some specs that are none.
func parse(spec string) (s Schedule, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it cannot be read: %v", v)
		}
	}()
	if strings.Contains(spec, "TZ=") {
		return nil, errors.New("it names more than one time zone")
	}
	if every, ok := strings.CutPrefix(spec, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d <= 0 {
			return nil, fmt.Errorf("the interval %v must be positive", d) // the parser takes it for a second
		}
	}
	return cron.ParseStandard(spec)
}

// inZone is a schedule on the clocks of a time zone.
type inZone struct {
	Schedule
	loc *time.Location
}

func (z inZone) Next(t time.Time) time.Time { return z.Schedule.Next(t.In(z.loc)) }

// alignedEvery has a tick at each multiple of a delay since 1970.
type alignedEvery time.Duration

func (d alignedEvery) Next(t time.Time) time.Time {
	ns := t.UnixNano()
	if ns > math.MaxInt64-int64(d) || !time.Unix(0, ns).Equal(t) {
		return time.Time{} // beyond the year 2262, where nanoseconds end
	}
	into := ns % int64(d)
	if into < 0 {
		into += int64(d)
	}
	return time.Unix(0, ns-into+int64(d)).In(t.Location())
}

// Every returns a schedule with a tick at each multiple of d since 1970.
func Every(d time.Duration) Schedule { return alignedEvery(d) }

// Latest returns the last tick after one time and not after another; the zero time if there is none. It takes some dozen calls of Next,
// however many ticks there are.
func Latest(s Schedule, after, until time.Time) time.Time {
	due := func(t time.Time) bool {
		next := s.Next(t)
		return !next.IsZero() && !next.After(until)
	}
	if !after.Before(until) || !due(after) {
		return time.Time{}
	}
	// A tick follows low before until, and none follows high.
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

// Newest returns the last n ticks after one time and not after another, the oldest first.
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
