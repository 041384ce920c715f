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
	"time"
	"unicode"
	"unicode/utf8"
)

// DefaultMaxBody is the default limit of a request body, in bytes.
const DefaultMaxBody = 8 << 20

// Config configures a Guard. The zero Config admits only requests from the same machine: as Viewer,
// or as Admin after signing in (see Guard.SignInPath).
type Config struct {
	// Users can log in with a name and a password, on the login page or by HTTP basic
	// authentication. Both transmit passwords, so use TLS.
	Users []User

	// Provider is a site where users log in, such as an OpenID Connect provider. The login page
	// links to it. If nil, users log in with passwords only.
	Provider LoginProvider

	// SessionIdle is how long a browser stays logged in without a request, and SessionMax how long
	// it stays logged in altogether. The defaults are DefaultSessionIdle and DefaultSessionMax.
	SessionIdle, SessionMax time.Duration

	// Proxy is a reverse proxy that authenticates users. If nil, headers with users are ignored.
	Proxy *Proxy

	// Anonymous is the role of users who have not logged in, from any address. None: they are
	// refused. A role above Viewer lets everyone who can reach the port change tasks, including web
	// pages in a visitor's browser.
	Anonymous Role

	// AuditFile is a file to which the events of the audit log are appended as lines of JSON. New
	// reads the last ones. If empty, the audit page shows the events since the start.
	AuditFile string

	// Token grants requests from the same machine the role Admin: scripts send it as
	// "Authorization: Bearer", browsers in a sign-in link. It can be used any number of times. It
	// must have at least MinToken bytes, and cannot be combined with Users, Provider, Proxy,
	// Anonymous or Authorize. If empty, only the links of SignInPath sign in.
	Token string

	// ReadOnly refuses all changes, for all roles.
	ReadOnly bool

	// Authorize is called for each action that the user's role includes, and refuses the action by
	// returning an error. The user sees the text of the error; the status is 403, or 401 if the
	// error wraps ErrUnauthenticated. UserFrom(r.Context()) returns the user. Without Users, Proxy
	// and Anonymous, Authorize is called for all actions of all users. It must be safe for
	// concurrent use.
	Authorize func(*http.Request, Action) error

	// Origins are origins such as "https://tools.example.com", without a path. Scripts of their
	// pages may send requests with the user's credentials. If empty, no other origins are allowed.
	Origins []string

	// MaxBody is the limit of a request body, in bytes. The default is DefaultMaxBody.
	MaxBody int64

	// Logger receives the audit log: changes at level Info, refused ones at Warn. If nil,
	// slog.Default() is used.
	Logger *slog.Logger

	// RootPath is the path of the web UI, such as "/queues", without a trailing slash. Wrap
	// receives paths that start with it.
	RootPath string

	// Static is the path of cacheable files below RootPath. The default is "/static/".
	Static string

	// Realm is shown by browsers in the password dialog. The default is "asynq".
	Realm string

	// Page renders errors in the layout of the pages, including the status, for users who may view
	// them. If nil, errors are plain pages.
	Page func(w http.ResponseWriter, r *http.Request, status int, title, detail string)
}

// User is a user who can log in, or the user of a request (see UserFrom).
type User struct {
	Name string // empty: not logged in

	// Password is a bcrypt hash ("$2a$…", "$2b$…" or "$2y$…", as written by htpasswd -B) or a plain
	// password. UserFrom returns it empty.
	Password string

	Role Role
}

// String returns the name and the role, never the password.
func (u User) String() string { return fmt.Sprintf("%s (%s)", u.Name, u.Role) }

// GoString returns the same as String, so that printing options with %#v does not reveal passwords.
func (u User) GoString() string { return fmt.Sprintf("access.User{%q, %s}", u.Name, u.Role) }

// LogValue returns the name and the role, never the password.
func (u User) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", u.Name), slog.String("role", u.Role.String()))
}

// Proxy configures a reverse proxy that authenticates users and passes them on in headers. The
// proxy must remove these headers from incoming requests. All programs that connect from the
// proxy's addresses are trusted as well.
type Proxy struct {
	// From lists the addresses of the proxy: networks ("10.1.0.0/16"), addresses ("127.0.0.1"), or
	// "unix" for all Unix socket connections. The headers are removed from requests from all other
	// addresses. Required.
	From []string

	// UserHeader is the header with the user's name, such as "X-Forwarded-User" or "Remote-User".
	// If empty, the proxy only provides the addresses of browsers (X-Forwarded-For), by which wrong
	// passwords are counted.
	UserHeader string

	// RoleHeader is the header with the name of the user's role. An unknown name means None.
	RoleHeader string

	// GroupsHeader is the header with the user's groups, separated by commas. Groups maps them to
	// roles; the highest role applies. RoleHeader takes precedence.
	GroupsHeader string
	Groups       map[string]Role

	// Role is the role of users without a role in a header.
	Role Role
}

