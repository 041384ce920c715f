package access

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/netip"
	"strings"
)

type (
	requestKey struct{}
	givenKey   struct{}
)

// request is the information that Wrap adds to a request.
type request struct {
	guard    *Guard
	id       string
	api      bool // the path is that of an API
	user     User
	via      string // how the user was identified
	loggedIn bool
	session  *session // nil: not logged in on the login page
	stranger string   // why the request has no role; empty if it has one
	remote   string
}

// of returns the information of Wrap, or the zero value without Wrap: no name and no role.
func of(ctx context.Context) *request {
	if q, ok := ctx.Value(requestKey{}).(*request); ok {
		return q
	}
	return &request{stranger: "it did not pass the access check"}
}

func withRequest(ctx context.Context, q *request) context.Context {
	return context.WithValue(ctx, requestKey{}, q)
}

// UserFrom returns the user of the request with this context. The name is empty if no user is
// logged in. The role is None if the user has no permissions.
func UserFrom(ctx context.Context) User { return of(ctx).user }

// RequestID returns the ID of the request with this context in log lines and errors.
func RequestID(ctx context.Context) string { return of(ctx).id }

// WithUser sets the user of a request, for programs with their own login. Their middleware must
// call it before the web UI receives the request. It takes precedence over all other ways to
// identify users. A user with the Role None is refused.
func WithUser(ctx context.Context, u User) context.Context {
	u.Password = ""
	if !u.Role.valid() {
		u.Role = None
	}
	return context.WithValue(ctx, givenKey{}, u)
}

// identify determines the user of a request. It returns a refusal if the credentials are invalid;
// check determines whether the user has permissions.
func (g *Guard) identify(w http.ResponseWriter, r *http.Request, q *request) *Refusal {
	if u, ok := r.Context().Value(givenKey{}).(User); ok {
		q.user, q.via, q.loggedIn = u, "program", true
		return nil
	}
	if g.proxy.trusts(r) {
		u, refusal := g.proxy.user(r)
		if refusal != nil {
			return refusal
		}
		if u.Name != "" {
			q.user, q.via, q.loggedIn = u, "proxy", true
			return nil
		}
	}
	if g.passwords != nil {
		name, password, ok := r.BasicAuth()
		if ok {
			return g.login(r, q, name, password)
		}
		if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Basic") {
			return g.challenge("The Authorization header is invalid.")
		}
	}
	if s := g.session(r); s != nil {
		q.user, q.via, q.loggedIn, q.session = g.current(s), s.via, true, s
		return nil
	}
	q.via = "anonymous"
	configured := g.canLogIn() || g.proxy != nil
	switch {
	case g.cfg.Anonymous != None:
		q.user.Role = g.cfg.Anonymous
	case configured && g.proxy != nil && g.proxy.UserHeader != "" && !g.proxy.trusts(r):
		q.stranger = "it did not come from the trusted proxy"
	case configured:
		q.stranger = "it does not name a user"
	case g.cfg.Authorize != nil:
		q.user.Role, q.via = Admin, "authorize"
	default:
		if q.stranger = notLocal(r); q.stranger == "" {
			return g.local(w, r, q)
		}
	}
	return nil
}

// login checks a name and a password.
func (g *Guard) login(r *http.Request, q *request, name, password string) *Refusal {
	u, err := g.passwords.check(r.Context(), g.throttled(r), name, password)
	var many *tooMany
	switch {
	case err == nil:
		q.user, q.via, q.loggedIn = u, "password", true
		return nil
	case errors.As(err, &many):
		g.logLogin(r, q, name, err)
		return &Refusal{Status: http.StatusTooManyRequests, retry: many.wait,
			Detail: "Too many wrong passwords from this address. Try again later."}
	case errors.Is(err, errWrongPassword):
		g.logLogin(r, q, name, err)
		return g.challenge(wrongPassword)
	default:
		return &Refusal{Status: http.StatusServiceUnavailable, Detail: "The password could not be checked in time."}
	}
}

const wrongPassword = "Wrong user name or password."

// throttled returns the address by which failed logins are counted.
func (g *Guard) throttled(r *http.Request) netip.Addr {
	addr, _ := g.proxy.client(r)
	if addr.Is6() { // an IPv6 user usually controls a whole /64 network
		p, _ := addr.Prefix(64)
		addr = p.Addr()
	}
	return addr
}

// requestID returns the caller's request ID if it is valid, so that the logs of a proxy have the
// same one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
	}) {
		return rand.Text()
	}
	return id
}

// remote returns the client's address for log lines.
func (g *Guard) remote(r *http.Request) string {
	addr, ok := g.proxy.client(r)
	if !ok {
		addr = netip.Addr{}
		if overUnix(r) {
			return "unix"
		}
		return clip(r.RemoteAddr, 64)
	}
	return addr.String()
}
