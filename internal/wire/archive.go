package wire

import (
	"fmt"
	"time"
)

// ArchiveLimits limit the archive of a queue: it keeps the newest tasks.
type ArchiveLimits struct {
	Tasks int
	Age   time.Duration // in whole seconds
}

// DefaultArchiveLimits are those of all processes that configure no others, and of other libraries.
var DefaultArchiveLimits = ArchiveLimits{Tasks: 10_000, Age: 90 * 24 * time.Hour}

// Encode returns the number of tasks, a space, and the age in seconds.
func (l ArchiveLimits) Encode() string { return fmt.Sprintf("%d %d", l.Tasks, l.Seconds()) }

// Seconds returns the age in seconds.
func (l ArchiveLimits) Seconds() int64 { return int64(l.Age / time.Second) }

// ParseArchiveLimits decodes the result of Encode.
func ParseArchiveLimits(text string) (l ArchiveLimits, ok bool) {
	var seconds int64
	if n, err := fmt.Sscanf(text, "%d %d", &l.Tasks, &seconds); n != 2 || err != nil {
		return ArchiveLimits{}, false
	}
	l.Age = time.Duration(seconds) * time.Second
	if l.Tasks < 1 || seconds < 1 || l.Seconds() != seconds {
		return ArchiveLimits{}, false
	}
	return l, true
}
