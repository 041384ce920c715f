package show

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxMessage bounds the bytes of an error message that its fingerprint is computed from.
	// maxPrint bounds the fingerprint without its frames.
	maxMessage = 2048
	maxPrint   = 400
)

// Fingerprint returns the common form of errors that differ only in numbers, names and places: the
// message with placeholders for these, followed by the first frames of its stack that are not in
// libraries. Numbers become #. Other placeholders are ‹uuid›, ‹hex›, ‹id›, ‹text› (in quotes),
// ‹address›, ‹email›, ‹path›, ‹time› and ‹duration›. Codes such as "status 503" are kept. The
// result is one line of valid UTF-8.
func Fingerprint(text string) string {
	message, stack := SplitError(text)
	p := printer{}
	p.print(cutString(message, maxMessage))
	mark := strings.TrimSpace(cutPrint(p.out.String(), maxPrint))
	for n, frame := range ownFrames(stack) {
		if n == 0 {
			mark += " @ "
		} else {
			mark += " < "
		}
		f := printer{}
		f.print(cutString(frame, 200))
		mark += strings.TrimSpace(f.out.String())
	}
	return mark
}

// Part is a part of a fingerprint: literal text or a placeholder.
type Part struct {
	Text string
	Hole bool
}

// Parts splits a fingerprint into parts.
func Parts(mark string) []Part {
	var parts []Part
	for mark != "" {
		n := strings.IndexAny(mark, "#‹")
		if n < 0 {
			return append(parts, Part{Text: mark})
		}
		size := 1
		if mark[n] != '#' {
			if size = holeAt(mark[n:]); size == 0 {
				size = len("‹")
				parts = append(parts, Part{Text: mark[:n+size]})
				mark = mark[n+size:]
				continue
			}
		}
		if n > 0 {
			parts = append(parts, Part{Text: mark[:n]})
		}
		parts = append(parts, Part{Text: strings.Trim(mark[n:n+size], "‹›"), Hole: true})
		mark = mark[n+size:]
	}
	return parts
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

// printer writes a message with placeholders.
type printer struct {
	out  strings.Builder
	last string // the last word in lower case: "status" before 503
}

func (p *printer) print(s string) {
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case unicode.IsSpace(r) || !unicode.IsGraphic(r) || r == utf8.RuneError:
			p.space()
			s = s[size:]
		case r == '‹' && holeAt(s) > 0:
			n := holeAt(s)
			p.hole(s[:n])
			s = s[n:]
		case r == '"' || r == '`' || r == '\'' || r == '“':
			n := p.quoted(s, r)
			s = s[n:]
		case r == '[' && addressAt(s) > 0:
			p.hole("‹address›")
			s = s[addressAt(s):]
		case wordRune(r):
			n := wordAt(s)
			p.word(s[:n])
			s = s[n:]
		default:
			p.out.WriteRune(r)
			s = s[size:]
		}
	}
}

func (p *printer) space() {
	if s := p.out.String(); s != "" && s[len(s)-1] != ' ' {
		p.out.WriteByte(' ')
	}
}

// hole writes a placeholder. Adjacent times, such as a date and a time of day, become one.
func (p *printer) hole(name string) {
	if name == "‹time›" && strings.HasSuffix(strings.TrimRight(p.out.String(), " "), name) {
		return
	}
	p.out.WriteString(name)
	p.last = ""
}

// quoted writes a quoted text as a placeholder, or only the quote if it is not closed. It returns
// the number of bytes consumed.
func (p *printer) quoted(s string, open rune) int {
	size := utf8.RuneLen(open)
	closing := string(open)
	if open == '“' {
		closing = "”"
	}
	before, _ := utf8.DecodeLastRuneInString(p.out.String())
	alone := func() int { p.out.WriteRune(open); return size }
	if open == '\'' && (unicode.IsLetter(before) || before == '#') {
		return alone() // as in can't
	}
	const most = 1000
	for n := size; n < len(s) && n < most; {
		switch {
		case s[n] == '\\' && open == '"':
			n += 2
			continue
		case s[n] == '\n':
			return alone()
		case strings.HasPrefix(s[n:], closing):
			after, _ := utf8.DecodeRuneInString(s[n+len(closing):])
			if open != '\'' || !unicode.IsLetter(after) && !unicode.IsDigit(after) {
				p.out.WriteRune(open)
				if n > size {
					p.out.WriteString("‹text›")
				}
				p.out.WriteString(closing)
				p.last = ""
				return n + len(closing)
			}
		}
		n++
	}
	return alone()
}

// wordRune reports whether a rune may be part of a word. Paths, addresses, times and numbers with
// units are words.
func wordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(`_-+.:/\@%~$&?*#`, r)
}

func wordAt(s string) int {
	link := false
	for n, r := range s {
		if link = link || r == ':' && strings.HasPrefix(s[n:], "://"); link {
			if unicode.IsSpace(r) || !unicode.IsGraphic(r) || strings.ContainsRune("\"'`<>)]}‹", r) {
				return n
			}
			continue
		}
		if !wordRune(r) {
			return n
		}
	}
	return len(s)
}

// codes are words before numbers that identify the kind of error.
var codes = map[string]bool{
	"status": true, "code": true, "http": true, "errno": true, "sqlstate": true, "exit": true, "signal": true, "smtp": true, "error": true, "err": true,
}

func (p *printer) word(w string) {
	end := len(strings.TrimRight(w, ".:?*&-+"))
	tail := w[end:]
	w = w[:end]
	switch {
	case w == "":
	case codes[p.last] && isCode(w):
		p.out.WriteString(w)
	default:
		p.classify(w)
	}
	if w != "" {
		p.last = strings.ToLower(w)
	}
	p.out.WriteString(tail)
}

func isCode(w string) bool {
	if len(w) > 5 {
		return false
	}
	digits := 0
	for i := range len(w) {
		switch c := w[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c < 'A' || c > 'Z':
			return false
		}
	}
	return digits >= max(1, len(w)-2)
}

// cutPrint returns the first bytes of a fingerprint, with an ellipsis if it was cut. It does not
// split placeholders.
func cutPrint(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = cutString(s, most)
	if n := strings.LastIndex(s, "‹"); n >= 0 && holeAt(s[n:]) == 0 {
		s = s[:n]
	}
	return s + "…"
}
