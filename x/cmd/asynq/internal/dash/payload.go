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

// payloadMode is how bytes are shown.
type payloadMode int

const (
	modeAuto payloadMode = iota
	modeText
	modeHex
	modes
)

// payloadAtMost is how many bytes of a payload or result are shown.
const payloadAtMost = 64 << 10

// payload renders bytes in lines of a width, and names the form. Numbers in JSON stay as they were written.
func payload(data []byte, mode payloadMode, w int) (lines []string, form string) {
	cut := 0
	shown := data
	if len(shown) > payloadAtMost {
		cut = len(shown) - payloadAtMost
		shown = shown[:payloadAtMost]
	}
	switch {
	case len(data) == 0:
		return []string{"(empty)"}, "empty"
	case mode == modeHex || mode == modeAuto && !readable(data):
		lines, form = dump(shown, w), "hex"
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

// readable tells whether bytes, or the beginning of many, are text: valid UTF-8 without control characters other than white space.
func readable(data []byte) bool {
	data = beginning(data, payloadAtMost)
	if !utf8.Valid(data) {
		return false
	}
	return !bytes.ContainsFunc(data, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	})
}

// beginning is at most so many bytes of text, without a rune that is cut in two at their end.
func beginning(data []byte, most int) []byte {
	if len(data) <= most {
		return data
	}
	data = data[:most]
	for n := 1; n <= min(utf8.UTFMax, len(data)); n++ {
		if last := data[len(data)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return data[:len(data)-n]
			}
			break
		}
	}
	return data
}

// prettyJSON indents and changes nothing else: no number is read, no key is moved.
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

// dump writes bytes as offset, hex and ASCII; 16 a line where that fits, else 8 or 4.
func dump(data []byte, w int) []string {
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
