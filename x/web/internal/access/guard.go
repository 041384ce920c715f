package access

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
)

// ErrUnauthenticated means that the user must log in. If the error of an Authorize hook is or wraps
// it, the response has status 401 instead of 403.
var ErrUnauthenticated = errors.New("login required")

// Guard controls access to all handlers. Create one with New.
type Guard struct {
	cfg       Config
	log       *slog.Logger
	proxy     *proxy
	passwords *passwords // nil without Users
	sessions  *sessions  // nil without Users and Provider
	provider  *provider  // nil without Provider
	signIns   *signIns   // nil if users, a proxy or roles are configured
	trail     *trail
	origins   map[string]bool
	cross     *http.CrossOriginProtection
}

// New returns a Guard, or all errors of the configuration.
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
	if cfg.Provider != nil {
		g.provider = newProvider()
	}
	if len(cfg.Users) > 0 || cfg.Provider != nil {
		g.sessions = newSessions(cmp.Or(cfg.SessionIdle, DefaultSessionIdle), cmp.Or(cfg.SessionMax, DefaultSessionMax))
	}
	if !cfg.configured() {
		g.signIns = newSignIns(cfg.Token)
	}
	g.cfg.Users, g.cfg.Token = nil, "" // drop the secrets: they are no longer needed
	if g.log == nil {
		g.log = slog.Default()
	}
	if g.trail, err = newTrail(cfg.AuditFile, g.log); err != nil {
		return nil, err
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

// SetUsers replaces Config.Users, which must not have been empty. Sessions of users who were
// removed or have another password end. It changes nothing if it returns an error.
func (g *Guard) SetUsers(users []User) error {
	switch err := checkUsers(users); {
	case err != nil:
		return err
	case len(users) == 0:
		return errors.New("there are no users")
	case g.passwords == nil:
		return errors.New("no users were configured at the start")
	}
	g.passwords.set(users)
	g.sessions.dropIf(func(s *session) bool { return !g.valid(s) })
	return nil
}

// ReadOnly reports whether all changes are refused.
func (g *Guard) ReadOnly() bool { return g.cfg.ReadOnly }

// Refusal is the reason for refusing a request.
type Refusal struct {
	Status int
	Detail string // a sentence or two for the user

	challenge string // the value of WWW-Authenticate
	allow     string
	retry     time.Duration
}

func (e *Refusal) Error() string { return http.StatusText(e.Status) + ": " + e.Detail }

// Can reports whether the user's role includes the verb and read-only mode permits it. Pages hide
// buttons accordingly. The Authorize hook, which depends on the target of the change, may still
// refuse; Check calls it as well.
func (g *Guard) Can(r *http.Request, v Verb) bool {
	return of(r.Context()).user.Role.May(v) && (v.reads() || !g.cfg.ReadOnly)
}

// Check checks a permission like Allow, but writes no response and no log line. The error is nil or
// a *Refusal.
func (g *Guard) Check(r *http.Request, a Action) error {
	if refusal := g.check(r, a); refusal != nil {
		return refusal
	}
	return nil
}

// Allow checks the permission for an action. If it returns false, it has answered the request.
//
// A GET or HEAD is only ever allowed to read, because any page in any browser tab can cause such
// requests.
func (g *Guard) Allow(w http.ResponseWriter, r *http.Request, a Action) bool {
	refusal := g.check(r, a)
	if refusal == nil && !a.Verb.reads() && safe(r.Method) {
		refusal = &Refusal{Status: http.StatusMethodNotAllowed, allow: http.MethodPost,
			Detail: "Changes cannot be requested with " + r.Method + "."}
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
		return &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("Unknown permission %q.", a.Verb)}
	case !a.Verb.reads() && g.cfg.ReadOnly:
		return &Refusal{Status: http.StatusForbidden, Detail: "The web UI is read-only."}
	case q.user.Role.May(a.Verb):
	case !q.loggedIn && g.passwords != nil:
		return g.challenge("Log in with a user name and password.")
	case !q.loggedIn && g.canLogIn():
		return g.challenge("Log in.")
	case q.loggedIn && q.user.Role == None:
		return &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("User %q has no role.", q.user.Name)}
	case q.via == "local":
		return &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("This requires the role %s. Local connections without a sign-in link have the role %s. %s",
			least, q.user.Role, howToSignIn)}
	case q.user.Role != None:
		return &Refusal{Status: http.StatusForbidden, Detail: fmt.Sprintf("This requires the role %s. Your role is %s.", least, q.user.Role)}
	case g.proxy != nil || g.cfg.Authorize != nil:
		return &Refusal{Status: http.StatusForbidden, Detail: "Request refused: " + q.stranger + "."}
	default:
		return &Refusal{Status: http.StatusForbidden, Detail: "Until users are configured, this web UI accepts requests only from browsers on its own machine. " +
			"This request was refused because " + q.stranger + ". To allow other users, configure users with passwords, a proxy that authenticates users, or a role for anonymous users " +
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

// challenge returns the refusal of a request without valid credentials.
func (g *Guard) challenge(detail string) *Refusal {
	refusal := &Refusal{Status: http.StatusUnauthorized, Detail: detail}
	if g.passwords != nil || !g.canLogIn() {
		refusal.challenge = "Basic"
	}
	return refusal
}

// header sets the headers of a refusal, except for the challenge.
func (e *Refusal) header(h http.Header) {
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	if e.retry > 0 {
		h.Set("Retry-After", fmt.Sprint(int64((e.retry+time.Second-1)/time.Second)))
	}
}

// hasDialog reports whether the response to a request without credentials may make a browser open
// its own login dialog. Scripts of pages must not open it: the page leads to the login page.
func (g *Guard) hasDialog(r *http.Request) bool {
	if !g.canLogIn() || r.Header.Get("Authorization") != "" {
		return true
	}
	mode := r.Header.Get("Sec-Fetch-Mode")
	if mode == "navigate" && of(r.Context()).api {
		return true
	}
	return mode == "" && r.Header.Get("Hx-Request") == "" && r.Header.Get("Accept") != "text/event-stream"
}

func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, a Action, refusal *Refusal) {
	g.logRefused(r, a, refusal)
	g.answer(w, r, refusal)
}

