package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultMaxBody is how long the body of a request may be, in bytes, where Config says nothing.
const DefaultMaxBody = 8 << 20

// Config is what a Guard goes by. The zero Config lets in only requests from the same machine, as Admin.
type Config struct {
	// Users may log in with a name and a password (HTTP basic authentication, so let it go over TLS).
	Users []User

	// Proxy stands in front of the web UI and says who the user is. Nil: no header about users is believed.
	Proxy *Proxy

	// Anonymous is the role of those who have not logged in, from wherever they come. None: they are refused. A role above Viewer
	// lets anybody who reaches the port, and any web page that a visitor's browser can be brought to it with, change tasks.
	Anonymous Role

	// ReadOnly refuses every change, to all roles.
	ReadOnly bool

	// Authorize is asked last, about every action that the user's role includes, and refuses it with an error, whose text the user
	// is told (status 403; 401 if it wraps ErrUnauthenticated). UserFrom(r.Context()) is the user. If there are no Users, no Proxy
	// and no Anonymous role, it is asked about everything and everybody. It is called by many goroutines.
	Authorize func(*http.Request, Action) error

	// Origins such as "https://tools.example.com", without a path, whose pages may read and change by script, with the
	// user's credentials. Empty: pages of no other origin.
	Origins []string

	// MaxBody is the length of the longest body of a request, in bytes. Zero: DefaultMaxBody.
	MaxBody int64

	// Logger gets the audit log: every change at Info, refused ones at Warn. Nil: slog.Default().
	Logger *slog.Logger

	// RootPath is where the web UI is mounted, such as "/queues", with no slash at its end. Wrap sees paths that begin with it.
	RootPath string

	// Static is the path below RootPath of files that may be cached. Empty: "/static/".
	Static string

	// Realm is what a browser shows when it asks for a password. Empty: "asynq".
	Realm string

	// Page renders errors in the layout of the pages, for users who may view them. It writes the status too. Nil: plain ones.
	Page func(w http.ResponseWriter, r *http.Request, status int, title, detail string)
}

// User is somebody who may log in, and whom a request is from (see UserFrom).
type User struct {
	Name string // empty: not logged in

	// Password is a bcrypt hash ("$2a$…", "$2b$…" or "$2y$…", as htpasswd -B writes it), or the password itself. It is empty in
	// what UserFrom gives.
	Password string

	Role Role
}

// String tells the name and the role, never the password.
func (u User) String() string { return fmt.Sprintf("%s (%s)", u.Name, u.Role) }

// GoString tells what String does, so that no %#v of options tells a password.
func (u User) GoString() string { return fmt.Sprintf("access.User{%q, %s}", u.Name, u.Role) }

// LogValue tells the name and the role, never the password.
func (u User) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", u.Name), slog.String("role", u.Role.String()))
}

// Proxy describes a reverse proxy that has asked the user who they are, and tells that in headers. The proxy must remove these
// headers from what it gets from browsers. Every program that connects from the proxy's addresses is believed, too.
type Proxy struct {
	// From is where the proxy's connections come from: networks ("10.1.0.0/16"), addresses ("127.0.0.1"), or "unix" for all that
	// come by a Unix socket. Its headers are taken off requests from anywhere else. Required.
	From []string

	// UserHeader has the user's name, such as "X-Forwarded-User" or "Remote-User". Empty: the proxy tells only, by
	// X-Forwarded-For, the addresses of browsers; these are then what wrong passwords are counted by.
	UserHeader string

	// RoleHeader has the user's role by its name. A name that is none of a role gives None.
	RoleHeader string

	// GroupsHeader has the user's groups, separated by commas, and Groups the role of each. The highest counts. A role by
	// RoleHeader goes before it.
	GroupsHeader string
	Groups       map[string]Role

	// Role is that of users to whom no header gives one.
	Role Role
}

