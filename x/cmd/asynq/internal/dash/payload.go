package dash

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// payloadMode is how to display bytes.
type payloadMode int

const (
	modeAuto payloadMode = iota
	modeText
	modeHex
	modes
)

// maxPayload is the maximum number of displayed bytes of a payload or result.
const maxPayload = 64 << 10

// payload renders bytes in lines of width w, and returns the name of the format. JSON numbers
// remain unchanged.
func payload(data []byte, mode payloadMode, w int) (lines []string, form string) {
	cut := 0
	shown := data
	if len(shown) > maxPayload {
		cut = len(shown) - maxPayload
		shown = shown[:maxPayload]
	}
	switch {
	case len(data) == 0:
		return []string{"(empty)"}, "empty"
	case mode == modeHex || mode == modeAuto && !isText(data):
		lines, form = hexDump(shown, w), "hex"
	case mode == modeAuto && cut == 0 && json.Valid(data):
		lines, form = prettyJSON(data, w), "JSON"
	default:
		lines, form = textLines(string(shown), w), "text"
	}
	if cut > 0 {
		lines = append(lines, fmt.Sprintf("… and %s more", plural(cut, "byte")))
	}
	return lines, form
}

// isText reports whether data, or its first maxPayload bytes, are text: valid UTF-8 without control
// characters other than white space.
func isText(data []byte) bool {
	data = prefix(data, maxPayload)
	if !utf8.Valid(data) {
		return false
	}
	return !bytes.ContainsFunc(data, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	})
}

// prefix returns at most n bytes of data, without a truncated rune at the end.
func prefix(data []byte, n int) []byte {
	if len(data) <= n {
		return data
	}
	data = data[:n]
	for i := 1; i <= min(utf8.UTFMax, len(data)); i++ {
		if last := data[len(data)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return data[:len(data)-i]
			}
			break
		}
	}
	return data
}

// prettyJSON indents JSON. It changes neither numbers nor the order of keys.
func prettyJSON(data []byte, w int) []string {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return textLines(string(data), w)
	}
	return textLines(strings.TrimSpace(b.String()), w)
}

func textLines(s string, w int) []string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		lines = append(lines, wrap(clean(strings.TrimSuffix(line, "\r")), w)...)
	}
	return lines
}

// hexDump formats bytes as offset, hex and ASCII, with 16, 8 or 4 bytes per line as the width
// allows.
func hexDump(data []byte, w int) []string {
	per := 16
	for per > 4 && 10+per*3+2+per > w {
		per /= 2
	}
	var lines []string
	for at := 0; at < len(data); at += per {
		row := data[at:min(at+per, len(data))]
		var digits, text strings.Builder
		for i := range per {
			if i == per/2 && per > 4 {
				digits.WriteByte(' ')
			}
			if i >= len(row) {
				digits.WriteString("   ")
				continue
			}
			digits.WriteString(hex.EncodeToString(row[i:i+1]) + " ")
			if c := row[i]; c >= ' ' && c <= '~' {
				text.WriteByte(c)
			} else {
				text.WriteRune('·')
			}
		}
		lines = append(lines, fmt.Sprintf("%06x  %s %s", at, digits.String(), text.String()))
	}
	return lines
}
