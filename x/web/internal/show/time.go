package show

import (
	"fmt"
	"strconv"
	"time"
)

// Duration formats a duration in its two largest units: 820ms, 4.2s, 3m 20s, 5h 12m, 3d 4h. From
// one second on it is truncated, not rounded.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d == 0:
		return "0s"
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + "µs"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d/(100*time.Millisecond))/10, 'f', 1, 64) + "s"
	case d < time.Minute:
		return two(d, time.Second, "s", 0, "")
	case d < time.Hour:
		return two(d, time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "m")
	default:
		return two(d, 24*time.Hour, "d", time.Hour, "h")
	}
}

func two(d, large time.Duration, name string, small time.Duration, smallName string) string {
	s := strconv.FormatInt(int64(d/large), 10) + name
	if small > 0 {
		if rest := d % large / small; rest > 0 {
			s += " " + strconv.FormatInt(int64(rest), 10) + smallName
		}
	}
	return s
}

// From formats t relative to now: "in 3m 20s", "4h 2m ago", "now". It returns "" for the zero time.
func From(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	switch d := t.Sub(now).Truncate(time.Second); {
	case d == 0:
		return "now"
	case d > 0:
		return "in " + seconds(d)
	default:
		return seconds(-d) + " ago"
	}
}

// seconds formats a duration in whole seconds, without the fractions of Duration.
func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return strconv.Itoa(int(d/time.Second)) + "s"
	}
	return Duration(d)
}

// Time formats t to the second in its location, as 2026-11-21 14:03:59; "" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format("2006-01-02 15:04:05")
}

// Day formats a date as Sat 21 Nov.
func Day(t time.Time) string {
	return t.Format("Mon 2 Jan")
}

// Plural formats a number with its noun: 1 task, 2 tasks. The default plural adds an s to the noun.
func Plural(n int64, noun string, plural ...string) string {
	switch {
	case n == 1:
	case len(plural) > 0:
		noun = plural[0]
	default:
		noun += "s"
	}
	return fmt.Sprintf("%s %s", Number(n), noun)
}
