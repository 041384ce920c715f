package filter

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// value is the right side of a term: pieces, in which * and ? are wildcards unless they are quoted.
type value struct{ pieces []piece }

type piece struct {
	text   string
	quoted bool
}

func (v *value) add(text string, quoted bool) {
	if n := len(v.pieces); n > 0 && v.pieces[n-1].quoted == quoted {
		v.pieces[n-1].text += text
	} else {
		v.pieces = append(v.pieces, piece{text, quoted})
	}
}

// literal returns the text of the value.
func (v *value) literal() string {
	var b strings.Builder
	for _, p := range v.pieces {
		b.WriteString(p.text)
	}
	return b.String()
}

// cut splits the value at the first separator that is not quoted.
func (v *value) cut(sep string) (before, after *value, found bool) {
	before, after = &value{}, &value{}
	for _, p := range v.pieces {
		switch {
		case found:
			after.add(p.text, p.quoted)
		case p.quoted:
			before.add(p.text, true)
		default:
			var l, r string
			if l, r, found = strings.Cut(p.text, sep); l != "" {
				before.add(l, false)
			}
			if r != "" {
				after.add(r, false)
			}
		}
	}
	return before, after, found
}

// String returns the value in the syntax of the parser.
func (v *value) String() string {
	if len(v.pieces) == 0 {
		return `""`
	}
	var b strings.Builder
	for _, p := range v.pieces {
		if p.quoted {
			b.WriteString(quote(p.text))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// quote returns a text in quotes. Bytes that are not UTF-8 are written as \x...
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && n == 1 || unicode.IsControl(r):
			for i := range n {
				b.WriteString(`\x`)
				b.WriteString(strconv.FormatUint(uint64(s[i])+0x100, 16)[1:])
			}
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	b.WriteByte('"')
	return b.String()
}

// fold returns a text in lower case. Unlike strings.ToLower, it keeps bytes that are not UTF-8.
func fold(s string) string {
	if utf8.ValidString(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			b.WriteByte(s[0])
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
		s = s[n:]
	}
	return b.String()
}

// unquote parses a quoted text at the start of s, and returns its length in s; 0 if the quote is
// unclosed.
func unquote(s string) (text string, n int) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), i + 1
		case s[i] != '\\':
			b.WriteByte(s[i])
		default:
			if i++; i == len(s) {
				return "", 0
			}
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'x':
				if code, err := strconv.ParseUint(s[i+1:min(i+3, len(s))], 16, 8); err == nil && i+2 < len(s) {
					b.WriteByte(byte(code))
					i += 2
					continue
				}
				b.WriteByte('x')
			default:
				b.WriteByte(s[i])
			}
		}
	}
	return "", 0
}

// glob is a pattern: texts with wildcards between them.
type glob struct {
	parts    []globPart
	floating bool // any text may precede and follow it
}

type globPart struct {
	text string
	any  bool // *
	one  bool // ?
}

// pattern returns the glob of the value.
func (v *value) pattern(floating bool) *glob {
	g := &glob{floating: floating}
	if floating {
		g.parts = append(g.parts, globPart{any: true})
	}
	for _, p := range v.pieces {
		rest := p.text
		for rest != "" {
			i := -1
			if !p.quoted {
				i = strings.IndexAny(rest, "*?")
			}
			if i != 0 {
				text := rest
				if i > 0 {
					text = rest[:i]
				}
				g.parts = append(g.parts, globPart{text: text})
				rest = rest[len(text):]
				continue
			}
			g.parts = append(g.parts, globPart{any: rest[0] == '*', one: rest[0] == '?'})
			rest = rest[1:]
		}
	}
	if floating {
		g.parts = append(g.parts, globPart{any: true})
	}
	return g
}

// match reports whether s matches the pattern. In the worst case, it takes time proportional to the
// product of the lengths.
func (g *glob) match(s string) bool {
	if g.floating && len(g.parts) == 3 && !g.parts[1].any && !g.parts[1].one {
		return strings.Contains(s, g.parts[1].text)
	}
	first := 0
	for first < len(g.parts) && !g.parts[first].any {
		first++
	}
	n, ok := takeAll(g.parts[:first], s)
	if !ok || first == len(g.parts) {
		return ok && n == len(s)
	}
	return matchAny(g.parts[first+1:], s[n:])
}

// take returns how much of s a part without a star matches.
func (p globPart) take(s string) (int, bool) {
	if p.one {
		_, n := utf8.DecodeRuneInString(s)
		return n, n > 0
	}
	return len(p.text), strings.HasPrefix(s, p.text)
}

// matchAny matches parts that follow a star. The first match of the parts up to the next star is as
// good as any other.
func matchAny(parts []globPart, s string) bool {
	for {
		end := 0
		for end < len(parts) && !parts[end].any {
			end++
		}
		segment := parts[:end]
		if end == len(parts) { // the last segment must match the end
			for i := 0; ; {
				if n, ok := takeAll(segment, s[i:]); ok && i+n == len(s) {
					return true
				}
				if i == len(s) {
					return false
				}
				_, n := utf8.DecodeRuneInString(s[i:])
				i += n
			}
		}
		found := false
		for i := 0; !found; {
			n, ok := takeAll(segment, s[i:])
			if ok {
				s, found = s[i+n:], true
				break
			}
			if i == len(s) {
				return false
			}
			_, w := utf8.DecodeRuneInString(s[i:])
			i += w
		}
		parts = parts[end+1:]
	}
}

func takeAll(parts []globPart, s string) (int, bool) {
	taken := 0
	for _, p := range parts {
		n, ok := p.take(s[taken:])
		if !ok {
			return 0, false
		}
		taken += n
	}
	return taken, true
}
