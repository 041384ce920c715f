package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Read returns the events of all processes of a run, ordered by time. It ignores an incomplete last
// line, whose process was killed while writing.
func Read(dir string) ([]Event, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	var events []Event
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		for n := 1; ; n++ {
			line, rest, whole := bytes.Cut(text, []byte("\n"))
			if !whole {
				break
			}
			var e Event
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("history: line %d of %s: %w", n, name, err)
			}
			events = append(events, e)
			text = rest
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events, nil
}

// Count returns the number of events of a kind that a process has written.
func Count(dir, process string, kind Kind) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, process+extension))
	if err != nil {
		return 0, fmt.Errorf("history: %w", err)
	}
	return bytes.Count(text, fmt.Appendf(nil, `"kind":%q`, kind)), nil
}
