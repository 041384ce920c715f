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

// request is what Wrap has found out about a request.
type request struct {
	guard    *Guard
	id       string
	api      bool // by its path, of a program rather than a browser
	user     User
	via      string // how the user is known
	loggedIn bool
	stranger string // why nobody is let in from there; only if the user has no role
	remote   string
}

// of is what Wrap has found out; if it has not seen the request, nothing: no name and no role.
func of(ctx context.Context) *request {
	if q, ok := ctx.Value(requestKey{}).(*request); ok {
		return q
	}
	return &request{stranger: "it did not pass the access check"}
}

func withRequest(ctx context.Context, q *request) context.Context {
	return context.WithValue(ctx, requestKey{}, q)
}

// UserFrom is the user of the request with this context. It has no name if nobody has logged in, and no role if nothing is allowed.
func UserFrom(ctx context.Context) User { return of(ctx).user }

// RequestID is what log lines and errors call the request with this context.
func RequestID(ctx context.Context) string { return of(ctx).id }

// WithUser says who the user is, for a program that has its own login: its middleware calls it before the web UI gets the request. It
// goes before all other ways of telling. A user whose Role is None is refused.
func WithUser(ctx context.Context, u User) context.Context {
	u.Password = ""
	if !u.Role.valid() {
		u.Role = None
	}
	return context.WithValue(ctx, givenKey{}, u)
}

// identify finds out who the user is. A refusal says that who they say they are is wrong; that they may do nothing is up to check.
func (g *Guard) identify(r *http.Request, q *request) *Refusal {
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
			return g.challenge("The Authorization header cannot be read.")
		}
	}
	q.via = "anonymous"
	configured := g.passwords != nil || g.proxy != nil
	switch {
	case g.cfg.Anonymous != None:
		q.user.Role = g.cfg.Anonymous
	case configured && g.proxy != nil && g.proxy.UserHeader != "" && !g.proxy.trusts(r):
		q.stranger = "it did not come through the proxy that says who the user is"
	case configured:
		q.stranger = "it says of no user"
	case g.cfg.Authorize != nil:
		q.user.Role, q.via = Admin, "authorize"
	default:
		if q.stranger = notLocal(r); q.stranger == "" {
			q.user.Role, q.via = Admin, "local"
		}
	}
	return nil
}

// login looks at a name and a password.
func (g *Guard) login(r *http.Request, q *request, name, password string) *Refusal {
	addr, _ := g.proxy.client(r)
	if addr.Is6() { // who has one of them has the whole network
		p, _ := addr.Prefix(64)
		addr = p.Addr()
	}
	u, err := g.passwords.check(r.Context(), addr, name, password)
	var many *tooMany
	switch {
	case err == nil:
		q.user, q.via, q.loggedIn = u, "password", true
		return nil
	case errors.As(err, &many):
		g.logLogin(r, q, name, err)
		return &Refusal{Status: http.StatusTooManyRequests, retry: many.wait,
			Detail: "Too many wrong passwords came from this address. Wait before the next one."}
	case errors.Is(err, errWrongPassword):
		g.logLogin(r, q, name, err)
		return g.challenge("The name or the password is wrong.")
	default:
		return &Refusal{Status: http.StatusServiceUnavailable, Detail: "The password could not be checked in time."}
	}
}

// requestID takes that of the caller if it is a sane one, since logs of a proxy then tell of the same request.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
	}) {
		return rand.Text()
	}
	return id
}

// remote is the client for log lines.
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
