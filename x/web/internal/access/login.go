package access

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"
)

// The paths of the login page, below the root path.
const (
	loginPath    = "/login"
	logoutPath   = "/logout"
	providerPath = "/login/provider"
	callbackPath = "/login/callback"
)

// maxLoginBody bounds the body of the login form, in bytes.
const maxLoginBody = 64 << 10

// loggedOut is the query of the login page after a log-out.
const loggedOut = "out"

// canLogIn reports whether there is a login page.
func (g *Guard) canLogIn() bool { return g.sessions != nil }

// serveLogin serves the paths of the login page and the log-out. It reports whether the request was
// for one of them.
func (g *Guard) serveLogin(w http.ResponseWriter, r *http.Request, q *request, path string) bool {
	if !g.canLogIn() {
		return false
	}
	method := http.MethodGet
	var handle func(http.ResponseWriter, *http.Request, *request)
	switch {
	case path == loginPath && r.Method == http.MethodPost:
		method, handle = http.MethodPost, g.logIn
	case path == loginPath:
		handle = g.showLogin
	case path == logoutPath:
		method, handle = http.MethodPost, g.logOut
	case path == providerPath && g.cfg.Provider != nil:
		handle = g.toProvider
	case path == callbackPath && g.cfg.Provider != nil:
		handle = g.fromProvider
	default:
		return false
	}
	if r.Method != method && (r.Method != http.MethodHead || method != http.MethodGet) {
		g.answer(w, r, &Refusal{Status: http.StatusMethodNotAllowed, Detail: "Method not allowed: " + r.Method + ".", allow: method})
		return true
	}
	handle(w, r, q)
	return true
}

// showLogin shows the login page. It redirects users who are logged in.
func (g *Guard) showLogin(w http.ResponseWriter, r *http.Request, q *request) {
	if q.loggedIn {
		g.redirect(w, r, r.URL.Query().Get("next"))
		return
	}
	page := loginPage{Next: r.URL.Query().Get("next")}
	if r.URL.Query().Has(loggedOut) {
		page.Note = "You are logged out."
		page.LoggedOut = true
	}
	g.writeLogin(w, r, http.StatusOK, page)
}

// logIn handles the login form.
func (g *Guard) logIn(w http.ResponseWriter, r *http.Request, q *request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBody)
	if err := r.ParseForm(); err != nil {
		BadBody(w, r, err)
		return
	}
	page := loginPage{Name: r.PostForm.Get("username"), Next: r.PostForm.Get("next")}
	if g.passwords == nil {
		page.Problem = "There are no users with passwords."
		g.writeLogin(w, r, http.StatusUnauthorized, page)
		return
	}
	if refusal := g.login(r, q, page.Name, r.PostForm.Get("password")); refusal != nil {
		page.Problem = refusal.Detail
		refusal.header(w.Header())
		g.writeLogin(w, r, refusal.Status, page)
		return
	}
	a, _ := g.passwords.account(q.user.Name)
	if a == nil { // removed meanwhile
		page.Problem = wrongPassword
		g.writeLogin(w, r, http.StatusUnauthorized, page)
		return
	}
	g.start(w, r, q, "form", a.set)
	g.redirect(w, r, page.Next)
}

// start replaces the session of the browser by a new one with a new ID.
func (g *Guard) start(w http.ResponseWriter, r *http.Request, q *request, via string, set []byte) {
	for _, c := range r.CookiesNamed(cookieOf(r, loginCookie)) {
		g.sessions.drop(c.Value)
	}
	q.via, q.loggedIn = via, true
	g.setCookie(w, r, loginCookie, g.sessions.create(q.user, via, set), "/", 0)
	g.logged(r, "login")
}

// logOut ends the session of the browser.
func (g *Guard) logOut(w http.ResponseWriter, r *http.Request, q *request) {
	for _, c := range r.CookiesNamed(cookieOf(r, loginCookie)) {
		g.sessions.drop(c.Value)
	}
	if q.session != nil {
		g.logged(r, "logout")
	}
	g.setCookie(w, r, loginCookie, "", "/", -1)
	http.Redirect(w, r, g.cfg.RootPath+loginPath+"?"+loggedOut, http.StatusSeeOther)
}

