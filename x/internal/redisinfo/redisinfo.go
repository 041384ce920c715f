// Package redisinfo reads the reply of Redis to INFO.
package redisinfo

import (
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
)

// Lines iterates over a reply: the section, name and value of each line.
func Lines(text string) iter.Seq2[string, [2]string] {
	return func(yield func(string, [2]string) bool) {
		section := ""
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			if name, ok := strings.CutPrefix(line, "#"); ok {
				section = strings.TrimSpace(name)
				continue
			}
			if name, value, ok := strings.Cut(line, ":"); ok && !yield(section, [2]string{name, value}) {
				return
			}
		}
	}
}

// Fields are the values of a reply by name.
type Fields map[string]string

// Parse returns the fields of a reply. It ignores lines that are not fields.
func Parse(text string) Fields {
	fields := make(Fields)
	for _, f := range Lines(text) {
		fields[f[0]] = f[1]
	}
	return fields
}

// Int returns an integer; 0 if it is missing or invalid.
func (f Fields) Int(name string) int64 {
	n, err := strconv.ParseInt(f[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Float returns a number; 0 if it is missing, invalid or infinite.
func (f Fields) Float(name string) float64 {
	n, err := strconv.ParseFloat(f[name], 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}

// Seconds returns a duration; 0 if it is missing, invalid or negative, and 292 years if it is
// longer than that.
func (f Fields) Seconds(name string) time.Duration {
	return time.Duration(min(max(f.Int(name), 0), math.MaxInt64/int64(time.Second))) * time.Second
}

// Fragmentation returns the memory that Redis occupies beyond what it uses, as a share of that; 0
// if it is not reported. It is negative if a part is swapped out.
func (f Fields) Fragmentation() float64 {
	if ratio := f.Float("mem_fragmentation_ratio"); ratio > 0 {
		return ratio - 1
	}
	return 0
}

// SaveFailed reports whether the last snapshot or the last write to the append-only file failed.
func (f Fields) SaveFailed() bool {
	for _, name := range []string{"rdb_last_bgsave_status", "aof_last_write_status"} {
		if status, ok := f[name]; ok && status != "ok" {
			return true
		}
	}
	return false
}

// What a maxmemory-policy evicts.
const (
	EvictsNothing = iota
	EvictsSome    // keys with a TTL
	EvictsAny
)

// Evicts returns what a maxmemory-policy evicts.
func Evicts(policy string) int {
	switch {
	case policy == "", policy == "noeviction":
		return EvictsNothing
	case strings.HasPrefix(policy, "volatile-"):
		return EvictsSome
	default:
		return EvictsAny
	}
}
