// Package spec parses cron specs for the pages: as words and as times.
package spec

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is a parsed spec.
type Schedule struct {
	next  func(time.Time) time.Time
	Every time.Duration // the interval of @every; otherwise zero
	Zone  string        // the time zone in the spec; empty: that of the scheduler
}

// Next returns the first tick after t; the zero time if there is none.
func (s *Schedule) Next(t time.Time) time.Time { return s.next(t) }

// Parse parses a spec. Its times are in loc unless it has a time zone.
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
		s.next = func(t time.Time) time.Time { return t.Add(every.Delay) } // the parser's version truncates t to seconds
	}
	return s, nil
}

// parse parses a spec without a time zone. It handles invalid specs for which the parser panics, or
// returns an interval of a second for one of zero.
func parse(text string) (s cron.Schedule, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("invalid spec: %v", v)
		}
	}()
	if strings.Contains(text, "TZ=") {
		return nil, errors.New("the spec has more than one time zone")
	}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d <= 0 {
			return nil, errors.New("the interval must be positive")
		}
	}
	return cron.ParseStandard(text)
}

// cutZone splits off the time zone at the beginning of a spec.
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

// Located parses a spec for which the last and next ticks are known, but not the time zone, which
// schedulers do not report. It tries UTC first, and then all other zones by their offset. The
// schedule is nil if no zone or more than one fits. Offsets may change with the season.
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

// fits reports whether the times are consecutive ticks.
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

// After returns the first n ticks after t.
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

// Between counts the ticks between two times, up to most.
func (s *Schedule) Between(after, before time.Time, most int) int {
	n := 0
	for t := s.Next(after); n < most && !t.IsZero() && t.Before(before); t = s.Next(t) {
		n++
	}
	return n
}
