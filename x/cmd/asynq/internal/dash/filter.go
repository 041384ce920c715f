package dash

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// filter is what the user typed after "/".
type filter struct {
	// search is the part of it that the inspector can do, as type:, error:, payload:, older: and younger: say.
	search asynq.TaskFilter
	// words are to be found somewhere in what a row tells, in lower case.
	words []string
}

// parseFilter reads a filter. Words are separated by spaces; quotes hold one together.
func parseFilter(text string) (filter, error) {
	var f filter
	for _, word := range split(text) {
		key, value, _ := strings.Cut(word, ":")
		var err error
		switch {
		case value == "":
			f.words = append(f.words, strings.ToLower(word))
		case key == "type":
			f.search.Type = value
		case key == "error":
			f.search.Error = value
		case key == "payload":
			f.search.Payload = value
		case key == "older":
			f.search.OlderThan, err = duration(value)
		case key == "younger":
			f.search.YoungerThan, err = duration(value)
		default:
			f.words = append(f.words, strings.ToLower(word))
		}
		if err != nil {
			return filter{}, fmt.Errorf("%s: %w; write a time like 90s, 10m, 2h or 3d", key, err)
		}
	}
	return f, nil
}

// duration reads what time.ParseDuration does, and days.
func duration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration", s)
	}
	return d, nil
}

func split(text string) []string {
	var words []string
	var word strings.Builder
	quoted := false
	flush := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for _, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ' ' && !quoted:
			flush()
		default:
			word.WriteRune(r)
		}
	}
	flush()
	return words
}

// admits tells whether all words are found in a task; the rest of the filter is up to the inspector.
func (f *filter) admits(t *asynq.TaskInfo) bool {
	if len(f.words) == 0 {
		return true
	}
	return f.found(t.ID + "\n" + t.Type + "\n" + t.LastErr + "\n" + t.Group + "\n" + string(t.Payload))
}

func (f *filter) found(text string) bool {
	text = strings.ToLower(text)
	for _, w := range f.words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
