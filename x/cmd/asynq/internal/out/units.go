package out

import (
	"fmt"
	"strconv"
	"time"
)

// Bytes formats a size in binary units.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, units := float64(n)/1024, "KMGTPE"
	for size >= 1024 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", size, units[0])
}

// Number formats a number with separators: 105,000.
func Number(n int) string {
	s := strconv.Itoa(n)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Time formats a time in UTC with seconds, or "-" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}
