package show

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Form is a representation of bytes.
type Form string

// The forms.
const (
	Nothing Form = "nothing" // there are no bytes
	JSON    Form = "json"
	Text    Form = "text"
	Hex     Form = "hex"
)

// FormOf returns the form that fits the bytes best. A lone number or string is JSON as well. Text
// is UTF-8 with few control characters.
func FormOf(data []byte) Form {
	switch {
	case len(data) == 0:
		return Nothing
	case json.Valid(data):
		return JSON
	case isText(data):
		return Text
	default:
		return Hex
	}
}

func isText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	odd := 0
	for _, c := range data {
		if c == 0 {
			return false
		}
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != 0x1b {
			odd++
		}
	}
	return odd*20 <= len(data)
}

// Token is a text with a CSS class; empty: plain.
type Token struct{ Class, Text string }

// The classes of tokens.
const (
	classKey    = "key"
	classString = "str"
	classNumber = "num"
	classWord   = "lit" // true, false and null
	classOdd    = "odd" // replaces an invisible character or one that affects others
)

// tokens collects tokens up to a number of bytes.
type tokens struct {
	list  []Token
	class string          // of the current token
	text  strings.Builder // of the current token
	room  int
	cut   bool
}

// add reports whether there is room for more.
func (t *tokens) add(class, text string) bool {
	if len(text) > t.room {
		t.cut = true
		text = cutString(text, t.room)
	}
	t.room -= len(text)
	if text != "" {
		if class != t.class {
			t.end()
		}
		t.class = class
		t.text.WriteString(text)
	}
	return !t.cut
}

// end completes the current token and returns all tokens.
func (t *tokens) end() []Token {
	if t.text.Len() > 0 {
		t.list = append(t.list, Token{t.class, t.text.String()})
		t.text.Reset()
	}
	return t.list
}

// addVisible adds text with special characters made visible.
func (t *tokens) addVisible(class, text string) {
	from := 0
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if stands, ok := standIn(r, size, text[at]); ok {
			if !t.add(class, text[from:at]) || !t.add(classOdd, stands) {
				return
			}
			from = at + size
		}
		at += size
	}
	t.add(class, text[from:])
}

// standIn returns the replacement of a character that is invisible or affects the display of
// others.
func standIn(r rune, size int, first byte) (string, bool) {
	const digits = "0123456789abcdef"
	switch {
	case r == '\n' || r == '\t':
		return "", false
	case r < ' ':
		return string('␀' + r), true
	case r == 0x7f:
		return "␡", true
	case r == utf8.RuneError && size == 1:
		return `\x` + string(digits[first>>4]) + string(digits[first&15]), true
	case r < 0x80:
		return "", false
	case r == 0x200c || r == 0x200d: // joiners of emoji and of scripts that require them
		return "", false
	case r < 0xa0, unicode.Is(unicode.Cf, r), r == 0x2028, r == 0x2029, r == 0x115f, r == 0x3164:
		if r > 0xffff {
			return `\U` + hexDigits(r, 8), true
		}
		return `\u` + hexDigits(r, 4), true
	}
	return "", false
}

func hexDigits(r rune, n int) string {
	const digits = "0123456789abcdef"
	b := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		b[i] = digits[r&15]
		r >>= 4
	}
	return string(b)
}

// Visible replaces characters that are invisible or affect the display of others by visible ones,
// such as ␀ or \\u202e. Line ends and tabs are kept.
func Visible(text string) string {
	t := tokens{room: 1 << 62}
	t.addVisible("", text)
	var b strings.Builder
	for _, token := range t.end() {
		b.WriteString(token.Text)
	}
	return b.String()
}

// VisibleTokens is like Visible, with separate tokens for replacements, of up to limit bytes. more
// reports whether the text is longer.
func VisibleTokens(text []byte, limit int) (list []Token, more bool) {
	t := tokens{room: limit}
	t.addVisible("", string(text[:min(len(text), limit+1)]))
	return t.end(), t.cut || len(text) > limit
}

