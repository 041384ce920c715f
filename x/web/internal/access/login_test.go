package access

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// browser is a browser with its cookies, on another machine.
type browser struct {
	g      *Guard
	cookie map[string]string
}

func newBrowser(g *Guard) *browser { return &browser{g: g, cookie: map[string]string{}} }

// send sends a request as a browser does for a navigation, and keeps the cookies of the response.
func (b *browser) send(method, target, form string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form))
	r.Host, r.RemoteAddr = "ops.example.com:8443", "192.0.2.1:9"
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range b.cookie {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for _, edit := range edits {
		edit(r)
	}
	w := serve(b.g, r)
	for _, c := range w.Result().Cookies() {
		b.cookie[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookie, c.Name)
		}
	}
	return w
}

func (b *browser) get(target string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	return b.send(http.MethodGet, target, "", edits...)
}

func (b *browser) logIn(name, password string) *httptest.ResponseRecorder {
	form := url.Values{"username": {name}, "password": {password}}
	return b.send(http.MethodPost, b.g.cfg.RootPath+"/login", form.Encode())
}

// leads checks that a response redirects to a URL.
func leads(t *testing.T, w *httptest.ResponseRecorder, to string) {
	t.Helper()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
		t.Errorf("status %d, Location %q, want 303 to %q: %s", w.Code, w.Header().Get("Location"), to, w.Body)
	}
}

var bob = []User{{Name: "bob", Password: "p", Role: Operator}}

func TestLoginPage(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"", "/ops"} {
		g, log := newGuard(t, Config{RootPath: root, Users: bob})
		b := newBrowser(g)
		leads(t, b.get(root+"/"), root+"/login")
		leads(t, b.get(root+"/queue?queue=a%26b"), root+"/login?next="+url.QueryEscape(root+"/queue?queue=a%26b"))
		w := b.get(root + "/login?next=" + url.QueryEscape(root+"/queue?queue=a"))
		page := w.Body.String()
		want(t, w, http.StatusOK)
		for _, part := range []string{`action="` + root + `/login"`, `autocomplete="username"`, `autocomplete="current-password"`, `name="next" value="` + root + `/queue?queue=a"`} {
			if !strings.Contains(page, part) {
				t.Errorf("the page lacks %s:\n%s", part, page)
			}
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self'") || strings.Contains(policy, "script-src") || strings.Contains(page, "<script") {
			t.Errorf("policy %q", policy)
		}

		w = b.logIn("bob", "wrong")
		want(t, w, http.StatusUnauthorized)
		if !strings.Contains(w.Body.String(), wrongPassword) || w.Header().Get("WWW-Authenticate") != "" || len(b.cookie) != 0 || strings.Contains(w.Body.String(), `"wrong"`) {
			t.Errorf("a wrong password: %v %s", w.Header(), w.Body)
		}
		leads(t, b.logIn("bob", "p"), root+"/")
		id := b.cookie["asynq_login_8443"]
		if len(id) != 43 {
			t.Fatalf("cookies %v", b.cookie)
		}
		want(t, b.get(root+"/"), http.StatusOK, "bob (operator)")
		want(t, b.get(root+"/api/queues"), http.StatusOK, "bob (operator)")
		leads(t, b.get(root+"/login"), root+"/")
		leads(t, b.logIn("bob", "p"), root+"/")
		if b.cookie["asynq_login_8443"] == id || len(g.sessions.byID) != 1 {
			t.Errorf("a login kept the ID of the session, or the session: %d", len(g.sessions.byID))
		}
		id = b.cookie["asynq_login_8443"]
		leads(t, b.send(http.MethodPost, root+"/logout", "a=b"), root+"/login?out")
		if w := b.get(root + "/login?out"); !strings.Contains(w.Body.String(), "You are logged out.") {
			t.Error(w.Body)
		}
		b.cookie["asynq_login_8443"] = id
		leads(t, b.get(root+"/"), root+"/login")
		if text := log.String(); strings.Contains(text, id) || strings.Contains(text, "wrong\"") {
			t.Errorf("a secret is logged: %s", text)
		}
		if n, m := len(log.lines(t, "login")), len(log.lines(t, "logout")); n != 2 || m != 1 {
			t.Errorf("%d logins and %d log-outs are logged", n, m)
		}
	}
}

func TestLoginCookie(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{RootPath: "/ops", Users: bob})
	for _, c := range []struct {
		edit   func(*http.Request)
		secure bool
	}{{header("X", "1"), false}, {header("X-Forwarded-Proto", "https"), true}, {header("Origin", "https://ops.example.com:8443"), true}} {
		w := newBrowser(g).send(http.MethodPost, "/ops/login", "username=bob&password=p", c.edit)
		cookies := w.Result().Cookies()
		if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].Path != "/ops/" || cookies[0].Secure != c.secure || cookies[0].MaxAge != 0 {
			t.Errorf("cookies %+v, want Secure %v", cookies, c.secure)
		}
	}
}

