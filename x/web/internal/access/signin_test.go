package access

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// visit follows a sign-in link, or opens another page, with the cookies of the jar, and updates the
// jar.
func visit(g *Guard, jar map[string]*http.Cookie, target string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	r := newRequest(http.MethodGet, target, edits...)
	for _, c := range jar {
		if c.Path == "" || strings.HasPrefix(r.URL.Path, c.Path) {
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
		}
	}
	w := serve(g, r)
	for _, c := range w.Result().Cookies() {
		jar[c.Name+c.Path] = c
	}
	return w
}

func bearer(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }

// tokenOf returns the token of a sign-in link.
func tokenOf(t *testing.T, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil || u.Query().Get("token") == "" {
		t.Fatalf("%q is no sign-in link: %v", link, err)
	}
	return u.Query().Get("token")
}

func TestSignInLink(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"", "/queues"} {
		g, log := newGuard(t, Config{RootPath: root})
		jar := map[string]*http.Cookie{}
		want(t, visit(g, jar, root+"/"), http.StatusOK, " (viewer)")

		link := g.SignInPath()
		if path, _, _ := strings.Cut(link, "?"); path != root+"/" {
			t.Errorf("the link is %q", link)
		}
		w := visit(g, jar, link)
		want(t, w, http.StatusSeeOther)
		if to := w.Header().Get("Location"); to != root+"/" {
			t.Errorf("sent on to %q", to)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Referrer-Policy") != "same-origin" {
			t.Errorf("headers %v", w.Header())
		}
		c := jar["asynq_session_8080"+root+"/"]
		if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != root+"/" || c.Secure || c.Value == tokenOf(t, link) {
			t.Fatalf("cookie %+v of %v", c, jar)
		}
		want(t, visit(g, jar, root+"/queues"), http.StatusOK, " (admin)")
		want(t, visit(g, jar, link), http.StatusSeeOther) // again, in the signed-in browser
		used := visit(g, map[string]*http.Cookie{}, link)
		want(t, used, http.StatusForbidden)
		if !strings.Contains(used.Body.String(), "SIGUSR1") || len(used.Result().Cookies()) > 0 {
			t.Errorf("a used link: %s %v", used.Body, used.Header())
		}
		if strings.Contains(log.String(), tokenOf(t, link)) || strings.Contains(log.String(), c.Value) {
			t.Errorf("a secret is logged: %s", log)
		}
		if lines := log.lines(t, "sign-in"); len(lines) != 2 || lines[0]["outcome"] != "done" || lines[1]["outcome"] != "refused" {
			t.Errorf("log lines %v", lines)
		}

		// A new link replaces the previous one, and keeps signed-in browsers.
		old, fresh := g.SignInPath(), g.SignInPath()
		want(t, visit(g, map[string]*http.Cookie{}, old), http.StatusForbidden)
		want(t, visit(g, map[string]*http.Cookie{}, fresh), http.StatusSeeOther)
		want(t, visit(g, jar, root+"/queues"), http.StatusOK, " (admin)")
	}
}

func TestSignInLinkIsForOneBrowser(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{})
	link := g.SignInPath()
	var signedIn atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if visit(g, map[string]*http.Cookie{}, link).Code == http.StatusSeeOther {
				signedIn.Add(1)
			}
		})
	}
	all.Wait()
	if n := signedIn.Load(); n != 1 {
		t.Errorf("%d browsers have signed in", n)
	}
}