func (g *Guard) answer(w http.ResponseWriter, r *http.Request, refusal *Refusal) {
	h := w.Header()
	if refusal.Status == http.StatusUnauthorized && g.sendToLogin(w, r) {
		return
	}
	if refusal.challenge != "" && g.hasDialog(r) {
		realm := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(g.cfg.Realm)
		h.Set("WWW-Authenticate", refusal.challenge+` realm="`+realm+`", charset="UTF-8"`)
	}
	refusal.header(h)
	Problem(w, r, refusal.Status, "", refusal.Detail)
}

// Wrap returns a handler that guards next. It receives requests before RootPath is removed from
// their paths. It identifies the user; admits only users who may View; refuses changes by pages of
// other origins and bodies that are too long; sets security headers; and converts panics to status
// 500. Handlers call Allow for everything except View.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, g.cfg.RootPath)
		q := &request{guard: g, id: requestID(r), api: path == "/api" || strings.HasPrefix(path, "/api/"), remote: g.remote(r)}
		w := &writer{ResponseWriter: rw}
		r = r.WithContext(withRequest(r.Context(), q))
		defer g.recoverPanic(w, r)
		g.headers(w.Header(), strings.HasPrefix(path, g.cfg.Static) && !strings.Contains(path, ".."), q)
		if g.cors(w, r) {
			return
		}
		if err := g.cross.Check(r); err != nil {
			g.refuse(w, r, Action{}, &Refusal{Status: http.StatusForbidden,
				Detail: "The request comes from another origin. To allow that origin to make changes, add it to Origins. " +
					"If the request comes from this web UI, configure the proxy in front of it to forward the Host header."})
			return
		}
		if g.proxy != nil && !g.proxy.trusts(r) {
			r.Header = r.Header.Clone()
			g.proxy.strip(r.Header)
		}
		if refusal := g.identify(w, r, q); refusal != nil {
			g.answer(w, r, refusal)
			return
		}
		if q.session != nil {
			var done func()
			r, done = within(r, q.session)
			defer done()
		}
		if g.exchange(w, r, q) || g.serveLogin(w, r, q, path) {
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			// MaxBytesReader needs the server's own writer, so that it can close the connection.
			r.Body = http.MaxBytesReader(innermost(rw), r.Body, g.cfg.MaxBody)
		}
		if !g.Allow(w, r, Action{Verb: View}) {
			return
		}
		if r.ContentLength > g.cfg.MaxBody {
			w.Header().Set("Connection", "close") // instead of reading the rest
			g.answer(w, r, g.tooLarge())
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *Guard) tooLarge() *Refusal {
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("The request body exceeds the limit of %d bytes.", g.cfg.MaxBody)}
}

// recoverPanic converts a panic into an error response. If a part of the response was sent already,
// it aborts the connection, so that the client detects the incomplete response.
func (g *Guard) recoverPanic(w *writer, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		panic(v)
	}
	g.log.Error("web: handler panicked", append(g.who(r), "method", r.Method, "path", clip(r.URL.Path, maxLogged),
		"panic", fmt.Sprint(v), "stack", string(debug.Stack()))...)
	if w.wrote {
		panic(http.ErrAbortHandler)
	}
	Problem(w, r, http.StatusInternalServerError, "", "Internal error. See the log of the web UI for this request ID.")
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == http.MethodTrace
}
