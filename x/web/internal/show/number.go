package show

import (
	"math"
	"strconv"
	"strings"
)

// Number formats n with commas between the thousands: 1,234,567.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// Short formats n in at most five characters: 987, 12.3k, 4.5M.
func Short(n float64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		// Numbers that would be formatted as 1000 use the next unit.
		if n < 999.5 || unit == "T" {
			switch {
			case unit == "" && n == math.Trunc(n), n >= 99.95:
				return sign + strconv.FormatFloat(n, 'f', 0, 64) + unit
			default:
				return sign + strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + unit
			}
		}
		n /= 1000
	}
	return ""
}

// PerSecond formats a rate: 0, 0.02, 3.4, 1,234.
func PerSecond(rate float64) string {
	switch abs := math.Abs(rate); {
	case math.IsNaN(rate) || math.IsInf(rate, 0):
		return "–"
	case abs < 0.005:
		return "0"
	case abs < 0.995:
		return strconv.FormatFloat(rate, 'f', 2, 64)
	case abs < 9.95:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	default:
		return Number(int64(math.Round(rate)))
	}
}

// Percent formats part/whole as a percentage, with one decimal below 10; "–" if whole is 0. Only
// the whole is 100 %, and only nothing is 0 %.
func Percent(part, whole float64) string {
	if whole <= 0 || math.IsNaN(part) {
		return "–"
	}
	p := part / whole * 100
	switch {
	case p > 0 && p < 0.1:
		return "<0.1 %"
	case p > 99.9 && p < 100:
		return ">99.9 %"
	case p < 9.95 && p != 0:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	default:
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	}
}

// Bytes formats a number of bytes in units of 1,024: 12 B, 3.4 KiB, 1.2 GiB.
func Bytes(n int64) string {
	if n < 1024 && n > -1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		f, unit = f/1024, u
		if math.Abs(f) < 1023.95 {
			break
		}
	}
	if math.Abs(f) >= 99.95 {
		return strconv.FormatFloat(f, 'f', 0, 64) + " " + unit
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
}
