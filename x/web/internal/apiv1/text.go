package apiv1

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Text formats bytes: UTF-8 without control characters unchanged, and everything else quoted and
// escaped as in Go. Line breaks and tabs do not count as control characters. Numbers keep all their
// digits.
func Text(b []byte) string {
	if isText(b) {
		return string(b)
	}
	return strconv.Quote(string(b))
}

func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
	}
	return true
}

func plain(_ string, b []byte) string { return Text(b) }
