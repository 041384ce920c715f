package access

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeProvider is a provider without a site: the query of the callback names the user and the role.
type fakeProvider struct {
	down   bool
	logins []ProviderLogin
}

func (p *fakeProvider) Name() string      { return "Example <ID>" }
func (p *fakeProvider) LogoutURL() string { return "https://id.example.com/logout" }

func (p *fakeProvider) LoginURL(_ context.Context, l ProviderLogin) (string, error) {
	if p.down {
		return "", errors.New("connection refused")
	}
	p.logins = append(p.logins, l)
	return "https://id.example.com/?state=" + l.State, nil
}

func (p *fakeProvider) User(_ context.Context, l ProviderLogin, query url.Values) (User, error) {
	if l != p.logins[len(p.logins)-1] {
		return User{}, errors.New("another login")
	}
	role, _ := ParseRole(query.Get("role"))
	if query.Get("code") != "good" {
		return User{}, errors.New("bad code: secret detail")
	}
	return User{Name: query.Get("user"), Role: role, Password: "x"}, nil
}

// begin begins a login at the provider and returns the state.
func (b *browser) begin(t *testing.T, query string) string {
	t.Helper()
	w := b.get(b.g.cfg.RootPath + "/login/provider" + query)
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusSeeOther || to.Host != "id.example.com" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	return to.Query().Get("state")
}

func TestProvider(t *testing.T) {
	t.Parallel()
	p := &fakeProvider{}
	g, log := newGuard(t, Config{RootPath: "/ops", Provider: p})
	b := newBrowser(g)
	leads(t, b.get("/ops/queue?queue=a"), "/ops/login?next=%2Fops%2Fqueue%3Fqueue%3Da")
	w := b.get("/ops/login?next=%2Fops%2Fqueue%3Fqueue%3Da")
	if page := w.Body.String(); strings.Contains(page, "<form") || !strings.Contains(page, "Log in with Example &lt;ID&gt;") || !strings.Contains(page, `href="/ops/login/provider?next=%2Fops%2Fqueue%3Fqueue%3Da"`) {
		t.Errorf("the page is %s", page)
	}
	w = b.get("/ops/api/queues")
	want(t, w, http.StatusUnauthorized)
	if w.Header().Get("WWW-Authenticate") != "" {
		t.Error("it asks for a password")
	}
	want(t, b.logIn("ann", "p"), http.StatusUnauthorized)

	state := b.begin(t, "?next=%2Fops%2Fqueue%3Fqueue%3Da")
	l := p.logins[0]
	if l.State != state || len(l.State) != 43 || len(l.Nonce) != 43 || len(l.Verifier) != 43 || l.State == l.Nonce || l.Nonce == l.Verifier || strings.Contains(b.cookie["asynq_provider_8443"], l.Verifier) {
		t.Errorf("%+v, cookies %v", l, b.cookie)
	}
	leads(t, b.get("/ops/login/callback?code=good&user=ann&role=admin&state="+state), "/ops/queue?queue=a")
	want(t, b.get("/ops/"), http.StatusOK, "ann (admin)")
	if b.cookie["asynq_provider_8443"] != "" {
		t.Error("the cookie of the login remains")
	}
	leads(t, b.send(http.MethodPost, "/ops/logout", "a=b"), "/ops/login?out")
	if w := b.get("/ops/login?out"); !strings.Contains(w.Body.String(), `href="https://id.example.com/logout"`) {
		t.Error(w.Body)
	}
	leads(t, b.get("/ops/"), "/ops/login")

	for name, c := range map[string]struct {
		query, text string
		status      int
	}{
		"no role":    {"code=good&user=ann", "has no role here", http.StatusForbidden},
		"no name":    {"code=good&role=admin", "no valid user name", http.StatusForbidden},
		"bad code":   {"code=bad&user=ann&role=admin", "has the reason", http.StatusForbidden},
		"canceled":   {"error=access_denied&error_description=x", "was refused there", http.StatusForbidden},
		"bad name":   {"code=good&user=a%0Ab&role=admin", "no valid user name", http.StatusForbidden},
		"other role": {"code=good&user=ann&role=root", "has no role here", http.StatusForbidden},
	} {
		b := newBrowser(g)
		state := b.begin(t, "")
		w := b.get("/ops/login/callback?" + c.query + "&state=" + state)
		want(t, w, c.status)
		if !strings.Contains(w.Body.String(), c.text) || strings.Contains(w.Body.String(), "secret detail") || b.cookie["asynq_login_8443"] != "" {
			t.Errorf("%s: %s", name, w.Body)
		}
		// The state works once.
		w = b.get("/ops/login/callback?code=good&user=ann&role=admin&state=" + state)
		want(t, w, http.StatusBadRequest)
	}
	if n := len(log.lines(t, "login refused")); n != 12 {
		t.Errorf("%d refused logins are logged", n)
	}
	p.down = true
	w = b.get("/ops/login/provider")
	want(t, w, http.StatusBadGateway)
	if !strings.Contains(w.Body.String(), "could not be reached") {
		t.Error(w.Body)
	}
}

// A callback needs the cookie of the browser that began the login.
func TestProviderState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProvider{}
		g, _ := newGuard(t, Config{Provider: p})
		const good = "/login/callback?code=good&user=ann&role=admin&state="
		attacker, victim := newBrowser(g), newBrowser(g)
		state := attacker.begin(t, "")
		want(t, victim.get(good+state), http.StatusBadRequest)
		victim.begin(t, "")
		want(t, victim.get(good+state), http.StatusBadRequest)
		want(t, victim.get(good), http.StatusBadRequest)
		own := newBrowser(g)
		state = own.begin(t, "")
		own.cookie["asynq_provider_8443"] += "A" // another page
		want(t, own.get(good+state), http.StatusBadRequest)
		late := newBrowser(g)
		state = late.begin(t, "?next=https://evil.com")
		time.Sleep(providerTime - time.Second)
		leads(t, late.get(good+state), "/")
		state = late.begin(t, "")
		time.Sleep(providerTime)
		want(t, late.get(good+state), http.StatusBadRequest)
		g.sessions.dropIf(func(*session) bool { return true })
	})
}

func TestProviderIsThrottled(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Provider: &fakeProvider{}})
	var w *httptest.ResponseRecorder
	for range 11 {
		b := newBrowser(g)
		w = b.get("/login/callback?code=bad&state=" + b.begin(t, ""))
	}
	want(t, w, http.StatusTooManyRequests)
	if w.Header().Get("Retry-After") == "" {
		t.Error(w.Header())
	}
}
