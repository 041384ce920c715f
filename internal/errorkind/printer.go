package errorkind

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The placeholders, besides # for numbers.
const (
	id       = "‹id›"
	quote    = "‹text›"
	address  = "‹address›"
	email    = "‹email›"
	file     = "‹path›"
	moment   = "‹time›"
	duration = "‹duration›"
)

const (
	// maxQuoted bounds the bytes of a quoted text, maxDepth how deep quoted texts are read.
	maxQuoted = 1000
	maxDepth  = 3
	// enough is the size of the output at which the rest of a message cannot matter.
	enough = 2 * MaxBytes
)

// printer writes a message with placeholders.
type printer struct {
	out   []byte
	last  string // the last word: "status" before 503
	sep   byte   // ':' or '=' if one follows the last word
	code  bool   // the last word is a code
	depth int
}

func (p *printer) print(s string) {
	for len(s) > 0 && len(p.out) < enough {
		r, size := rune(s[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s)
		}
		switch {
		case unicode.IsSpace(r) || !unicode.IsGraphic(r) || r == utf8.RuneError:
			p.space()
		case r == '"' || r == '`' || r == '\'' || r == '“':
			size = p.quoted(s, r)
		case r == '[' && addressAt(s) > 0:
			size = addressAt(s)
			p.hole(address)
		case r == ':' && !strings.HasPrefix(s, "::"):
			p.text(":")
			p.sep = ':'
		case wordRune(r) || r == '‹' && holeAt(s) > 0:
			size = p.word(s, wordAt(s, false))
		default:
			switch r {
			case '=':
				p.sep = '='
			case ',', ';', '{':
				p.last, p.sep, p.code = "", 0, false
			}
			p.out = append(p.out, s[:size]...)
		}
		s = s[size:]
	}
}

func (p *printer) space() {
	if n := len(p.out); n > 0 && p.out[n-1] != ' ' {
		p.out = append(p.out, ' ')
	}
}

// text writes text as it is.
func (p *printer) text(s string) { p.out = append(p.out, s...) }

// hole writes a placeholder. Adjacent times, such as a date and a time of day, become one.
func (p *printer) hole(name string) {
	if name == moment && bytes.HasSuffix(bytes.TrimRight(p.out, " "), []byte(moment)) {
		p.out = bytes.TrimRight(p.out, " ")
		return
	}
	p.text(name)
	p.last, p.sep, p.code = "", 0, false
}

// number writes #. Adjacent ones become one.
func (p *printer) number() {
	if n := len(p.out); n == 0 || p.out[n-1] != '#' {
		p.out = append(p.out, '#')
	}
}

// holeAt returns the length of the placeholder at the beginning of a text; 0 if there is none.
func holeAt(s string) int {
	rest, ok := strings.CutPrefix(s, "‹")
	if !ok {
		return 0
	}
	n := 0
	for n < len(rest) && rest[n] >= 'a' && rest[n] <= 'z' {
		n++
	}
	if n == 0 || !strings.HasPrefix(rest[n:], "›") {
		return 0
	}
	return len("‹") + n + len("›")
}

// quoted writes a quoted text, or only the quote if it is not closed. It returns the number of
// bytes consumed.
func (p *printer) quoted(s string, open rune) int {
	size := utf8.RuneLen(open)
	closing := s[:size]
	if open == '“' {
		closing = "”"
	}
	before, _ := utf8.DecodeLastRune(p.out)
	if open == '\'' && (unicode.IsLetter(before) || before == '#' || before == '›') {
		p.text(s[:size])
		return size // as in can't
	}
	for n := size; n < len(s) && n < maxQuoted && s[n] != '\n'; n++ {
		if s[n] == '\\' && open == '"' {
			n++
			continue
		}
		if !strings.HasPrefix(s[n:], closing) {
			continue
		}
		after, _ := utf8.DecodeRuneInString(s[n+len(closing):])
		if open == '\'' && (unicode.IsLetter(after) || unicode.IsDigit(after)) {
			continue
		}
		p.text(s[:size])
		p.content(s[size:n], s[n+len(closing):])
		p.text(closing)
		return n + len(closing)
	}
	p.text(s[:size])
	return size
}

// content writes the content of a quoted text: a placeholder, unless it is a URL, the name of a
// field or of an object, or the text of an error.
func (p *printer) content(s, after string) {
	last, sep := p.last, p.sep
	p.last, p.sep, p.code = "", 0, false
	switch {
	case p.depth < maxDepth && (strings.Contains(prefix(s, 20), "://") && !strings.Contains(s, " ") || sep != 0 && explains.has(last)):
		p.depth++
		p.print(s)
		p.depth--
		if end := len(p.out); end > 0 && p.out[end-1] == ' ' {
			p.out = p.out[:end-1]
		}
		p.last, p.sep, p.code = "", 0, false
	case isName(s) && (p.isField(after) || objects.has(last)):
		p.names(s)
		p.last = s
		if strings.HasPrefix(after, ":") {
			p.sep = ':'
		}
	default:
		p.text(quote)
	}
}

