package errorkind

import (
	"bytes"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// wordRune reports whether a rune may be part of a word. Paths, addresses, times and numbers with
// units are words.
func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return letter(byte(r)) || digit(byte(r)) || strings.IndexByte(`_-+.:/\@%~$&?*#`, byte(r)) >= 0
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// wordAt returns the length of the word at the beginning of a text. Placeholders may be parts of
// it. A URL, or the path of one, ends at a space, a quote or a bracket.
func wordAt(s string, link bool) int {
	for n := 0; n < len(s); {
		if s[n] == "‹"[0] {
			if size := holeAt(s[n:]); size > 0 {
				n += size
				continue
			}
		}
		r, size := rune(s[n]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[n:])
		}
		if link = link || r == ':' && strings.HasPrefix(s[n:], "://"); link {
			if unicode.IsSpace(r) || !unicode.IsGraphic(r) || r == utf8.RuneError || strings.ContainsRune("\"'`<>)]}‹", r) {
				return n
			}
		} else if !wordRune(r) {
			return n
		}
		n += size
	}
	return len(s)
}

// classify writes a word as a placeholder or with placeholders in it.
func (p *printer) classify(w, rest string) {
	switch {
	case strings.Contains(w, "://"):
		p.url(w)
	case w[0] == '/' && methods.has(p.last):
		p.urlPath(w)
	case isUUID(w):
		p.hole(id)
	case isTime(w):
		p.hole(moment)
	case isDuration(w):
		p.hole(duration)
	case addressAt(w) == len(w):
		p.hole(address)
	case strings.IndexByte(w, '@') > 0 && p.atSign(w):
	case isToken(w):
		p.hole(id)
	case isPath(w):
		p.hole(file)
		if n := strings.LastIndexByte(w, ':'); n > 2 && digits(w[n+1:]) {
			p.text(":#")
		}
	case isNumber(w):
		if len(w) >= minHex && digits(w) && !amounts.has(p.last) && !unitAt(rest) {
			p.hole(id) // one of the hexadecimal IDs that have only digits
		} else {
			p.number()
		}
	default:
		if n := quantity(w); n > 0 {
			p.number()
			if byteUnits.has(w[n:]) {
				p.text("B")
			} else {
				p.text(w[n:])
			}
			return
		}
		p.names(w)
	}
}

// atSign writes an email address, or what follows the credentials of a data source. It reports
// whether the word is one of them.
func (p *printer) atSign(w string) bool {
	n := strings.LastIndexByte(w, '@')
	user, host := w[:n], w[n+1:]
	switch {
	case strings.Contains(host, ".") && !strings.ContainsAny(user, "/:"):
		p.hole(email)
	case strings.Contains(user, ":"):
		p.text(quote + "@") // a password
		p.names(host)
	default:
		return false
	}
	return true
}

// minHex is the minimum length of hexadecimal IDs.
const minHex = 8

// names writes a word with placeholders for its parts that look generated, and # for numbers.
func (p *printer) names(w string) {
	if n := affix(w); isNanoID(w[n:]) {
		p.names(w[:n])
		p.hole(id)
		return
	}
	for n := 0; n < len(w); {
		c := w[n]
		switch {
		case c == "‹"[0] && holeAt(w[n:]) > 0:
			size := holeAt(w[n:])
			p.hole(w[n : n+size])
			n += size
		case c == '#':
			p.number()
			n++
		case letter(c) || digit(c) || c >= utf8.RuneSelf:
			if len(w)-n >= 36 && isUUID(w[n:n+36]) && (len(w)-n == 36 || !letter(w[n+36]) && !digit(w[n+36])) {
				p.hole(id)
				n += 36
				continue
			}
			end := n
			for end < len(w) && (letter(w[end]) || digit(w[end]) || w[end] >= utf8.RuneSelf && holeAt(w[end:]) == 0) {
				end++
			}
			p.name(w[n:end], n > 0 && w[n-1] == '_', end == len(w))
			n = end
		default:
			p.out = append(p.out, c)
			n++
		}
	}
}

// maxAffix is the maximum length of the letters of an affix.
const maxAffix = 12

// affix returns the length of the lowercase letters and the separator before a generated ID, as in
// "cus_" and "job:".
func affix(w string) int {
	n := strings.LastIndexByte(w[:min(len(w), 2*maxAffix)], ':') + 1
	for i := n; i < len(w) && i-n <= maxAffix; i++ {
		switch c := w[i]; {
		case c >= 'a' && c <= 'z':
		case i > n && (c == '_' || c == '-'):
			return i + 1
		default:
			return n
		}
	}
	return n
}

// name writes a part of a word that has only letters and digits. Behind an underscore, it may be a
// short ID. The last part of the name of a pod has five letters or digits.
func (p *printer) name(w string, behind, last bool) {
	another := len(w) == 5 && bytes.HasSuffix(p.out, []byte(id+"-"))
	switch {
	case terms.has(w):
		p.text(w)
	case isGenerated(w, behind), another && last && strings.ToLower(w) == w:
		p.hole(id)
	default:
		from := 0
		for i, r := range w {
			if !unicode.IsDigit(r) {
				continue
			}
			p.text(w[from:i])
			p.number()
			from = i + utf8.RuneLen(r)
		}
		p.text(w[from:])
	}
}

// shape counts the letters and digits of a word.
type shape struct {
	digits, lower, upper, others int
	turns                        int  // between letters and digits
	shifts                       int  // between digits, lowercase and capital letters
	hex                          bool // only hexadecimal digits
}

