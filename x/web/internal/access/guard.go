package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
)

// ErrUnauthenticated says that the user must log in first: an Authorize hook returns it, or wraps it, to have the request answered with
// status 401 rather than 403.
var ErrUnauthenticated = errors.New("log in first")

// Guard stands before all handlers. Make one with New.
type Guard struct {
	cfg       Config
	log       *slog.Logger
	proxy     *proxy
	passwords *passwords // nil without Users
	origins   map[string]bool
	cross     *http.CrossOriginProtection
}

// New makes a Guard, or says all that is wrong with the configuration.
func New(cfg Config) (*Guard, error) {
	g := &Guard{cfg: cfg, log: cfg.Logger, origins: map[string]bool{}, cross: http.NewCrossOriginProtection()}
	errs := []error{g.cfg.check()}
	var err error
	g.proxy, err = newProxy(cfg.Proxy)
	errs = append(errs, err)
	for _, s := range cfg.Origins {
		o, err := origin(s)
		if err == nil {
			err = g.cross.AddTrustedOrigin(o)
		}
		errs = append(errs, err)
		g.origins[o] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(cfg.Users) > 0 {
		g.passwords = newPasswords(cfg.Users)
	}
	g.cfg.Users = nil // nothing here needs the passwords any more
	if g.log == nil {
		g.log = slog.Default()
	}
	if cfg.MaxBody == 0 {
		g.cfg.MaxBody = DefaultMaxBody
	}
	if cfg.Static == "" {
		g.cfg.Static = "/static/"
	}
	if cfg.Realm == "" {
		g.cfg.Realm = "asynq"
	}
	return g, nil
}

// ReadOnly says whether every change is refused.
func (g *Guard) ReadOnly() bool { return g.cfg.ReadOnly }

// Refusal is why a request is refused.
type Refusal struct {
	Status int
	Detail string // a sentence or two for the user

	challenge bool
	allow     string
	retry     time.Duration
}

func (e *Refusal) Error() string { return http.StatusText(e.Status) + ": " + e.Detail }

// Can says whether the user's role includes the verb, and read-only mode does not forbid it: pages hide buttons by it. The Authorize
// hook, which goes by what the change is made to, may still refuse; Check asks it too.
func (g *Guard) Can(r *http.Request, v Verb) bool {
	return of(r.Context()).user.Role.May(v) && (v == View || !g.cfg.ReadOnly)
}

// Check says whether the user may do it, as Allow, but answers nothing and logs nothing. The error is nil or a *Refusal.
func (g *Guard) Check(r *http.Request, a Action) error {
	if refusal := g.check(r, a); refusal != nil {
		return refusal
	}
	return nil
}

// Allow asks leave for what a request is about to do. If it says false, it has answered the request.
//
// Only View is ever allowed to a GET or HEAD, since requests by these come from any page in the world.
func (g *Guard) Allow(w http.ResponseWriter, r *http.Request, a Action) bool {
	refusal := g.check(r, a)
	if refusal == nil && a.Verb != View && safe(r.Method) {
		refusal = &Refusal{Status: http.StatusMethodNotAllowed, allow: http.MethodPost,
			Detail: "A change cannot be asked for with " + r.Method + "."}
	}
	if refusal == nil {
		return true
	}
	g.refuse(w, r, a, refusal)
	return false
}

func (g *Guard) check(r *http.Request, a Action) *Refusal {
	q := of(r.Context())
	least, known := verbRoles[a.Verb]
	switch {
	case !known:
		return &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("There is no right to %q.", a.Verb)}
	case a.Verb != View && g.cfg.ReadOnly:
		return &Refusal{Status: http.StatusForbidden, Detail: "The web UI is in read-only mode: nothing can be changed through it."}
	case q.user.Role.May(a.Verb):
	case !q.loggedIn && g.passwords != nil:
		return g.challenge("Log in with a name and a password.")
	case q.loggedIn && q.user.Role == None:
		return &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("User %q has no role here.", q.user.Name)}
	case q.user.Role != None:
		return &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("This needs the role %s, and you have the role %s.", least, q.user.Role)}
	case g.proxy != nil || g.cfg.Authorize != nil:
		return &Refusal{Status: http.StatusForbidden, Detail: "The request is refused: " + q.stranger + "."}
	default:
		return &Refusal{Status: http.StatusForbidden, Detail: "Until it is said who may use this web UI, only a browser on the machine that it runs on is let in. " +
			"This request is refused: " + q.stranger + ". To let others in, configure users with passwords, a proxy that says who the user is, or a role for everybody " +
			"(in a Go program: Users, Proxy, Anonymous or Authorize of web.Options)."}
	}
	if g.cfg.Authorize == nil {
		return nil
	}
	err := g.cfg.Authorize(r, a)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnauthenticated):
		return g.challenge(err.Error())
	default:
		return &Refusal{Status: http.StatusForbidden, Detail: err.Error()}
	}
}

