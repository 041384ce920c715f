package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// LoginProvider is a site where users log in, such as an OpenID Connect provider. The methods must
// be safe for concurrent use.
type LoginProvider interface {
	// Name is shown on the login page: "Log in with NAME".
	Name() string

	// LoginURL returns the URL at the provider that asks the user to log in. The provider redirects
	// the browser back to RootPath + "/login/callback", with the state in the query.
	LoginURL(ctx context.Context, l ProviderLogin) (string, error)

	// User returns the user of a callback. The state in the query has been checked. A user with the
	// role None is refused. The error is logged; the user sees only that the login failed.
	User(ctx context.Context, l ProviderLogin, query url.Values) (User, error)

	// LogoutURL returns the URL that logs the user out of the provider, or "". The login page
	// offers it after a log-out.
	LogoutURL() string
}

// ProviderLogin are the secrets of one login: 256 bits each, in unpadded base64url.
type ProviderLogin struct {
	State    string // returned by the provider in the query of the callback
	Nonce    string // in the ID token
	Verifier string // of PKCE
}

const (
	// providerCookie holds the seed of a login while the user is at the provider.
	providerCookie = "asynq_provider"
	// providerTime is how long the user may take to log in at the provider.
	providerTime = 10 * time.Minute
	// providerTimeout bounds the requests to the provider.
	providerTimeout = 15 * time.Second
)

// provider is the state of logins at Config.Provider.
type provider struct {
	key    [32]byte // of the MACs, random for each process
	failed *throttle
}

func newProvider() *provider {
	p := &provider{failed: newThrottle()}
	_, _ = rand.Read(p.key[:]) // never fails
	return p
}

// login derives the secrets of a login from its seed, so that the server does not have to store
// them.
func (p *provider) login(seed string) ProviderLogin {
	derive := func(purpose string) string {
		mac := hmac.New(sha256.New, p.key[:])
		mac.Write([]byte(purpose + ":" + seed))
		return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	return ProviderLogin{State: derive("state"), Nonce: derive("nonce"), Verifier: derive("verifier")}
}

// toProvider redirects the browser to the provider.
func (g *Guard) toProvider(w http.ResponseWriter, r *http.Request, _ *request) {
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	next := r.URL.Query().Get("next")
	if !g.ownPath(next) || len(next) > 2000 { // a cookie can have 4,096 bytes
		next = ""
	}
	seed := random() + "." + strconv.FormatInt(time.Now().Unix(), 10) + "." + base64.RawURLEncoding.EncodeToString([]byte(next))
	to, err := g.cfg.Provider.LoginURL(ctx, g.provider.login(seed))
	if err != nil {
		g.refuseProvider(w, r, http.StatusBadGateway, "could not be reached. Try again later", err)
		return
	}
	g.setCookie(w, r, providerCookie, seed, loginPath, int(providerTime/time.Second))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// fromProvider handles the callback. The cookie proves that this browser began the login, and its
// seed yields the state.
func (g *Guard) fromProvider(w http.ResponseWriter, r *http.Request, q *request) {
	query := r.URL.Query()
	seed := g.seedOf(r, query.Get("state"))
	if seed == "" {
		g.refuseProvider(w, r, http.StatusBadRequest, "was not completed: it has expired, or was begun in another browser. Try again",
			fmt.Errorf("the state does not match the cookie %s", providerCookie))
		return
	}
	g.setCookie(w, r, providerCookie, "", loginPath, -1)
	if query.Has("error") {
		g.refuseProvider(w, r, http.StatusForbidden, "was refused there", fmt.Errorf("%s: %s", clip(query.Get("error"), 200), clip(query.Get("error_description"), 500)))
		return
	}
	keys := [2]throttleKey{{addr: g.throttled(r)}, {addr: g.throttled(r), name: [16]byte{1}}}
	if wait := g.provider.failed.take(keys); wait > 0 {
		(&Refusal{retry: wait}).header(w.Header())
		g.refuseProvider(w, r, http.StatusTooManyRequests, "failed too often. Try again later", &tooMany{wait})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	u, err := g.cfg.Provider.User(ctx, g.provider.login(seed), query)
	u.Password = ""
	switch {
	case err != nil:
		g.refuseProvider(w, r, http.StatusForbidden, "failed. The log of the web UI has the reason", err)
		return
	case u.Name == "" || !printable(u.Name):
		g.refuseProvider(w, r, http.StatusForbidden, "failed: it returned no valid user name", fmt.Errorf("invalid user name %q", clip(u.Name, maxLogged)))
		return
	}
	g.provider.failed.giveBack(keys)
	if u.Role == None || !u.Role.valid() {
		g.refuseProvider(w, r, http.StatusForbidden, fmt.Sprintf("succeeded, but user %q has no role here", clip(u.Name, maxLogged)), fmt.Errorf("user %q has no role", u.Name))
		return
	}
	q.user = u
	g.start(w, r, q, "provider", nil)
	next, _ := base64.RawURLEncoding.DecodeString(seed[strings.LastIndexByte(seed, '.')+1:])
	g.redirect(w, r, string(next))
}

// seedOf returns the seed in the cookie that has the state, or "" if there is none or it is too
// old.
func (g *Guard) seedOf(r *http.Request, state string) string {
	for _, c := range r.CookiesNamed(cookieOf(r, providerCookie)) {
		parts := strings.Split(c.Value, ".")
		if len(parts) != 3 || subtle.ConstantTimeCompare([]byte(g.provider.login(c.Value).State), []byte(state)) != 1 {
			continue
		}
		begun, err := strconv.ParseInt(parts[1], 10, 64)
		if err == nil && time.Since(time.Unix(begun, 0)) < providerTime {
			return c.Value
		}
	}
	return ""
}

// refuseProvider shows the login page with what happened to a login at the provider.
func (g *Guard) refuseProvider(w http.ResponseWriter, r *http.Request, status int, what string, err error) {
	q := of(r.Context())
	g.log.Log(r.Context(), slog.LevelWarn, "login refused", "via", "provider", "remote", q.remote, "request", q.id, "reason", clip(err.Error(), maxLogged))
	g.writeLogin(w, r, status, loginPage{Problem: "The login with " + g.cfg.Provider.Name() + " " + what + "."})
}