// Requests that must not use up the token, or must not be accepted.
func TestSignInRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edits  []func(*http.Request)
		status int
	}{
		"fetched in advance": {[]func(*http.Request){header("Sec-Purpose", "prefetch;prerender")}, http.StatusServiceUnavailable},
		"HEAD":               {[]func(*http.Request){func(r *http.Request) { r.Method = http.MethodHead }}, http.StatusOK},
		"elsewhere":          {[]func(*http.Request){func(r *http.Request) { r.URL.Path = "/queues" }}, http.StatusOK},
		"API":                {[]func(*http.Request){func(r *http.Request) { r.URL.Path = "/api/queues" }}, http.StatusOK},
		"network":            {[]func(*http.Request){from("192.0.2.1:9")}, http.StatusForbidden},
		"forwarded":          {[]func(*http.Request){header("X-Forwarded-For", "192.0.2.1")}, http.StatusForbidden},
		"rebinding":          {[]func(*http.Request){host("evil.example:8080")}, http.StatusForbidden},
		"basic":              {[]func(*http.Request){func(r *http.Request) { r.URL.RawQuery = "" }, basic("token", "x")}, http.StatusOK},
	} {
		g, _ := newGuard(t, Config{})
		link := g.SignInPath()
		w := visit(g, map[string]*http.Cookie{}, link, c.edits...)
		if w.Code != c.status || len(w.Result().Cookies()) > 0 || strings.Contains(w.Body.String(), "(admin)") {
			t.Errorf("%s: %d %s %v", name, w.Code, w.Body, w.Header())
		}
		if w := visit(g, map[string]*http.Cookie{}, link); w.Code != http.StatusSeeOther {
			t.Errorf("%s: the link has been used up: %d %s", name, w.Code, w.Body)
		}
	}
	g, _ := newGuard(t, Config{})
	link := g.SignInPath()
	for _, target := range []string{"/?token=", "/?token=x", strings.ToLower(link), link + "x"} {
		want(t, visit(g, map[string]*http.Cookie{}, target), http.StatusForbidden)
	}
}

// A page of another origin cannot make changes with the cookie of a signed-in browser.
func TestSignedInOtherOrigins(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{})
	jar := map[string]*http.Cookie{}
	visit(g, jar, g.SignInPath())
	cookie := func(r *http.Request) { r.AddCookie(jar["asynq_session_8080/"]) }
	pause := Action{Verb: QueuePause, Queue: "mail"}
	want(t, serve(g, newRequest(http.MethodPost, "/queue", cookie), pause), http.StatusOK, " (admin)")
	want(t, serve(g, newRequest(http.MethodPost, "/queue", cookie, header("Sec-Fetch-Site", "same-origin"), header("Origin", "http://localhost:8080")), pause),
		http.StatusOK, " (admin)")
	for _, site := range []string{"cross-site", "same-site"} {
		want(t, serve(g, newRequest(http.MethodPost, "/queue", cookie, header("Sec-Fetch-Site", site), header("Origin", "http://localhost:9090")), pause), http.StatusForbidden)
	}
	want(t, serve(g, newRequest(http.MethodPost, "/queue", cookie, header("Origin", "http://evil.example")), pause), http.StatusForbidden)
	want(t, serve(g, newRequest(http.MethodGet, "/queue", cookie), pause), http.StatusMethodNotAllowed)
	want(t, serve(g, newRequest(http.MethodPost, "/queue", cookie, header("Via", "1.1 proxy")), pause), http.StatusForbidden)
	want(t, serve(g, newRequest(http.MethodPost, "/queue", cookie, from("192.0.2.1:9")), pause), http.StatusForbidden)
}

