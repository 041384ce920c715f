package rollup

import (
	"strconv"
	"strings"
)

// Outcome is how an attempt ended, as it is counted.
type Outcome int

// The outcomes. Crashed is counted by the server that recovered the task.
const (
	Succeeded Outcome = iota
	Retried
	Deferred
	Archived
	Revoked
	Expired
	Requeued
	LeaseLost
	Crashed

	NumOutcomes = int(Crashed) + 1
)

// Size is one of the sizes of a queue.
type Size int

// The sizes. Oldest is the age of the oldest pending task in milliseconds.
const (
	Pending Size = iota
	Active
	Scheduled
	Retry
	InArchive
	Completed
	Aggregating
	Oldest

	NumSizes = int(Oldest) + 1
)

// The text of statistics is a list of tokens: a name, an equals sign and a number. Tokens of the
// same name are added, except those of sizes, in upper case, of which the largest counts. So texts
// can be joined, and added up in any order.
var (
	outcomeNames = [NumOutcomes]string{"s", "r", "f", "a", "v", "x", "q", "l", "c"}
	sizeNames    = [NumSizes]string{"P", "A", "S", "R", "X", "C", "G", "O"}
)

const (
	durationName = "d" // alone the sum in microseconds; with the number of a bucket its count
	waitName     = "w"
)

// Stats are the statistics of a period: of one type of tasks, or of a queue.
type Stats struct {
	Counts   [NumOutcomes]int64
	Duration Histogram
	Wait     Histogram

	Sizes   [NumSizes]int64 // the largest ones, only of a queue
	Sampled bool            // Sizes are known
}

// Add adds the statistics that a text holds. It ignores what it does not understand.
func (s *Stats) Add(text string) {
	for len(text) > 0 {
		var token string
		if i := strings.IndexAny(text, " ;"); i >= 0 {
			token, text = text[:i], text[i+1:]
		} else {
			token, text = text, ""
		}
		name, number, _ := strings.Cut(token, "=")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && name != "" && n >= 0 {
			s.addToken(name, n)
		}
	}
}

func (s *Stats) addToken(name string, n int64) {
	var h *Histogram
	switch name[:1] {
	case durationName:
		h = &s.Duration
	case waitName:
		h = &s.Wait
	}
	if h != nil {
		if len(name) == 1 {
			h.sum += n
		} else if bucket, err := strconv.Atoi(name[1:]); err == nil && bucket >= 0 && bucket < numBuckets {
			h.add(bucket, n)
		}
		return
	}
	for i, known := range outcomeNames {
		if name == known {
			s.Counts[i] += n
			return
		}
	}
	for i, known := range sizeNames {
		if name == known {
			s.Sizes[i], s.Sampled = max(s.Sizes[i], n), true
			return
		}
	}
}

// Merge adds other statistics.
func (s *Stats) Merge(other *Stats) {
	for i, n := range other.Counts {
		s.Counts[i] += n
	}
	s.Duration.Merge(&other.Duration)
	s.Wait.Merge(&other.Wait)
	for i, n := range other.Sizes {
		s.Sizes[i] = max(s.Sizes[i], n)
	}
	s.Sampled = s.Sampled || other.Sampled
}

// Encode returns the text of the statistics without the sizes, which Redis knows; "" if they are
// empty.
func (s *Stats) Encode() string {
	var b []byte
	for i, n := range s.Counts {
		b = appendToken(b, outcomeNames[i], n)
	}
	b = s.Duration.encode(b, durationName)
	b = s.Wait.encode(b, waitName)
	return string(b)
}

func (h *Histogram) encode(b []byte, name string) []byte {
	b = appendToken(b, name, h.sum)
	for bucket, n := range h.Buckets() {
		b = appendBucket(b, name, bucket, n)
	}
	return b
}

func appendToken(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	if len(b) > 0 {
		b = append(b, ' ')
	}
	return strconv.AppendInt(append(append(b, name...), '='), n, 10)
}

func appendBucket(b []byte, name string, bucket int, n int64) []byte {
	if len(b) > 0 {
		b = append(b, ' ')
	}
	b = strconv.AppendInt(append(b, name...), int64(bucket), 10)
	return strconv.AppendInt(append(b, '='), n, 10)
}
