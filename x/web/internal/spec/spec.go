// Package spec reads cron specs as the pages need them: in words, and as times.
package spec

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is a spec whose ticks can be told.
type Schedule struct {
	next  func(time.Time) time.Time
	Every time.Duration // of @every: from tick to tick; else zero
	Zone  string        // the time zone that the spec names; empty: that of the scheduler
}

// Next is the first tick after t; the zero time if there is none.
func (s *Schedule) Next(t time.Time) time.Time { return s.next(t) }

// Parse reads a spec, whose times are those of a clock in loc unless it names a zone itself.
func Parse(text string, loc *time.Location) (*Schedule, error) {
	zone, rest := cutZone(text)
	if zone != "" {
		var err error
		if loc, err = time.LoadLocation(zone); err != nil {
			return nil, err
		}
	}
	parsed, err := parse(rest)
	if err != nil {
		return nil, err
	}
	s := &Schedule{Zone: zone, next: func(t time.Time) time.Time { return parsed.Next(t.In(loc)) }}
	if every, ok := parsed.(cron.ConstantDelaySchedule); ok {
		s.Every = every.Delay
		s.next = func(t time.Time) time.Time { return t.Add(every.Delay) } // the parser's cuts t to seconds
	}
	return s, nil
}

// parse reads a spec without a zone. The parser panics at some that are none, and takes an interval of no time for a second.
func parse(text string) (s cron.Schedule, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the spec cannot be read: %v", v)
		}
	}()
	if strings.Contains(text, "TZ=") {
		return nil, errors.New("the spec names more than one time zone")
	}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d <= 0 {
			return nil, errors.New("the interval is not positive")
		}
	}
	return cron.ParseStandard(text)
}

// cutZone takes the time zone off a spec that begins with one.
func cutZone(text string) (zone, rest string) {
	text = strings.TrimSpace(text)
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if named, ok := strings.CutPrefix(text, prefix); ok {
			zone, rest, _ = strings.Cut(named, " ")
			return zone, strings.TrimSpace(rest)
		}
	}
	return "", text
}

// Located reads a spec of which is known when a tick was last and is next, but not in which time zone: schedulers do not tell theirs. That
// of UTC is tried first, and then all others by their distance from it. The schedule is nil if none fits, or it is not clear which. A
// distance may change with the season.
func Located(text string, prev, next time.Time) (*Schedule, *time.Location) {
	s, err := Parse(text, time.UTC)
	if err != nil || s.Zone != "" || s.Every > 0 || next.IsZero() {
		return s, nil
	}
	if fits(s, prev, next) {
		return s, time.UTC
	}
	var found *Schedule
	var loc *time.Location
	for offset := -11 * time.Hour; offset <= 13*time.Hour-15*time.Minute; offset += 15 * time.Minute {
		at := time.FixedZone(offsetName(offset), int(offset/time.Second))
		s, err := Parse(text, at)
		if err != nil || !fits(s, prev, next) {
			continue
		}
		if found != nil {
			return nil, nil
		}
		found, loc = s, at
	}
	return found, loc
}

// fits says that the times are ticks, with none between them.
func fits(s *Schedule, prev, next time.Time) bool {
	if !s.Next(next.Add(-time.Second)).Equal(next) {
		return false
	}
	return prev.IsZero() || s.Next(prev.Add(-time.Second)).Equal(prev)
}

func offsetName(d time.Duration) string {
	sign := "+"
	if d < 0 {
		sign, d = "−", -d
	}
	return fmt.Sprintf("UTC%s%02d:%02d", sign, d/time.Hour, d%time.Hour/time.Minute)
}

// After lists the first n ticks after t.
func (s *Schedule) After(t time.Time, n int) []time.Time {
	var ticks []time.Time
	for len(ticks) < n {
		if t = s.Next(t); t.IsZero() {
			break
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// Between counts the ticks after one time and before another, up to most of them.
func (s *Schedule) Between(after, before time.Time, most int) int {
	n := 0
	for t := s.Next(after); n < most && !t.IsZero() && t.Before(before); t = s.Next(t) {
		n++
	}
	return n
}
