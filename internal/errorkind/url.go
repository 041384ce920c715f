package errorkind

import "strings"

// url writes the scheme, the host and the path of a URL. It omits user names, passwords and
// queries. A # does not start a fragment, because it may be a placeholder.
func (p *printer) url(w string) {
	n := strings.Index(w, "://") + len("://")
	p.names(w[:n])
	host, path := w[n:], ""
	if n := strings.IndexAny(host, "/?"); n >= 0 {
		host, path = host[:n], host[n:]
	}
	if n := strings.LastIndexByte(host, '@'); n >= 0 {
		host = host[n+1:]
	} else if n := strings.LastIndexByte(host, ':'); n >= 0 && !isPort(host[n+1:]) && addressAt(host) != len(host) {
		// Not a port: a password with a slash.
		host = ""
		if n := strings.LastIndexByte(path, '@'); n >= 0 {
			host, path = path[n+1:], ""
			if n := strings.IndexAny(host, "/?"); n >= 0 {
				host, path = host[:n], host[n:]
			}
		} else {
			path = ""
		}
	}
	switch {
	case host == "":
	case addressAt(host) == len(host):
		p.hole(address)
	default:
		for i := range len(host) {
			if c := host[i]; !letter(c) && !digit(c) && strings.IndexByte(".-_:#‹›*[]%", c) < 0 && c < 0x80 {
				p.text(quote)
				return
			}
		}
		p.names(host)
	}
	p.urlPath(path)
}

func isPort(s string) bool { return s == "" || s == "#" || digits(s) }

// addressAt returns the length of the network address, with its port, at the beginning of a text; 0
// if there is none.
func addressAt(s string) int {
	n := 0
	switch {
	case s == "":
		return 0
	case s[0] == '[':
		end := strings.IndexByte(s, ']')
		if end < 3 || end > 60 || !isIPv6(s[1:end]) {
			return 0
		}
		n = end + 1
	case !hexDigit(s[0]) && s[0] != ':':
		return 0
	default:
		if n = ipv4At(s); n == 0 {
			if isIPv6(s) && strings.ContainsAny(s, "0123456789abcdef") {
				return len(s)
			}
			return 0
		}
	}
	if rest := s[n:]; strings.HasPrefix(rest, ":") {
		port := 1
		for port < len(rest) && digit(rest[port]) {
			port++
		}
		if port > 1 {
			n += port
		}
	}
	return n
}

func ipv4At(s string) int {
	n, dots, octet := 0, 0, 0
	for ; n < len(s) && (s[n] == '.' || digit(s[n])); n++ {
		if s[n] != '.' {
			octet++
			continue
		}
		if octet == 0 || octet > 3 {
			return 0
		}
		dots++
		octet = 0
	}
	if dots != 3 || octet == 0 || octet > 3 {
		return 0
	}
	return n
}

func isIPv6(s string) bool {
	s, _, _ = strings.Cut(s, "%")
	return len(s) <= 45 && strings.Count(s, ":") >= 2 && strings.Trim(s, "0123456789abcdefABCDEF:.") == "" &&
		(strings.Contains(s, "::") || strings.Count(s, ":") == 7)
}

const (
	// maxSegments bounds the segments of a path, maxSegment the bytes of one that is not variable.
	maxSegments = 8
	maxSegment  = 40
)

// urlPath writes the path of a URL with placeholders for its variable segments.
func (p *printer) urlPath(path string) {
	path, _, _ = strings.Cut(path, "?")
	for n := 0; path != ""; n++ {
		segment, rest, more := strings.Cut(path, "/")
		if n > maxSegments {
			p.text("…")
			return
		}
		p.segment(segment)
		if more {
			p.text("/")
		}
		path = rest
	}
}

func (p *printer) segment(s string) {
	switch {
	case s == "":
	case holeAt(s) == len(s):
		p.text(s)
	case isUUID(s):
		p.hole(id)
	case isTime(s):
		p.hole(moment)
	case len(s) >= minHex && digits(s):
		p.hole(id)
	case isNumber(s):
		p.number()
	case addressAt(s) == len(s):
		p.hole(address)
	case len(s) > maxSegment || strings.ContainsAny(s, "@%=$+!*~") || !wordy(s):
		p.hole(id)
	default:
		p.names(s)
	}
}

// wordy reports whether a segment has only characters that are part of words.
func wordy(s string) bool {
	for _, r := range s {
		if !wordRune(r) && r != '‹' && r != '›' {
			return false
		}
	}
	return true
}
