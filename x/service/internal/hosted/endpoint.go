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

// HTTP holds the settings of all endpoints.
type HTTP struct {
	// AllowHosts lists the hosts that requests and redirects may go to: "api.example.com" on the
	// default ports, "api.example.com:8443", or "*.example.com" for all subdomains. If nil, the
	// hosts and ports of the endpoints are allowed.
	AllowHosts []string

	// AllowNetworks lists private, local or otherwise non-public networks that may be connected to.
	AllowNetworks []netip.Prefix

	// CAFile is a PEM file with certificate authorities that replace those of the system.
	CAFile string

	resolver *net.Resolver // nil means the system's
}

// Endpoint configures where tasks of one type are posted to.
type Endpoint struct {
	Queue string // queue of the tasks; the type if empty

	// URL receives the payload as the body of a POST request.
	URL string

	// Secrets sign the requests, each at least 16 bytes: one signature per secret, so that secrets
	// can be rotated.
	Secrets []string

	// Headers are added to each request.
	Headers map[string]string

	// Timeout of one request, including redirects and the response. The default is 30 seconds.
	Timeout time.Duration

	// MaxResponse is the size of the stored result in bytes; the rest of a response is discarded.
	// The default is 64 KiB.
	MaxResponse int

	// MaxRedirects is the maximum number of redirects. Only 307 and 308 are followed. The default
	// is 0.
	MaxRedirects int

	// RetryClientErrors retries tasks after a 4xx response. Otherwise they are archived, except
	// after 408, 425 and 429, which are always retried.
	RetryClientErrors bool

	// SnoozeWhenBusy does not count the attempt after a 429 or 503 with Retry-After.
	SnoozeWhenBusy bool

	// MaxRetryAfter limits Retry-After. The default is one hour.
	MaxRetryAfter time.Duration
}

const (
	minSecret       = 16
	maxMaxResponse  = 8 << 20
	maxMaxRedirects = 10
)

// Check returns all problems of the configuration.
func (h *HTTP) Check() []Problem {
	var p problems
	for i, host := range h.AllowHosts {
		if !hostPattern.MatchString(host) {
			p.add(index("allow_hosts", i), "%q is not a host: use host, host:port or *.domain", host)
		}
	}
	return p
}

var hostPattern = regexp.MustCompile(`^(?:(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$`)

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// reservedHeaders are reserved for the service and the protocol.
var reservedHeaders = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "Idempotency-Key",
	"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature",
}

// Check returns all problems of the configuration.
func (e *Endpoint) Check() []Problem {
	var p problems
	switch u, err := url.Parse(e.URL); {
	case e.URL == "":
		p.add("url", "the URL is missing: set it to the address that receives the tasks")
	case err != nil:
		p.add("url", "not a URL: use https://host/path")
	case u.Scheme != "https" && u.Scheme != "http":
		p.add("url", "the scheme %q is not supported: use https or http", u.Scheme)
	case u.Hostname() == "" || !hostPattern.MatchString(u.Host) || strings.Contains(u.Host, "*"):
		p.add("url", "the host is missing or invalid: use https://host/path")
	case u.User != nil:
		p.add("url", "must not contain a user: set an Authorization header under headers")
	case u.Fragment != "":
		p.add("url", "must not have a fragment: remove # and the rest")
	}
	for i, secret := range e.Secrets {
		key, err := signingKey(secret)
		field := "secret"
		if len(e.Secrets) > 1 {
			field = index("secret", i)
		}
		switch {
		case err != nil:
			p.add(field, "must be Base64 after %s: remove the prefix if the secret is plain text", secretPrefix)
		case len(key) < minSecret:
			p.add(field, "shorter than %d bytes: create one with openssl rand -hex 24", minSecret)
		}
	}
	for name, value := range e.Headers {
		switch canonical := http.CanonicalHeaderKey(name); {
		case !headerName.MatchString(name):
			p.add("headers", "%q is not a valid header name", name)
		case slices.Contains(reservedHeaders, canonical) || strings.HasPrefix(canonical, "Asynq-"):
			p.add("headers", "%s is set by the service: remove it", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			p.add("headers", "the value of %s contains control characters", name)
		}
	}
	if e.Timeout < 0 {
		p.add("timeout", "must not be negative")
	}
	if e.MaxResponse < 0 || e.MaxResponse > maxMaxResponse {
		p.add("max_response", "must be from 0 to 8MiB")
	}
	if e.MaxRedirects < 0 || e.MaxRedirects > maxMaxRedirects {
		p.add("max_redirects", "must be from 0 to %d", maxMaxRedirects)
	}
	if e.MaxRetryAfter < 0 {
		p.add("max_retry_after", "must not be negative")
	}
	return p
}

// hostPort returns the host of a URL in lower case, and its port or the default of its scheme.
func hostPort(u *url.URL) (host, port string) {
	host, port = strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return host, port
}

// AllowsURL reports whether AllowHosts permits a URL.
func (h *HTTP) AllowsURL(u *url.URL) bool {
	host, port := hostPort(u)
	if strings.Contains(host, "%") {
		return false // an address with a zone, whose end may look like a name
	}
	for _, pattern := range h.AllowHosts {
		// Parse the pattern as a URL of the same scheme to get the default port.
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
