package out

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Unsafe reports whether a character must not reach a terminal as it is: control characters (C0,
// DEL and C1), line and paragraph separators, invisible format characters such as the bidi controls
// and U+FEFF, and noncharacters.
func Unsafe(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Noncharacter_Code_Point)
}

// unsafeInText is Unsafe for text of several lines.
func unsafeInText(r rune) bool { return r != '\n' && r != '\t' && Unsafe(r) }

// IsPlain reports whether text of several lines can be written to a terminal as it is.
func IsPlain(b []byte) bool { return utf8.Valid(b) && bytes.IndexFunc(b, unsafeInText) < 0 }

// Name returns a name as it is written one per line: unchanged, or as a Go string literal if it
// contains unsafe characters or bytes that are not UTF-8, is empty, or starts with a double quote.
func Name(s string) string {
	if s == "" || s[0] == '"' || !utf8.ValidString(s) || strings.IndexFunc(s, Unsafe) >= 0 {
		return strconv.Quote(s)
	}
	return s
}

// Escape replaces unsafe characters in text of several lines by escapes such as \x1b and \u202e,
// and bytes that are not UTF-8 by escapes such as \xff. Line breaks and tabs stay.
func Escape(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, unsafeInText) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unsafeInText(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// EscapeJSON escapes unsafe characters in JSON. A parser reads the same values.
func EscapeJSON(text []byte) []byte { return escapeStrings(text, false) }

// escapeStrings escapes unsafe characters in JSON, or in YAML whose strings with such characters
// are double-quoted. Those characters occur inside of strings only, so the escapes do not change
// what a parser reads.
func escapeStrings(text []byte, yaml bool) []byte {
	if bytes.IndexFunc(text, unsafeInText) < 0 {
		return text
	}
	b := make([]byte, 0, len(text)+16)
	for _, r := range string(text) {
		switch {
		case !unsafeInText(r):
			b = utf8.AppendRune(b, r)
		case r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		case yaml:
			b = fmt.Appendf(b, `\U%08x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
	}
	return b
}