func shapeOf(w string) shape {
	s := shape{hex: true}
	const (
		none = iota
		number
		small
		capital
	)
	last := none
	for i := range len(w) {
		var class int
		switch c := w[i]; {
		case digit(c):
			class = number
			s.digits++
		case c >= 'a' && c <= 'z':
			class = small
			s.lower++
			s.hex = s.hex && c <= 'f'
		case c >= 'A' && c <= 'Z':
			class = capital
			s.upper++
			s.hex = s.hex && c <= 'F'
		default:
			s.others++
			s.hex = false
			continue
		}
		if last != none && class != last {
			s.shifts++
			if class == number || last == number {
				s.turns++
			}
		}
		last = class
	}
	s.hex = s.hex && (s.lower == 0 || s.upper == 0)
	return s
}

// isGenerated reports whether a part of a word looks generated: it is hexadecimal, or changes
// between letters and digits, or capital and lowercase letters, more often than names do.
func isGenerated(w string, behind bool) bool {
	s := shapeOf(w)
	n := len(w)
	mixed := s.digits > 0 && s.lower+s.upper > 0
	switch {
	case n > 2 && w[0] == '0' && w[1] == 'x' && shapeOf(w[2:]).hex:
		return true
	case s.others > 0 || n < 6:
		return false
	case s.hex && (n >= minHex || mixed && s.turns >= 2):
		return true
	case !mixed:
		return n >= 16 && s.digits == 0 && s.lower > 0 && s.upper > 0 && s.shifts*5 >= n*2
	case n >= 16 && s.digits >= 3, n >= 8 && s.turns >= 3, behind && s.turns >= 2:
		return true
	default:
		return n >= 8 && s.lower > 0 && s.upper > 0 && s.shifts*5 >= n*2
	}
}

// isNanoID reports whether a word is generated from letters, digits, dashes and underscores.
func isNanoID(w string) bool {
	if len(w) < 16 || strings.Trim(w, alphabet+"-_") != "" {
		return false
	}
	s := shapeOf(w)
	return s.others <= len(w)/8+1 && s.digits > 0 && s.lower > 0 && s.upper > 0 && s.shifts*5 >= len(w)*2
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// isToken reports whether a word is a web token, or encoded in base64 with characters that other
// words do not have.
func isToken(w string) bool {
	if len(w) < 20 {
		return false
	}
	if strings.HasPrefix(w, "eyJ") && strings.Trim(w, alphabet+"-_.") == "" {
		return true
	}
	if !strings.ContainsAny(w, "+/") || strings.Trim(w, alphabet+"+/") != "" {
		return false
	}
	s := shapeOf(w)
	return s.others <= len(w)/8 && s.digits > 0 && s.lower > 0 && s.upper > 0 && s.shifts*20 >= len(w)*9
}

func digits(s string) bool {
	for i := range len(s) {
		if !digit(s[i]) {
			return false
		}
	}
	return s != ""
}

// isNumber reports whether a word is a number, with a sign, dots, or a placeholder.
func isNumber(w string) bool {
	w = strings.TrimLeft(w, "+-")
	if w == "" || w[0] != '#' && !digit(w[0]) {
		return false
	}
	for i := range len(w) {
		if c := w[i]; !digit(c) && c != '.' && c != '#' {
			return false
		}
	}
	return true
}

// quantity returns the length of the number at the beginning of a word that a unit of up to three
// letters, or %, follows.
func quantity(w string) int {
	n := 0
	for n < len(w) && (digit(w[n]) || w[n] == '.' || w[n] == '#' || n == 0 && (w[n] == '-' || w[n] == '+')) {
		n++
	}
	if !isNumber(w[:n]) || n == len(w) || len(w)-n > 3 || len(w) >= minHex && shapeOf(w).hex {
		return 0
	}
	for i := n; i < len(w); i++ {
		if !letter(w[i]) && w[i] != '%' {
			return 0
		}
	}
	return n
}

func isUUID(w string) bool {
	if len(w) != 36 {
		return false
	}
	for i := range len(w) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (w[i] == '-') || !dash && !hexDigit(w[i]) {
			return false
		}
	}
	return true
}

func hexDigit(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// isTime reports whether a word is a date, a time of day, or both.
func isTime(w string) bool {
	date := len(w) >= 10 && digits(w[:4]) && (w[4] == '-' || w[4] == '/') && digits(w[5:7]) && w[7] == w[4] && digits(w[8:10])
	if date {
		return len(w) == 10 || strings.IndexByte("T_:Z+-", w[10]) >= 0
	}
	if len(w) < 5 || w[2] != ':' || !digits(w[:2]) || !digits(w[3:5]) {
		return false
	}
	return len(w) == 5 || len(w) >= 8 && w[5] == ':' && digits(w[6:8])
}

func isDuration(w string) bool {
	if c := w[0]; !digit(c) && c != '+' && c != '-' && c != '.' {
		return false
	}
	if c := w[len(w)-1]; c != 's' && c != 'm' && c != 'h' || strings.Trim(w, "+-0123456789.nuµmsh") != "" {
		return false
	}
	_, err := time.ParseDuration(w)
	return err == nil
}

// isPath reports whether a word is the path of a file. github.com/user/module is not one.
func isPath(w string) bool {
	switch {
	case len(w) > 1 && w[0] == '/' && w[1] != '/', strings.HasPrefix(w, "~/"), strings.HasPrefix(w, "./"), strings.HasPrefix(w, "../"):
		return true
	case len(w) > 3 && w[1] == ':' && (w[2] == '\\' || w[2] == '/') && letter(w[0]):
		return true
	}
	first, rest, found := strings.Cut(w, "/")
	return found && strings.Contains(rest, "/") && !strings.ContainsAny(first, ".:@")
}