// deepest is the maximum depth of indentation, so that the size of the output does not grow with
// the square of the depth.
const deepest = 40

// Indent indents JSON, with classes for its tokens, up to limit bytes of text. It does not decode
// values: numbers, strings and the order of names are unchanged. more reports whether there is
// more. The data must be valid JSON.
func Indent(data []byte, limit int) (list []Token, more bool) {
	t := tokens{room: limit}
	depth := 0
	line := func() { t.add("", "\n"+strings.Repeat("  ", min(depth, deepest))) }
	for at := 0; at < len(data) && !t.cut; {
		switch c := data[at]; c {
		case ' ', '\t', '\n', '\r':
			at++
		case '{', '[':
			end := at + 1 + spaces(data[at+1:])
			if end < len(data) && (data[end] == '}' || data[end] == ']') {
				t.add("", string([]byte{c, data[end]}))
				at = end + 1
				continue
			}
			depth++
			t.add("", string(c))
			line()
			at++
		case '}', ']':
			depth--
			line()
			t.add("", string(c))
			at++
		case ',':
			t.add("", ",")
			line()
			at++
		case ':':
			t.add("", ": ")
			at++
		case '"':
			end := at + stringLength(data[at:])
			class := classString
			if after := end + spaces(data[end:]); after < len(data) && data[after] == ':' {
				class = classKey
			}
			t.addVisible(class, string(data[at:min(end, at+limit+1)]))
			at = end
		default:
			end := at
			for end < len(data) && !strings.ContainsRune(" \t\n\r,:]}", rune(data[end])) {
				end++
			}
			end = max(end, at+1)
			class := classNumber
			if c == 't' || c == 'f' || c == 'n' {
				class = classWord
			}
			t.addVisible(class, string(data[at:end]))
			at = end
		}
	}
	return t.end(), t.cut
}

// IndentText returns the complete output of Indent as text.
func IndentText(data []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, data, "", "  ") != nil {
		return string(data)
	}
	return b.String()
}

func spaces(data []byte) int {
	return len(data) - len(bytes.TrimLeft(data, " \t\n\r"))
}

// stringLength returns the length of the JSON string at the beginning of data, including its
// quotes.
func stringLength(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// Dump formats up to limit bytes in hexadecimal, 16 per line, with offsets and as text. more
// reports whether there is more.
func Dump(data []byte, limit int) (text string, more bool) {
	return hex.Dump(data[:min(len(data), limit)]), len(data) > limit
}

// Excerpt returns the beginning of the bytes on one line of up to n characters. White space is
// collapsed, invisible characters are made visible, and data that is not text is in hexadecimal.
func Excerpt(data []byte, n int) string {
	head := data[:min(len(data), 4*n+utf8.UTFMax)]
	whole := len(head) == len(data)
	if !whole { // the last character may be incomplete
		last := len(head) - 1
		for last > 0 && !utf8.RuneStart(head[last]) {
			last--
		}
		if !utf8.FullRune(head[last:]) {
			head = head[:last]
		}
	}
	var s string
	if isText(head) || whole && len(head) == 0 {
		s = Line(string(head))
	} else {
		s = "0x" + hex.EncodeToString(head[:min(len(head), n)])
	}
	if short, cut := cutRunes(s, n); cut || !whole {
		return short + "…"
	}
	return s
}

// Line returns text on one line: white space is collapsed, and invisible characters are made
// visible.
func Line(text string) string {
	return Visible(strings.Join(strings.Fields(text), " "))
}

// Clip returns text on one line of at most n characters.
func Clip(text string, n int) string {
	if len(text) > 8*n+utf8.UTFMax {
		text = cutString(text, 8*n) + "…" + "…" // longer than n even after collapsing white space
	}
	short, cut := cutRunes(Line(text), n)
	if cut {
		return short + "…"
	}
	return short
}

func cutRunes(s string, n int) (string, bool) {
	count := 0
	for at := range s {
		if count == n {
			return s[:at], true
		}
		count++
	}
	return s, false
}

// cutString returns up to n bytes of s, without splitting a character.
func cutString(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
