package ui

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// stateHints say, where there is no task in a state, when there would be one.
var stateHints = map[string]string{
	"active":      "A task is active while a worker processes it.",
	"pending":     "A task is pending until a worker is free: all that could run does.",
	"scheduled":   "A task is scheduled when it was enqueued to run later.",
	"retry":       "A task comes here when an attempt failed, and another one is to follow.",
	"aggregating": "A task waits here when it was enqueued with a group.",
	"archived":    "A task comes here when its last retry failed, or somebody archived it.",
	"completed":   "A task that succeeded is kept only if it was enqueued with a retention.",
}

// term is a term of a filter that finds this very text.
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
