package ui

import (
	"strings"
	"unicode"
)

// excerpt returns the beginning of a payload on one line, after redaction.
func (u *UI) excerpt(queue, typename string, payload []byte) string {
	const most = 160
	payload, _ = u.Redact.Bytes(queue, typename, payload)
	text, ok := formatted(u.PayloadText, typename, payload)
	if !ok {
		text = string(payload[:min(len(payload), 4*most)])
	}
	var b strings.Builder
	n := 0
	for _, c := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch {
		case unicode.IsSpace(c):
			b.WriteByte(' ')
		case unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == unicode.ReplacementChar:
			b.WriteRune('·') // it would hide or reorder the following characters
		default:
			b.WriteRune(c)
		}
	}
	return strings.TrimSpace(b.String())
}