// Cookies of other ports and of other programs are not accepted.
func TestSessionCookies(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{})
	other, _ := newGuard(t, Config{})
	jar := map[string]*http.Cookie{}
	visit(other, jar, other.SignInPath())
	want(t, visit(g, jar, "/"), http.StatusOK, " (viewer)")
	visit(g, jar, g.SignInPath(), host("localhost:9090"))
	if len(jar) != 2 {
		t.Errorf("ports share a cookie: %v", jar)
	}
	want(t, visit(g, jar, "/", host("localhost:9090")), http.StatusOK, " (admin)")
	want(t, visit(other, jar, "/"), http.StatusOK, " (admin)")
	w := visit(g, map[string]*http.Cookie{}, g.SignInPath(), func(r *http.Request) { r.TLS = &tls.ConnectionState{} })
	if c := w.Result().Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("with TLS: %v", c)
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	const fixed = "a-token-for-scripts"
	remove := Action{Verb: QueueDelete, Queue: "mail"}
	g, log := newGuard(t, Config{Token: fixed})
	for range 2 { // the token can be used repeatedly
		want(t, serve(g, newRequest(http.MethodDelete, "/api/queues/mail", bearer(fixed)), remove), http.StatusOK, " (admin)")
	}
	want(t, serve(g, newRequest(http.MethodPost, "/queue", header("Authorization", "bearer "+fixed)), remove), http.StatusOK, " (admin)")
	w := serve(g, newRequest(http.MethodDelete, "/api/queues/mail"), remove)
	want(t, w, http.StatusForbidden)
	if !strings.Contains(w.Body.String(), "asynq web") || !strings.Contains(w.Body.String(), "Authorization: Bearer") {
		t.Errorf("the body does not help: %s", w.Body)
	}
	for _, wrong := range []string{"", "x", fixed + "x", strings.ToUpper(fixed)} {
		w := serve(g, newRequest(http.MethodGet, "/api/queues", bearer(wrong)))
		want(t, w, http.StatusUnauthorized)
		if h := w.Header().Get("WWW-Authenticate"); !strings.HasPrefix(h, "Bearer ") {
			t.Errorf("challenge %q", h)
		}
	}
	want(t, serve(g, newRequest(http.MethodGet, "/api/queues", bearer(fixed), header("X-Forwarded-For", "192.0.2.1"))), http.StatusForbidden)
	// Browsers can sign in with the token as well.
	jar := map[string]*http.Cookie{}
	for range 2 {
		want(t, visit(g, map[string]*http.Cookie{}, "/?token="+fixed), http.StatusSeeOther)
	}
	visit(g, jar, "/?token="+fixed)
	want(t, visit(g, jar, "/"), http.StatusOK, " (admin)")
	if strings.Contains(log.String(), fixed) {
		t.Errorf("the token is logged: %s", log)
	}

	// The token of a link is valid for one request, whose response has the cookie for further ones.
	g, _ = newGuard(t, Config{})
	token := tokenOf(t, g.SignInPath())
	w = serve(g, newRequest(http.MethodDelete, "/api/queues/mail", bearer(token)), remove)
	want(t, w, http.StatusOK, " (admin)")
	want(t, serve(g, newRequest(http.MethodDelete, "/api/queues/mail", bearer(token)), remove), http.StatusUnauthorized)
	if c := w.Result().Cookies(); len(c) != 1 {
		t.Errorf("cookies %v", c)
	} else {
		want(t, serve(g, newRequest(http.MethodDelete, "/api/queues/mail", func(r *http.Request) { r.AddCookie(c[0]) }), remove), http.StatusOK, " (admin)")
	}
}

// Once access is configured, there are no sign-in links.
func TestNoSignInOnceConfigured(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"users":     {Users: []User{{Name: "u", Password: "p", Role: Admin}}},
		"proxy":     {Proxy: &Proxy{From: []string{"192.0.2.1"}, UserHeader: "X-User", Role: Admin}},
		"anonymous": {Anonymous: Viewer},
		"authorize": {Authorize: func(*http.Request, Action) error { return nil }},
		"read-only": {ReadOnly: true},
	} {
		g, _ := newGuard(t, cfg)
		if link := g.SignInPath(); link != "" {
			t.Errorf("%s: a link %s", name, link)
		}
		if w := visit(g, map[string]*http.Cookie{}, "/?token=x"); w.Code == http.StatusSeeOther || len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if cfg.Token = strings.Repeat("t", MinToken); name != "read-only" {
			if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "Token") {
				t.Errorf("%s with a token: %v", name, err)
			}
		}
	}
	// Users set by the program get no further rights by a token.
	g, _ := newGuard(t, Config{})
	token := tokenOf(t, g.SignInPath())
	want(t, serve(g, newRequest(http.MethodGet, "/?token="+token, as(Viewer), bearer(token))), http.StatusOK, "ann (viewer)")
	for _, bad := range []string{"short", strings.Repeat("x", MinToken-1), "sixteen characters", "sixteen-chäracters"} {
		if _, err := New(Config{Token: bad}); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