// isField reports whether a quoted text is the name of a field of a JSON object: it has a quote and
// a brace or a comma before, and a colon behind.
func (p *printer) isField(after string) bool {
	n := len(p.out) - 1
	if n < 1 || p.out[n] != '"' || !strings.HasPrefix(after, ":") {
		return false
	}
	before := trimSpace(p.out[:n])
	return len(before) > 0 && (before[len(before)-1] == '{' || before[len(before)-1] == ',')
}

func trimSpace(b []byte) []byte { return bytes.TrimRight(b, " ") }

// isName reports whether a text may be the name of a field, a table, a column or a function.
func isName(s string) bool {
	if s == "" || len(s) > 64 || digit(s[0]) {
		return false
	}
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '.' && r != '-' && r != '#' {
			return false
		}
	}
	return true
}

// word writes the word of some bytes at the beginning of a text; punctuation at its end is not part
// of it. It returns the number of bytes consumed, which can be more.
func (p *printer) word(s string, size int) int {
	if s[0] == '/' && methods.has(p.last) {
		size = wordAt(s, true)
	}
	w := strings.TrimRight(s[:size], ".:?*&-+,;!")
	end := len(w)
	if w != "" {
		before := len(p.out)
		isCode := p.isCode(w, s[end:])
		switch n := thousands(s); {
		case n > end:
			p.number()
			size, end = max(n, size), n
			isCode = false
		case isCode:
			p.text(w)
		default:
			p.classify(w, s[end:])
		}
		if end >= 16 && end == size && len(p.out) > before && string(p.out[before:]) == id {
			end += padding(s[end:])
			size = end
		}
		p.last, p.sep, p.code = w, 0, isCode
	}
	p.text(s[end:size])
	if strings.HasSuffix(s[end:size], ":") {
		p.sep = ':'
	}
	return size
}

// thousands returns the length of a number with commas at the beginning of a text; 0 if there is
// none.
func thousands(s string) int {
	n := 0
	if strings.HasPrefix(s, "-") {
		n++
	}
	from := n
	for n < len(s) && n-from < 4 && digit(s[n]) {
		n++
	}
	if n == from || n-from > 3 {
		return 0
	}
	groups := 0
	for len(s) > n+3 && s[n] == ',' && digits(s[n+1:n+4]) {
		n += 4
		groups++
	}
	if n < len(s)-1 && s[n] == '.' && digit(s[n+1]) {
		for n++; n < len(s) && digit(s[n]); n++ {
		}
	}
	if groups == 0 || n < len(s) && (letter(s[n]) || digit(s[n])) {
		return 0
	}
	return n
}

// padding returns the length of the padding of base64 at the beginning of a text.
func padding(s string) int {
	n := 0
	for n < len(s) && n < 2 && s[n] == '=' {
		n++
	}
	if n < len(s) && (letter(s[n]) || digit(s[n]) || s[n] == '=' || s[n] == '"') {
		return 0
	}
	return n
}

// isCode reports whether a word is a code, by its form and by the words around it.
func (p *printer) isCode(w, rest string) bool {
	out := trimSpace(p.out)
	before := byte(0)
	if len(out) > 0 {
		before = out[len(out)-1]
	}
	switch {
	case p.code && isEnhanced(w):
		return true
	case !mayBeCode(w):
		return false
	case p.code && (before == '(' || before == '['):
		return true // Error 1062 (23000)
	case codes.has(p.last), len(p.last) > 5 && strings.EqualFold(p.last[:5], "http/"):
		return p.sep != ':' || !strings.EqualFold(p.last, "error") && !strings.EqualFold(p.last, "err")
	case !isStatus(w) || amounts.has(p.last) || unitAt(rest):
		return false
	case returns.has(p.last) && p.sep == 0:
		return true
	}
	next := strings.TrimLeft(rest, " ")
	spaced := len(next) < len(rest) && next != ""
	if spaced && next[0] >= 'A' && next[0] <= 'Z' {
		return true // 503 Service Unavailable
	}
	if before != 0 && strings.IndexByte(":([{\"'=>", before) < 0 {
		return false
	}
	if spaced {
		first, _, _ := strings.Cut(next, " ")
		return letter(next[0]) || isEnhanced(first)
	}
	return rest == "" || strings.IndexByte(")]}:,;\"'", rest[0]) >= 0
}

// isEnhanced reports whether a word is an enhanced status code of SMTP, such as 5.1.1.
func isEnhanced(w string) bool {
	if len(w) < 5 || len(w) > 9 || w[0] != '4' && w[0] != '5' || w[1] != '.' {
		return false
	}
	subject, detail, found := strings.Cut(w[2:], ".")
	return found && digits(subject) && digits(detail)
}

// mayBeCode reports whether a word has the form of a code: up to five digits, two capital letters.
func mayBeCode(w string) bool {
	if len(w) > 5 {
		return false
	}
	digits := 0
	for i := range len(w) {
		switch c := w[i]; {
		case digit(c):
			digits++
		case c < 'A' || c > 'Z':
			return false
		}
	}
	return digits >= max(1, len(w)-2)
}
