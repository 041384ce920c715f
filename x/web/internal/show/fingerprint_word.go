package show

import (
	"strings"
	"time"
	"unicode"
)

// classify writes a word as a placeholder or with placeholders in it.
func (p *printer) classify(w string) {
	switch {
	case strings.Contains(w, "://"):
		p.url(w)
	case isUUID(w):
		p.hole("‹uuid›")
	case isTime(w):
		p.hole("‹time›")
	case isDuration(w):
		p.hole("‹duration›")
	case addressAt(w) == len(w):
		p.hole("‹address›")
	case strings.IndexByte(w, '@') > 0 && strings.Contains(w[strings.IndexByte(w, '@'):], "."):
		p.hole("‹email›")
	case isPath(w):
		p.hole("‹path›")
		if n := strings.LastIndexByte(w, ':'); n > 2 && digits(w[n+1:]) {
			p.out.WriteString(":#")
		}
	case isNumber(w):
		p.out.WriteByte('#')
	default:
		p.parts(w)
	}
}

// url writes the host of a URL and omits the rest.
func (p *printer) url(w string) {
	n := strings.Index(w, "://") + len("://")
	p.digits(w[:n])
	host, path := w[n:], ""
	if n := strings.IndexAny(host, "/?#"); n >= 0 {
		host, path = host[:n], host[n:]
	}
	if n := strings.LastIndexByte(host, '@'); n >= 0 {
		host = host[n+1:] // a password may precede it
	}
	switch {
	case host == "":
	case addressAt(host) == len(host):
		p.hole("‹address›")
	default:
		p.print(host) // it may contain characters that end words elsewhere
	}
	if len(path) > 1 {
		p.out.WriteString("/‹path›")
	} else {
		p.out.WriteString(path)
	}
}

// parts writes the texts between punctuation, with placeholders for those that look like IDs.
func (p *printer) parts(w string) {
	for w != "" {
		n := strings.IndexAny(w, ":/.")
		part, rest := w, ""
		if n >= 0 {
			part, rest = w[:n], w[n:]
		}
		switch {
		case part == "":
		case isUUID(part):
			p.hole("‹uuid›")
		case isHex(part):
			p.hole("‹hex›")
		case isID(part):
			p.hole("‹id›")
		default:
			p.digits(part)
		}
		if rest != "" {
			p.out.WriteByte(rest[0])
			rest = rest[1:]
		}
		w = rest
	}
}

// digits writes a word with # for each run of digits.
func (p *printer) digits(w string) {
	for _, r := range w {
		switch {
		case !unicode.IsDigit(r) && r != '#':
			p.out.WriteRune(r)
		case !strings.HasSuffix(p.out.String(), "#"):
			p.out.WriteByte('#')
		}
	}
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func isNumber(w string) bool {
	w = strings.TrimLeft(w, "+-")
	return w != "" && w[0] >= '0' && w[0] <= '9' && strings.Trim(w, "0123456789.") == "" || w == "#"
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

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// isHex reports whether a word is a memory address, a hash or another hexadecimal number.
func isHex(w string) bool {
	rest, prefixed := strings.CutPrefix(w, "0x")
	if rest == "" || !prefixed && len(rest) < 8 {
		return false
	}
	digit, letter := false, false
	for i := range len(rest) {
		if !hexDigit(rest[i]) {
			return false
		}
		if rest[i] <= '9' {
			digit = true
		} else {
			letter = true
		}
	}
	return prefixed || digit && letter
}

// isID reports whether a word looks generated: long, with letters and several digits.
func isID(w string) bool {
	if len(w) < 16 {
		return false
	}
	n, letters := 0, 0
	for i := range len(w) {
		switch c := w[i]; {
		case c >= '0' && c <= '9':
			n++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			letters++
		case c != '-' && c != '_':
			return false
		}
	}
	return n >= 3 && letters > 0
}

// isTime reports whether a word is a date, a time of day, or both.
func isTime(w string) bool {
	date := len(w) >= 10 && digits(w[:4]) && (w[4] == '-' || w[4] == '/') && digits(w[5:7]) && w[7] == w[4] && digits(w[8:10])
	if date {
		return len(w) == 10 || strings.ContainsAny(w[10:11], "T_:Z+-")
	}
	if len(w) < 5 || w[2] != ':' || !digits(w[:2]) || !digits(w[3:5]) {
		return false
	}
	return len(w) == 5 || len(w) >= 8 && w[5] == ':' && digits(w[6:8])
}

func isDuration(w string) bool {
	if !strings.ContainsAny(w[len(w)-1:], "smh") || strings.Trim(w, "+-0123456789.nuµmsh") != "" {
		return false
	}
	_, err := time.ParseDuration(w)
	return err == nil
}

func isPath(w string) bool {
	switch {
	case len(w) > 1 && w[0] == '/' && w[1] != '/', strings.HasPrefix(w, "~/"), strings.HasPrefix(w, "./"), strings.HasPrefix(w, "../"):
		return true
	case len(w) > 3 && w[1] == ':' && (w[2] == '\\' || w[2] == '/') && unicode.IsLetter(rune(w[0])):
		return true
	}
	first, rest, found := strings.Cut(w, "/")
	return found && strings.Contains(rest, "/") && !strings.ContainsAny(first, ".:@") // github.com/user/module is a module, not a URL
}

// addressAt returns the length of the network address, with its port, at the beginning of a text; 0
// if there is none.
func addressAt(s string) int {
	n := 0
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 3 || end > 60 || !isIPv6(s[1:end]) {
			return 0
		}
		n = end + 1
	} else {
		n = len(s)
		if end := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
			n = end
		}
		if parts := strings.Split(s[:n], "."); len(parts) != 4 || !octets(parts) {
			if isIPv6(s) && strings.ContainsAny(s, "0123456789abcdef") {
				return len(s)
			}
			return 0
		}
	}
	if rest := s[n:]; strings.HasPrefix(rest, ":") {
		port := 1
		for port < len(rest) && rest[port] >= '0' && rest[port] <= '9' {
			port++
		}
		if port > 1 {
			n += port
		}
	}
	return n
}

func octets(parts []string) bool {
	for _, p := range parts {
		if len(p) == 0 || len(p) > 3 {
			return false
		}
	}
	return true
}

func isIPv6(s string) bool {
	s, _, _ = strings.Cut(s, "%")
	return len(s) <= 45 && strings.Count(s, ":") >= 2 && strings.Trim(s, "0123456789abcdefABCDEF:.") == "" &&
		(strings.Contains(s, "::") || strings.Count(s, ":") == 7)
}
