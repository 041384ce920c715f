package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
)

// MinToken is the minimum length of Config.Token, in bytes.
const MinToken = 16

// howToSignIn is shown to local viewers whose change is refused.
const howToSignIn = "To make changes, open the sign-in link that the program serving this UI printed when it started " +
	"(asynq web, asynq dev and asynq service print it to standard error). " +
	"A script sends the token as Authorization: Bearer."

// usedLink is the response to an invalid token.
const usedLink = "This sign-in link is invalid. Each link works once, for one browser, and a newer link replaces it. " +
	"To get a new link, send SIGUSR1 to the program or restart it."

// signIns checks the tokens that give local connections the role Admin. Without configured users,
// the address of a connection is not sufficient: a reverse proxy on the same host connects from
// there for all its clients. The token proves that the user can read the output of the program.
type signIns struct {
	fixed   []byte // digest of Config.Token; may be nil
	session string // value of the cookie; the same for all browsers until the program ends

	mu   sync.Mutex
	link []byte // digest of the token of the last link; nil after its use
}

func newSignIns(token string) *signIns {
	s := &signIns{session: rand.Text()}
	if token != "" {
		s.fixed = digest(token)
	}
	return s
}

// issue returns the token of a new link, which replaces the previous one.
func (s *signIns) issue() string {
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = digest(token)
	return token
}

// accept reports whether a token is valid. The token of a link is invalid afterwards.
func (s *signIns) accept(token string) bool {
	sum := digest(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if subtle.ConstantTimeCompare(sum, s.link) == 1 {
		s.link = nil
		return true
	}
	return subtle.ConstantTimeCompare(sum, s.fixed) == 1
}

// signedIn reports whether a request has the cookie of a signed-in browser.
func (s *signIns) signedIn(r *http.Request) bool {
	sum := digest(s.session)
	for _, c := range r.CookiesNamed(sessionCookie(r)) {
		if subtle.ConstantTimeCompare(digest(c.Value), sum) == 1 {
			return true
		}
	}
	return false
}

// digest hashes tokens to the same length, so that comparisons take constant time.
func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// sessionCookie has the port in its name, since browsers send the cookies of a host to all of its
// ports.
func sessionCookie(r *http.Request) string {
	name := "asynq_session"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "_" + port // localHost has verified that it is digits
	}
	return name
}

// SignInHint returns how to sign in, for users who may only view because they have not signed in.
// It is empty for all others.
func SignInHint(ctx context.Context) string {
	if q := of(ctx); q.via != "local" || q.guard.cfg.ReadOnly {
		return ""
	}
	return howToSignIn
}

// SignInPath returns the path and query of a new sign-in link, which gives one browser on this
// machine the role Admin. The link works once, and replaces the previous one. SignInPath returns ""
// if sign-in links are not used: users, a proxy, an anonymous role, Authorize or ReadOnly are
// configured.
func (g *Guard) SignInPath() string {
	if g.signIns == nil || g.cfg.ReadOnly {
		return ""
	}
	return g.cfg.RootPath + "/?token=" + g.signIns.issue()
}

// local determines the role of a local connection: Viewer, unless it has a token or the cookie that
// a token was exchanged for.
func (g *Guard) local(w http.ResponseWriter, r *http.Request, q *request) *Refusal {
	q.user.Role, q.via = Viewer, "local"
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		if !g.signIns.accept(strings.TrimSpace(token)) {
			g.logSignIn(r, "refused")
			return &Refusal{Status: http.StatusUnauthorized, Detail: usedLink, challenge: "Bearer"}
		}
		g.signIn(w, r, q, "token")
	} else if g.signIns.signedIn(r) {
		q.user.Role, q.via = Admin, "session"
	}
	return nil
}

// exchange handles the request of a sign-in link. It exchanges the token for a cookie, and
// redirects the browser to a URL without the token, so that the token is neither in the history nor
// in a Referer. It reports whether it has answered the request.
func (g *Guard) exchange(w http.ResponseWriter, r *http.Request, q *request) bool {
	if g.signIns == nil || q.loggedIn || q.user.Role == None || r.Method != http.MethodGet || r.URL.Path != g.cfg.RootPath+"/" || !r.URL.Query().Has("token") {
		return false
	}
	if strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch") {
		// A prefetch by the browser must not use up the link.
		g.answer(w, r, &Refusal{Status: http.StatusServiceUnavailable, Detail: "A sign-in link cannot be prefetched."})
		return true
	}
	if q.user.Role != Admin {
		if !g.signIns.accept(r.URL.Query().Get("token")) {
			g.logSignIn(r, "refused")
			g.answer(w, r, &Refusal{Status: http.StatusForbidden, Detail: usedLink})
			return true
		}
		g.signIn(w, r, q, "link")
		g.logSignIn(r, "done")
	}
	http.Redirect(w, r, g.cfg.RootPath+"/", http.StatusSeeOther)
	return true
}

// signIn makes the user of the request an Admin and sets the cookie.
func (g *Guard) signIn(w http.ResponseWriter, r *http.Request, q *request, via string) {
	q.user.Role, q.via = Admin, via
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie(r), Value: g.signIns.session, Path: g.cfg.RootPath + "/",
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
}

// logSignIn never logs the token or the query that contains it.
func (g *Guard) logSignIn(r *http.Request, outcome string) {
	level := slog.LevelInfo
	if outcome != "done" {
		level = slog.LevelWarn
	}
	g.log.Log(r.Context(), level, "sign-in", append(g.who(r), "outcome", outcome)...)
}