// Login answers a request for a page that is there to log in: anonymous users are asked for their password, all others are sent to the
// first page. It is of use where Anonymous lets people look, and Users may do more.
func (g *Guard) Login(w http.ResponseWriter, r *http.Request) {
	if q := of(r.Context()); !q.loggedIn && g.passwords != nil {
		g.refuse(w, r, Action{Verb: View}, g.challenge("Log in with a name and a password."))
		return
	}
	http.Redirect(w, r, g.cfg.RootPath+"/", http.StatusSeeOther)
}

func (g *Guard) challenge(detail string) *Refusal {
	return &Refusal{Status: http.StatusUnauthorized, Detail: detail, challenge: true}
}

func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, a Action, refusal *Refusal) {
	g.logRefused(r, a, refusal)
	g.answer(w, r, refusal)
}

func (g *Guard) answer(w http.ResponseWriter, r *http.Request, refusal *Refusal) {
	h := w.Header()
	if refusal.challenge {
		realm := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(g.cfg.Realm)
		h.Set("WWW-Authenticate", `Basic realm="`+realm+`", charset="UTF-8"`)
	}
	if refusal.allow != "" {
		h.Set("Allow", refusal.allow)
	}
	if refusal.retry > 0 {
		h.Set("Retry-After", fmt.Sprint(int64((refusal.retry+time.Second-1)/time.Second)))
	}
	Problem(w, r, refusal.Status, "", refusal.Detail)
}

// Wrap goes around everything, before RootPath is taken off paths. It finds out who the user is and lets through only who may View;
// refuses changes by pages of other origins, and bodies that are too long; sets the headers that keep pages from being misused; and
// turns a panic into status 500. The handlers ask Allow for everything but View.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, g.cfg.RootPath)
		q := &request{guard: g, id: requestID(r), api: path == "/api" || strings.HasPrefix(path, "/api/"), remote: g.remote(r)}
		w := &writer{ResponseWriter: rw}
		r = r.WithContext(withRequest(r.Context(), q))
		defer g.contain(w, r)
		g.headers(w.Header(), strings.HasPrefix(path, g.cfg.Static) && !strings.Contains(path, ".."), q)
		if g.cors(w, r) {
			return
		}
		if err := g.cross.Check(r); err != nil {
			g.refuse(w, r, Action{}, &Refusal{Status: http.StatusForbidden,
				Detail: "The request comes from a page of another origin. If that page may make changes, add its origin to Origins; " +
					"if it is a page of this web UI, have the proxy in front of it pass on the Host header."})
			return
		}
		if g.proxy != nil && !g.proxy.trusts(r) {
			r.Header = r.Header.Clone()
			g.proxy.strip(r.Header)
		}
		if refusal := g.identify(r, q); refusal != nil {
			g.answer(w, r, refusal)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			// The server's own writer, as it is told to close the connection.
			r.Body = http.MaxBytesReader(rw, r.Body, g.cfg.MaxBody)
		}
		if !g.Allow(w, r, Action{Verb: View}) {
			return
		}
		if r.ContentLength > g.cfg.MaxBody {
			w.Header().Set("Connection", "close") // rather than read all of it
			g.answer(w, r, g.tooLarge())
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *Guard) tooLarge() *Refusal {
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("The body of a request may have at most %d bytes.", g.cfg.MaxBody)}
}

// contain turns a panic into an answer. If a part of the answer is out already, the connection is broken off, so that nobody takes it for
// the whole.
func (g *Guard) contain(w *writer, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares so too
		panic(v)
	}
	g.log.Error("panic in a handler of the web UI", append(g.who(r), "method", r.Method, "path", clip(r.URL.Path, maxLogged),
		"panic", fmt.Sprint(v), "stack", string(debug.Stack()))...)
	if w.wrote {
		panic(http.ErrAbortHandler)
	}
	Problem(w, r, http.StatusInternalServerError, "", "Something went wrong here. The log of the web UI tells more of it under the request ID.")
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == http.MethodTrace
}