// Scripts and the APIs receive 401 instead of the login page, and scripts of pages do not make the
// browser open its own dialog.
func TestLoginOfScripts(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Users: bob})
	b := newBrowser(g)
	for _, c := range []struct {
		name   string
		w      *httptest.ResponseRecorder
		dialog bool
	}{
		{"curl", b.get("/", header("Accept", "*/*")), true},
		{"API", b.get("/api/queues", header("Accept", "application/json")), true},
		{"API in a browser", b.get("/api/v2/queues", header("Sec-Fetch-Mode", "navigate")), true},
		{"fetch", b.get("/api/queues", header("Sec-Fetch-Mode", "cors")), false},
		{"events", b.get("/events", header("Accept", "text/event-stream")), false},
		{"wrong password", b.get("/", basic("bob", "q")), true},
		{"form", b.send(http.MethodPost, "/queue", "a=b", header("Sec-Fetch-Mode", "navigate")), false},
	} {
		want(t, c.w, http.StatusUnauthorized)
		if got := c.w.Header().Get("WWW-Authenticate") != ""; got != c.dialog {
			t.Errorf("%s: WWW-Authenticate %v, want %v", c.name, got, c.dialog)
		}
	}
	w := b.get("/queues", header("Hx-Request", "true"), header("Hx-Current-Url", "https://ops.example.com:8443/queue?queue=a"))
	want(t, w, http.StatusUnauthorized)
	if to := w.Header().Get("HX-Redirect"); to != "/login?next=%2Fqueue%3Fqueue%3Da" {
		t.Errorf("HX-Redirect %q", to)
	}
	// Basic authentication takes precedence over a session, and works without one.
	want(t, b.get("/", basic("bob", "p")), http.StatusOK, "bob (operator)")
	if len(b.cookie) > 0 {
		t.Errorf("cookies %v", b.cookie)
	}
	w = b.send(http.MethodDelete, "/login", "")
	want(t, w, http.StatusMethodNotAllowed)
	want(t, b.get("/logout"), http.StatusMethodNotAllowed)
}

// A page of another site can neither log in nor log out a browser.
func TestLoginFromOtherOrigins(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Users: bob})
	b := newBrowser(g)
	evil := header("Sec-Fetch-Site", "cross-site")
	want(t, b.send(http.MethodPost, "/login", "username=bob&password=p", evil), http.StatusForbidden)
	b.logIn("bob", "p")
	want(t, b.send(http.MethodPost, "/logout", "a=b", evil), http.StatusForbidden)
	want(t, b.get("/"), http.StatusOK, "bob (operator)")
}

func TestLoginNext(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"", "/ops"} {
		g, _ := newGuard(t, Config{RootPath: root, Users: bob})
		for next, ok := range map[string]bool{
			root + "/": true, root + "/queue?queue=//a": true, root + "/tasks?filter=a%0Ab": true,
			"": false, "//evil.com": false, root + "//evil.com": false, `/\evil.com`: false, root + `/\evil.com`: false, "/\t/evil.com": false,
			"https://evil.com/": false, "javascript:alert(1)": false, root + "/../evil": false, root + "/%2e%2e/x": false, "evil.com": false, root + "/a b": false,
		} {
			if g.ownPath(next) != ok {
				t.Errorf("root %q: %q accepted: %v", root, next, !ok)
			}
			to := root + "/"
			if ok {
				to = next
			}
			w := newBrowser(g).send(http.MethodPost, root+"/login", url.Values{"username": {"bob"}, "password": {"p"}, "next": {next}}.Encode())
			leads(t, w, to)
		}
	}
}

// The form has the limits of basic authentication, and shares them with it.
func TestLoginIsThrottled(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Users: []User{{Name: "bob", Password: hash(t, "p", 4), Role: Viewer}}})
	b := newBrowser(g)
	for range 5 {
		want(t, b.logIn("bob", "q"), http.StatusUnauthorized)
		want(t, b.get("/", basic("bob", "q")), http.StatusUnauthorized)
	}
	w := b.logIn("bob", "p")
	want(t, w, http.StatusTooManyRequests)
	if w.Header().Get("Retry-After") == "" || len(b.cookie) > 0 {
		t.Errorf("%v", w.Header())
	}
	if w := b.send(http.MethodPost, "/login", "username="+strings.Repeat("a", maxLoginBody)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a long form: %d", w.Code)
	}
}

func TestSessionsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t, Config{Users: bob, SessionIdle: time.Hour, SessionMax: 3 * time.Hour})
		b := newBrowser(g)
		b.logIn("bob", "p")
		for range 3 {
			time.Sleep(59 * time.Minute)
			want(t, b.get("/"), http.StatusOK, "bob (operator)")
		}
		time.Sleep(4 * time.Minute)
		leads(t, b.get("/"), "/login") // after SessionMax
		b.logIn("bob", "p")
		time.Sleep(time.Hour)
		leads(t, b.get("/"), "/login") // after SessionIdle
		b.logIn("bob", "p")
		for range 3 {
			newBrowser(g).logIn("bob", "p")
		}
		time.Sleep(2 * time.Hour)
		b.logIn("bob", "p")
		if n := len(g.sessions.byID); n != 1 {
			t.Errorf("%d sessions are stored", n)
		}
		b.send(http.MethodPost, "/logout", "a=b") // ends its timer
	})
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Hour, time.Hour)
	first, second := s.create(bob[0], "form", nil), s.create(bob[0], "form", nil)
	for range maxSessions - 2 {
		s.create(bob[0], "form", nil)
	}
	if s.find(first) == nil {
		t.Error("the first session ended too early")
	}
	s.create(bob[0], "form", nil)
	if len(s.byID) != maxSessions || s.find(first) == nil || s.find(second) != nil {
		t.Errorf("%d sessions; the one that was idle for the longest time remains: %v", len(s.byID), s.find(second) != nil)
	}
	s.dropIf(func(*session) bool { return true })
}

// SetUsers ends the sessions of removed users and of those with another password, and their
// requests; others continue with their current role.
func TestSetUsers(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Users: []User{{Name: "ann", Password: "a", Role: Admin}, {Name: "bob", Password: "p", Role: Operator}, {Name: "eve", Password: "e", Role: Viewer}}})
	ann, bob, eve := newBrowser(g), newBrowser(g), newBrowser(g)
	ann.logIn("ann", "a")
	bob.logIn("bob", "p")
	eve.logIn("eve", "e")
	stream := make(chan struct{})
	began := make(chan struct{})
	go func() {
		defer close(stream)
		r := httptest.NewRequest(http.MethodGet, "/events", http.NoBody)
		r.Host = "ops.example.com:8443"
		r.AddCookie(&http.Cookie{Name: "asynq_login_8443", Value: eve.cookie["asynq_login_8443"]})
		g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
		})).ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-began
	for _, users := range [][]User{nil, {{Name: "ann"}}, {{Name: "ann", Password: "a", Role: Admin}, {Name: "ann", Password: "a", Role: Admin}}} {
		if g.SetUsers(users) == nil {
			t.Errorf("%v is accepted", users)
		}
	}
	want(t, eve.get("/"), http.StatusOK, "eve (viewer)")
	if err := g.SetUsers([]User{{Name: "ann", Password: "new", Role: Admin}, {Name: "bob", Password: "p", Role: Viewer}}); err != nil {
		t.Fatal(err)
	}
	<-stream
	leads(t, ann.get("/"), "/login")
	leads(t, eve.get("/"), "/login")
	want(t, bob.get("/"), http.StatusOK, "bob (viewer)")
	want(t, eve.logIn("eve", "e"), http.StatusUnauthorized)
	want(t, ann.logIn("ann", "a"), http.StatusUnauthorized)
	leads(t, ann.logIn("ann", "new"), "/")
	none, _ := newGuard(t, Config{Anonymous: Viewer})
	if none.SetUsers([]User{{Name: "ann", Password: "a", Role: Admin}}) == nil {
		t.Error("users are accepted without Users")
	}
}

func TestLoginAndLogoutPath(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t, Config{Users: bob, Anonymous: Viewer})
	paths := func(b *browser, edits ...func(*http.Request)) (in, out string) {
		r := newRequest(http.MethodGet, "/", edits...)
		r.Host = "ops.example.com:8443"
		for name, value := range b.cookie {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { in, out = LoginPath(r), LogoutPath(r) })).ServeHTTP(httptest.NewRecorder(), r)
		return in, out
	}
	b := newBrowser(g)
	if in, out := paths(b); in != "/login" || out != "" {
		t.Errorf("anonymous: %q %q", in, out)
	}
	if in, out := paths(b, basic("bob", "p")); in != "" || out != "" {
		t.Errorf("basic authentication: %q %q", in, out)
	}
	b.logIn("bob", "p")
	if in, out := paths(b); in != "" || out != "/logout" {
		t.Errorf("session: %q %q", in, out)
	}
	if r := newRequest(http.MethodGet, "/"); LoginPath(r) != "" || LogoutPath(r) != "" {
		t.Error("paths without Wrap")
	}
}