// redirect redirects to a page of the web UI after a login.
func (g *Guard) redirect(w http.ResponseWriter, r *http.Request, next string) {
	if !g.ownPath(next) {
		next = g.cfg.RootPath + "/"
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// ownPath reports whether a path and query leads to a page of the web UI. Browsers remove control
// characters from URLs and read a backslash as a slash, so neither is accepted.
func (g *Guard) ownPath(next string) bool {
	path, ok := strings.CutPrefix(next, g.cfg.RootPath+"/")
	if !ok || strings.HasPrefix(path, "/") || strings.ContainsFunc(next, func(c rune) bool { return c <= ' ' || c == '\\' || c > '~' }) {
		return false
	}
	u, err := url.Parse(next)
	return err == nil && u.Host == "" && u.Scheme == "" && !strings.Contains(u.Path, "..")
}

// toLogin returns the URL of the login page that leads back to a page.
func (g *Guard) toLogin(next string) string {
	to := g.cfg.RootPath + loginPath
	if g.ownPath(next) && next != g.cfg.RootPath+"/" {
		to += "?next=" + url.QueryEscape(next)
	}
	return to
}

// sendToLogin answers a refused request of a browser: a page redirects to the login page, and a
// script of a page makes the page do so. It reports whether it has answered.
func (g *Guard) sendToLogin(w http.ResponseWriter, r *http.Request) bool {
	switch q := of(r.Context()); {
	case !g.canLogIn() || q.loggedIn || q.api || r.Header.Get("Authorization") != "":
		return false
	case r.Header.Get("Hx-Request") != "":
		page, err := url.Parse(r.Header.Get("Hx-Current-Url"))
		if err != nil {
			page = &url.URL{}
		}
		w.Header().Set("HX-Redirect", g.toLogin(page.RequestURI()))
		return false // other scripts see the status
	case r.Method != http.MethodGet || accepts(r.Header, html...) == 0 || prefersJSON(r.Header):
		return false
	}
	http.Redirect(w, r, g.toLogin(r.URL.RequestURI()), http.StatusSeeOther)
	return true
}

// loginPage is the data of the login page.
type loginPage struct {
	Action, Name, Next  string
	Problem, Note       string
	Passwords           bool
	Provider            string // name of the provider; empty: none
	ToProvider, SignOut string
	LoggedOut           bool
	Style               template.CSS
	ID                  string
}

func (g *Guard) writeLogin(w http.ResponseWriter, r *http.Request, status int, page loginPage) {
	root := g.cfg.RootPath
	page.Action, page.Passwords, page.Style, page.ID = root+loginPath, g.passwords != nil, loginStyle, of(r.Context()).id
	if !g.ownPath(page.Next) {
		page.Next = ""
	}
	if p := g.cfg.Provider; p != nil {
		page.Provider, page.ToProvider = p.Name(), root+providerPath
		if page.Next != "" {
			page.ToProvider += "?next=" + url.QueryEscape(page.Next)
		}
		if page.LoggedOut {
			page.SignOut = p.LogoutURL()
		}
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", loginPolicy)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = loginTemplate.Execute(w, page)
}

// LoginPath returns the path of the login page below the root path if the user can log in there,
// and otherwise "".
func LoginPath(r *http.Request) string {
	if q := of(r.Context()); q.guard != nil && q.guard.canLogIn() && !q.loggedIn {
		return loginPath
	}
	return ""
}

// LogoutPath returns the path that ends the session of the user, below the root path. It is "" if
// the user is logged in by other means.
func LogoutPath(r *http.Request) string {
	if of(r.Context()).session != nil {
		return logoutPath
	}
	return ""
}

const loginStyle = errorStyle + `form{display:grid;gap:12px}label{display:grid;gap:4px;font-weight:600}` +
	`input{box-sizing:border-box;width:100%;padding:8px 10px;font:inherit;color:inherit;border:1px solid light-dark(#cdd2dc,#3a4150);border-radius:7px;background:light-dark(#fff,#0f1116)}` +
	`button{padding:8px 14px;border:0;border-radius:7px;background:light-dark(#4f46e5,#6059f0);color:#fff;font:inherit;font-weight:600;cursor:pointer}` +
	`a:focus-visible,button:focus-visible,input:focus-visible{outline:2px solid light-dark(#4f46e5,#a5a1ff);outline-offset:2px}` +
	`[role=alert]{color:light-dark(#b42318,#fda29b)}main>:not(:last-child){margin-bottom:14px}main>form+p{margin-top:14px}`

// loginPolicy allows the style of the login page and its form.
var loginPolicy = func() string {
	sum := sha256.Sum256([]byte(loginStyle))
	return "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// loginTemplate is the login page. Password managers recognize its fields. It has no scripts.
var loginTemplate = template.Must(template.New("login").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Log in · asynq</title><style>{{.Style}}</style></head>
<body><main id="main"><h1>Log in</h1>
{{with .Note}}<p role="status">{{.}}</p>
{{end}}{{with .Problem}}<p role="alert" id="problem">{{.}}</p>
{{end}}{{if .Passwords}}<form method="post" action="{{.Action}}">
<label>User name<input name="username" value="{{.Name}}" autocomplete="username" autocapitalize="none" spellcheck="false" required{{if .Problem}} aria-describedby="problem"{{end}}{{if not .Name}} autofocus{{end}}></label>
<label>Password<input type="password" name="password" autocomplete="current-password" required{{if .Problem}} aria-describedby="problem"{{end}}{{if .Name}} autofocus{{end}}></label>
{{with .Next}}<input type="hidden" name="next" value="{{.}}">
{{end}}<button>Log in</button>
</form>
{{end}}{{with .Provider}}<p><a href="{{$.ToProvider}}">Log in with {{.}}</a></p>
{{end}}{{with .SignOut}}<p><a href="{{.}}">Also log out of {{$.Provider}}</a></p>
{{end}}{{if .Problem}}<p><small>Request {{.ID}}</small></p>
{{end}}</main></body>
</html>
`))
