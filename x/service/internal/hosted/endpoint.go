package hosted

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// HTTP is what holds for all endpoints.
type HTTP struct {
	// AllowHosts are the hosts that requests may go to, redirects included: "api.example.com" for the usual ports, "api.example.com:8443",
	// "*.example.com" for all hosts below. Nil: the hosts of the endpoints, each with its port.
	AllowHosts []string

	// AllowNetworks are networks that are private, of this host, or otherwise not public, and may be connected to all the same.
	AllowNetworks []netip.Prefix

	// CAFile is a PEM file of authorities to trust in place of the system's.
	CAFile string

	resolver *net.Resolver // nil: the system's
}

// Endpoint is what tasks of one type are posted to.
type Endpoint struct {
	Queue string // of the tasks; empty: the type

	// URL that gets the payload as the body of a POST.
	URL string

	// Secrets that requests are signed with, each of at least 16 bytes: one signature for each, so that a new one can be introduced.
	Secrets []string

	// Headers of each request.
	Headers map[string]string

	// Timeout of one request, its redirects and its answer included. Default: 30 s.
	Timeout time.Duration

	// MaxResponse is how many bytes of an answer are kept as the result. Default: 64 KiB.
	MaxResponse int

	// MaxRedirects is how many redirects are followed. Only 307 and 308 are. Default: none.
	MaxRedirects int

	// RetryClientErrors has tasks tried again that were answered with a 4xx, other than 408, 425 and 429, after which they are anyway.
	// Otherwise they are archived.
	RetryClientErrors bool

	// SnoozeWhenBusy lets the attempt not count after a 429 or 503 with a Retry-After.
	SnoozeWhenBusy bool

	// MaxRetryAfter is the longest Retry-After that is honoured: a longer one counts as that. Default: 1 h.
	MaxRetryAfter time.Duration
}

const (
	minSecret       = 16
	maxMaxResponse  = 8 << 20
	maxMaxRedirects = 10
)

// Check tells all that is wrong.
func (h *HTTP) Check() []Problem {
	var p problems
	for i, host := range h.AllowHosts {
		if !hostPattern.MatchString(host) {
			p.add(index("allow_hosts", i), "%q is no host: write host, host:port, or *.domain", host)
		}
	}
	return p
}

var hostPattern = regexp.MustCompile(`^(?:(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$`)

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// headersOfOurs are set by the service, or by the protocol.
var headersOfOurs = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "Idempotency-Key",
	"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature",
}

// Check tells all that is wrong.
func (e *Endpoint) Check() []Problem {
	var p problems
	switch u, err := url.Parse(e.URL); {
	case e.URL == "":
		p.add("url", "it is missing: say where to post the tasks to")
	case err != nil:
		p.add("url", "it is no URL: write https://host/path")
	case u.Scheme != "https" && u.Scheme != "http":
		p.add("url", "its scheme is %q: it must be https, or http", u.Scheme)
	case u.Hostname() == "" || !hostPattern.MatchString(u.Host) || strings.Contains(u.Host, "*"):
		p.add("url", "it names no host: write https://host/path")
	case u.User != nil:
		p.add("url", "it holds a user: send an Authorization header by headers")
	case u.Fragment != "":
		p.add("url", "it has a fragment, which no server sees: leave out the # and what follows it")
	}
	for i, secret := range e.Secrets {
		key, err := signingKey(secret)
		field := "secret"
		if len(e.Secrets) > 1 {
			field = index("secret", i)
		}
		switch {
		case err != nil:
			p.add(field, "after %s it must be Base64: leave the prefix out if the secret is plain text", secretPrefix)
		case len(key) < minSecret:
			p.add(field, "it is shorter than %d bytes: make one with openssl rand -hex 24", minSecret)
		}
	}
	for name, value := range e.Headers {
		switch canonical := http.CanonicalHeaderKey(name); {
		case !headerName.MatchString(name):
			p.add("headers", "%q is no name of a header", name)
		case slices.Contains(headersOfOurs, canonical) || strings.HasPrefix(canonical, "Asynq-"):
			p.add("headers", "%s is set by the service: leave it out", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			p.add("headers", "the value of %s has characters that no header takes", name)
		}
	}
	if e.Timeout < 0 {
		p.add("timeout", "it is less than zero")
	}
	if e.MaxResponse < 0 || e.MaxResponse > maxMaxResponse {
		p.add("max_response", "it must be from 0 to 8MiB")
	}
	if e.MaxRedirects < 0 || e.MaxRedirects > maxMaxRedirects {
		p.add("max_redirects", "it must be from 0 to %d", maxMaxRedirects)
	}
	if e.MaxRetryAfter < 0 {
		p.add("max_retry_after", "it is less than zero")
	}
	return p
}

// hostPort is what a URL leads to, in lower case and with its port.
func hostPort(u *url.URL) (host, port string) {
	host, port = strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return host, port
}

// Admits reports whether requests may go to a URL: its host is in AllowHosts, with this port.
func (h *HTTP) Admits(u *url.URL) bool {
	host, port := hostPort(u)
	if strings.Contains(host, "%") {
		return false // an address with a zone, which could end like a name
	}
	for _, pattern := range h.AllowHosts {
		// A pattern is parsed as a URL of the same scheme, so that the usual port is the scheme's.
		want, wantPort := hostPort(&url.URL{Scheme: u.Scheme, Host: pattern})
		if wantPort != port {
			continue
		}
		if below, ok := strings.CutPrefix(want, "*"); ok && strings.HasSuffix(host, below) && len(host) > len(below) || host == want {
			return true
		}
	}
	return false
}
