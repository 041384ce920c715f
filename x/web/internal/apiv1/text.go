package apiv1

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Text prints bytes: as they are if they are UTF-8 without control characters, else quoted and escaped as in Go. Line breaks and tabs
// do not count as control characters, and numbers are left alone, since nothing is printed anew.
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
