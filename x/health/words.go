package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }

// minute formats the time of day in minutes, with the day if it is not that of now.
func minute(now, t time.Time) string {
	now, t = now.UTC(), t.UTC()
	if now.Sub(t) > 20*time.Hour {
		return t.Format("2006-01-02 15:04") + " UTC"
	}
	return t.Format("15:04") + " UTC"
}

// count formats a number with its noun: "1 task", "12,000 tasks".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// number formats a number with commas.
func number(n int) string {
	text := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	var out []string
	for len(text) > 3 {
		out = append(out, text[len(text)-3:])
		text = text[:len(text)-3]
	}
	out = append(out, text)
	slices.Reverse(out)
	return sign + strings.Join(out, ",")
}

// span formats a duration, rounded down: "45 s", "14 min", "3 h 20 min", "2 days".
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return count(int(d/(24*time.Hour)), "day", "days")
	}
}

// size formats a size in binary units.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1023.95 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// clip shortens a text to about n bytes.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// unreachable describes why Redis could not be read at all.
func unreachable(err error) string {
	var op *net.OpError
	var answer interface {
		error
		RedisError()
	}
	if !errors.As(err, &op) && !errors.Is(err, context.DeadlineExceeded) && errors.As(err, &answer) {
		return "Redis returned an error: " + answer.Error()
	}
	return "Redis is unreachable: " + reason(err)
}

// reason returns the cause of an error of Redis without the layers that wrap it, each of which adds
// that Redis failed.
func reason(err error) string {
	var op *net.OpError
	var answer interface {
		error
		RedisError()
	}
	switch {
	case errors.As(err, &op):
		return op.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &answer):
		return answer.Error()
	}
	return strings.TrimPrefix(err.Error(), "asynq: ")
}

// short formats a duration with two digits: "35 ms", "2.1 s", "40 s", "3 min".
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.Itoa(int(d/time.Millisecond)) + " ms"
	case d < 10*time.Second:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + " s"
	default:
		return span(d)
	}
}

// percent formats a share of a whole.
func percent(part, whole int) string {
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(max(whole, 1)))
}
