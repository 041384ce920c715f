package ui

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// stateHints explain, on an empty list, how tasks enter the state.
var stateHints = map[string]string{
	"active":      "A task is active while a worker processes it.",
	"pending":     "A task is pending while it waits for a free worker.",
	"scheduled":   "A task is scheduled until the time that it was enqueued for.",
	"retry":       "A task waits here for its next attempt after a failed one.",
	"aggregating": "A task enqueued with a group waits here until it is aggregated.",
	"archived":    "A task is archived when its retries are exhausted, or when a user archives it.",
	"completed":   "A completed task is stored only if it was enqueued with a Retention.",
}

// term returns a filter term that matches this exact text.
func term(field, text string) string {
	var b strings.Builder
	b.WriteString(field + `:"`)
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f || r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[at])
		default:
			b.WriteString(text[at : at+size])
		}
		at += size
	}
	b.WriteByte('"')
	return b.String()
}
