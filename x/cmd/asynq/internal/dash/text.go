package dash

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// clean makes untrusted text safe to display: one line, without control or bidi characters. It
// replaces these with visible escapes.
func clean(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString("⏎")
		case r == '\t':
			b.WriteString("  ")
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// cleanLine is clean with a maximum length.
func cleanLine(s string) string {
	const most = 500
	if len(s) > most {
		s = s[:most] + "…"
	}
	return clean(s)
}

// pad truncates a text with an ellipsis, or pads it with spaces, to width w.
func pad(s string, w int, right bool) string {
	if w <= 0 {
		return ""
	}
	have := ansi.StringWidth(s)
	if have > w {
		s = ansi.Truncate(s, w, "…")
		have = ansi.StringWidth(s)
	}
	fill := strings.Repeat(" ", max(0, w-have))
	if right {
		return fill + s
	}
	return s + fill
}

// number formats a count with separators, or with a unit from ten million.
func number(n int) string {
	if n < 0 {
		return "-" + number(-max(n, -math.MaxInt))
	}
	if n >= 10_000_000 {
		return short(float64(n))
	}
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func short(v float64) string {
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		if v < 1000 {
			return strconv.FormatFloat(v, 'f', digits(v, unit), 64) + unit
		}
		v /= 1000
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + "P"
}

func digits(v float64, unit string) int {
	if unit == "" || v >= 100 {
		return 0
	}
	return 1
}

// rate formats the newest sample as attempts per second.
func rate(s series) string {
	if len(s) == 0 || math.IsNaN(s[len(s)-1]) {
		return "–"
	}
	switch v := s.last(); {
	case v == 0:
		return "0"
	case v < 0.01:
		return "<0.01"
	case v < 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return number(int(math.Round(v)))
	}
}

// span formats a duration in at most two units.
func span(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -max(d, -math.MaxInt64)
	}
	switch {
	case d < time.Millisecond:
		return sign + "0s"
	case d < time.Second:
		return fmt.Sprintf("%s%dms", sign, d/time.Millisecond)
	case d < 10*time.Second:
		return fmt.Sprintf("%s%.1fs", sign, float64(d/(100*time.Millisecond))/10)
	case d < time.Minute:
		return fmt.Sprintf("%s%ds", sign, d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%s%dm%02ds", sign, d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%s%dh%02dm", sign, d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%s%dd%02dh", sign, d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// ago and until format the time between t and now, or a dash if t is zero.
func ago(t, now time.Time) string {
	if t.IsZero() || t.Unix() == 0 {
		return "–"
	}
	return span(max(0, now.Sub(t)))
}

func until(t, now time.Time) string {
	if t.IsZero() || t.Unix() == 0 {
		return "–"
	}
	if d := t.Sub(now); d > 0 {
		return span(d)
	}
	return "now"
}

func sizeOf(n int64) string {
	switch {
	case n <= 0:
		return "–"
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if strings.HasSuffix(one, "ch") {
		one += "e"
	}
	return number(n) + " " + one + "s"
}

// wrap breaks one clean line into lines of width w.
func wrap(s string, w int) []string {
	if w <= 0 {
		return nil
	}
	if ansi.StringWidth(s) <= w {
		return []string{s}
	}
	return strings.Split(ansi.Hardwrap(s, w, true), "\n")
}