func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !c.Anonymous.valid() {
		bad("Anonymous is no role: %d", int(c.Anonymous))
	}
	if c.MaxBody < 0 {
		bad("MaxBody is negative: %d", c.MaxBody)
	}
	if c.RootPath != "" && (!strings.HasPrefix(c.RootPath, "/") || strings.HasSuffix(c.RootPath, "/")) {
		bad("RootPath %q must begin with a slash, and not end with one", c.RootPath)
	}
	if c.Static != "" && (!strings.HasPrefix(c.Static, "/") || !strings.HasSuffix(c.Static, "/") || c.Static == "/") {
		bad("Static %q must be a path between slashes", c.Static)
	}
	if strings.ContainsFunc(c.Realm, unicode.IsControl) {
		bad("Realm %q has control characters", c.Realm)
	}
	names := map[string]bool{}
	for i := range c.Users {
		u := &c.Users[i]
		if err := u.check(); err != nil {
			errs = append(errs, err)
		}
		if names[u.Name] {
			bad("there are two users with the name %q", u.Name)
		}
		names[u.Name] = true
	}
	return errors.Join(errs...)
}

func (u *User) check() error {
	switch {
	case u.Name == "":
		return errors.New("a user has no name")
	case strings.Contains(u.Name, ":"):
		return fmt.Errorf("the name of user %q has a colon, which basic authentication cannot carry", u.Name)
	case !printable(u.Name):
		return fmt.Errorf("the name of user %q must be text without control characters, of at most %d bytes", clip(u.Name, 64), maxName)
	case u.Password == "":
		return fmt.Errorf("user %q has no password", u.Name)
	case u.Role == None || !u.Role.valid():
		return fmt.Errorf("user %q has no role: give it Viewer, Operator or Admin", u.Name)
	}
	return checkPassword(u)
}

// proxy is a Proxy that has been read.
type proxy struct {
	Proxy
	nets []netip.Prefix
	unix bool
}

func newProxy(p *Proxy) (*proxy, error) {
	if p == nil {
		return nil, nil
	}
	out := &proxy{Proxy: *p}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("Proxy: "+format, args...)) }
	if len(p.From) == 0 {
		bad(`From is empty: say which addresses the proxy connects from, such as "127.0.0.1"`)
	}
	for _, from := range p.From {
		if from == "unix" {
			out.unix = true
			continue
		}
		if addr, err := netip.ParseAddr(from); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			out.nets = append(out.nets, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		n, err := netip.ParsePrefix(from)
		if err != nil || n.Addr().Is4In6() {
			bad(`From: %q is no network, address or "unix"`, from)
			continue
		}
		out.nets = append(out.nets, n.Masked())
	}
	for _, h := range []string{p.UserHeader, p.RoleHeader, p.GroupsHeader} {
		if h != "" && !isToken(h) {
			bad("%q is no name of a header", h)
		}
	}
	for group, role := range p.Groups {
		if !role.valid() {
			bad("group %q has no role: %d", group, int(role))
		}
	}
	roles := p.RoleHeader != "" || p.GroupsHeader != "" || p.Role != None
	switch {
	case !p.Role.valid():
		bad("Role is no role: %d", int(p.Role))
	case p.UserHeader == "" && roles:
		bad("there are roles but no UserHeader")
	case p.UserHeader != "" && !roles:
		bad("nobody would have a role: set Role, RoleHeader, or GroupsHeader and Groups")
	case (p.GroupsHeader == "") != (len(p.Groups) == 0):
		bad("GroupsHeader and Groups go together")
	}
	return out, errors.Join(errs...)
}

// origin brings an origin into the form in which browsers send it.
func origin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Contains(u.Host, "*") ||
		u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#") {
		return "", fmt.Errorf(`origin %q must be exactly a scheme, a host and perhaps a port, such as "https://tools.example.com"`, s)
	}
	host := strings.ToLower(u.Host)
	for scheme, port := range map[string]string{"http": ":80", "https": ":443"} {
		if u.Scheme == scheme {
			host = strings.TrimSuffix(host, port)
		}
	}
	return u.Scheme + "://" + host, nil
}

const maxName = 256

func printable(s string) bool {
	return utf8.ValidString(s) && len(s) <= maxName && !strings.ContainsFunc(s, unicode.IsControl)
}

// isToken says whether s is a token of RFC 9110, of which the names of headers are made.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !slices.Contains([]rune("!#$%&'*+-.^_`|~"), c)
	})
}

// clip shortens s to n bytes or a little less, at the end of a character, for log lines and messages.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