// configured reports whether users, a proxy or roles are configured, so that local requests have no
// special rights.
func (c *Config) configured() bool {
	return len(c.Users) > 0 || c.Provider != nil || c.Proxy != nil || c.Anonymous != None || c.Authorize != nil
}

func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !c.Anonymous.valid() {
		bad("Anonymous is not a role: %d", int(c.Anonymous))
	}
	if c.MaxBody < 0 {
		bad("MaxBody is negative: %d", c.MaxBody)
	}
	if c.RootPath != "" && (!strings.HasPrefix(c.RootPath, "/") || strings.HasSuffix(c.RootPath, "/")) {
		bad("RootPath %q must begin with a slash and not end with one", c.RootPath)
	}
	if c.Static != "" && (!strings.HasPrefix(c.Static, "/") || !strings.HasSuffix(c.Static, "/") || c.Static == "/") {
		bad("Static %q must begin and end with a slash", c.Static)
	}
	switch {
	case c.Token == "":
	case c.configured():
		bad("Token cannot be combined with Users, Provider, Proxy, Anonymous or Authorize")
	case len(c.Token) < MinToken || strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		bad("Token must have at least %d characters of printable ASCII without spaces", MinToken) // the token is a secret and must not be in the error
	}
	if c.SessionIdle < 0 || c.SessionMax < 0 {
		bad("SessionIdle and SessionMax must not be negative: %v, %v", c.SessionIdle, c.SessionMax)
	}
	if strings.ContainsFunc(c.Realm, unicode.IsControl) {
		bad("Realm %q has control characters", c.Realm)
	}
	return errors.Join(append(errs, checkUsers(c.Users))...)
}

// checkUsers returns all errors of the users.
func checkUsers(users []User) error {
	var errs []error
	names := map[string]bool{}
	for i := range users {
		u := &users[i]
		if err := u.check(); err != nil {
			errs = append(errs, err)
		}
		if names[u.Name] {
			errs = append(errs, fmt.Errorf("duplicate user name %q", u.Name))
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
		return fmt.Errorf("the name of user %q has a colon, which basic authentication does not support", u.Name)
	case !printable(u.Name):
		return fmt.Errorf("the name of user %q must be at most %d bytes of text without control characters", clip(u.Name, 64), maxName)
	case u.Password == "":
		return fmt.Errorf("user %q has no password", u.Name)
	case u.Role == None || !u.Role.valid():
		return fmt.Errorf("user %q has no role: set Viewer, Operator or Admin", u.Name)
	}
	return checkPassword(u)
}

// proxy is a parsed Proxy.
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
		bad(`From is empty: set the addresses that the proxy connects from, such as "127.0.0.1"`)
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
			bad(`From: %q is not a network, an address or "unix"`, from)
			continue
		}
		out.nets = append(out.nets, n.Masked())
	}
	for _, h := range []string{p.UserHeader, p.RoleHeader, p.GroupsHeader} {
		if h != "" && !isToken(h) {
			bad("%q is not a valid header name", h)
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
		bad("Role is not a role: %d", int(p.Role))
	case p.UserHeader == "" && roles:
		bad("roles require UserHeader")
	case p.UserHeader != "" && !roles:
		bad("no user would have a role: set Role, RoleHeader, or GroupsHeader and Groups")
	case (p.GroupsHeader == "") != (len(p.Groups) == 0):
		bad("GroupsHeader and Groups must be set together")
	}
	return out, errors.Join(errs...)
}

// origin returns an origin in the form that browsers send.
func origin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Contains(u.Host, "*") ||
		u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#") {
		return "", fmt.Errorf(`origin %q must be a scheme, a host and an optional port, such as "https://tools.example.com"`, s)
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

// isToken reports whether s is a token of RFC 9110, which header names must be.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !slices.Contains([]rune("!#$%&'*+-.^_`|~"), c)
	})
}

// clip shortens s to at most n bytes at a character boundary, for log lines and messages.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
