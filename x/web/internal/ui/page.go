package ui

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// view is the content of a page.
type view struct {
	Template string // name of the template file that defines "main"
	Title    string
	Nav      string // path of the page's menu entry
	Body     any
	Status   int  // the default is 200
	Still    bool // the page is not reloaded after snapshots
}

// page is the data of a template.
type page struct {
	view
	Now      time.Time
	Snapshot *poll.Snapshot
	Self     string // the URL of this page
	Theme    string // light, dark, or empty for the system's
	Settings settings
	Flash    *flash
	User     access.User
	r        *http.Request
	gate     Gate
}

// Can reports whether the user has a permission.
func (p *page) Can(verb access.Verb) bool { return p.gate.Can(p.r, verb) }

// SignInHint returns how to sign in, for users who may only view because they have not signed in.
func (p *page) SignInHint() string { return access.SignInHint(p.r.Context()) }

// LoginPath returns the path of the login page if the user can log in there, and otherwise "".
func (p *page) LoginPath() string { return access.LoginPath(p.r) }

// LogoutPath returns the path that ends the user's session, or "" if there is none.
func (p *page) LogoutPath() string { return access.LogoutPath(p.r) }

// Troubles returns the number of causes that require attention.
func (p *page) Troubles() int {
	n := 0
	for _, c := range p.Snapshot.Health.Causes {
		if c.Severity >= health.Warning {
			n++
		}
	}
	return n
}

// page returns a handler that renders the view that content returns.
func (u *UI) page(content func(*http.Request) (*view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !u.Gate.Allow(w, r, u.viewAction(r)) {
			return
		}
		r = restored(r)
		v, err := content(r)
		if err != nil {
			v = u.failure(r, err)
		}
		u.render(w, r, v)
	}
}

// change returns a handler of a form. If do returns a view without an error, the view is a
// confirmation or the form with its errors. If it returns neither, it has answered the request.
func (u *UI) change(do func(http.ResponseWriter, *http.Request) (*view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			u.render(w, r, u.failure(r, badForm(err)))
			return
		}
		restore(r.PostForm)
		v, err := do(w, r)
		if err != nil {
			v = u.failure(r, err)
		}
		if v != nil {
			u.render(w, r, v)
		}
	}
}

// render writes a page. It renders into memory first, so that a template error does not leave half
// a page.
func (u *UI) render(w http.ResponseWriter, r *http.Request, v *view) {
	p := &page{
		view: *v, Now: u.now(), Snapshot: u.Poller.Latest(), Self: u.self(r), Theme: theme(r), Settings: settingsOf(r), Flash: takeFlash(w, r, u.Root),
		User: access.UserFrom(r.Context()), r: r, gate: u.Gate,
	}
	var b bytes.Buffer
	pages := u.templates
	if p.Settings.Times != "relative" {
		pages = u.exact
	}
	layout := "layout"
	version, live := r.Header[liveHeader]
	if live {
		layout = "live"
	}
	if err := pages.execute(&b, v.Template, layout, p); err != nil {
		u.Logger.ErrorContext(r.Context(), "web: render page", "page", v.Template, "error", err)
		http.Error(w, "This page could not be rendered. See the server's log.", http.StatusInternalServerError)
		return
	}
	text := b.Bytes()
	if r.Method == http.MethodGet && !v.Still {
		var changed bool
		if text, changed = u.contents.deliver(text, strings.Join(version, "")); !changed {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(cmp.Or(v.Status, http.StatusOK))
	_, _ = w.Write(text) // fails only if the client has disconnected
}

// self returns the URL for reloading a page: its GET, without parameters that cause changes.
func (u *UI) self(r *http.Request) string {
	self := u.Root + r.URL.EscapedPath()
	if r.Method == http.MethodGet && r.URL.RawQuery != "" {
		self += "?" + r.URL.RawQuery
	}
	return self
}

// httpError is an error with a status, whose text is shown to the user.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

func notFound(format string, args ...any) error {
	return &httpError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return &httpError{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}

// badForm returns the error of a form that could not be parsed.
func badForm(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("The form is larger than the limit of %d bytes.", large.Limit)}
	}
	return &httpError{http.StatusBadRequest, "The form could not be read: " + err.Error() + "."}
}

// failure returns the page of an error.
func (u *UI) failure(r *http.Request, err error) *view {
	var known *httpError
	var status int
	switch {
	case errors.As(err, &known):
		status = known.status
	case errors.Is(err, asynq.ErrQueueNotFound), errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrSchedulerEntryNotFound), errors.Is(err, asynq.ErrServerNotFound):
		status = http.StatusNotFound
	case r.Context().Err() != nil:
		status = 499 // the client has disconnected
	default:
		status = http.StatusBadGateway
		u.Logger.WarnContext(r.Context(), "web: request failed", "path", r.URL.Path, "error", err)
	}
	title, text := cmp.Or(http.StatusText(status), "Canceled"), err.Error()
	if status == http.StatusBadGateway {
		title, text = "Could not load the page", show.RedisError(err) // "Gateway Timeout" would mislead: there is no gateway
	}
	return &view{
		Template: "error", Title: title, Status: status, Still: true,
		Body: failureBody{Status: status, Title: title, Text: sentence(text)},
	}
}

type failureBody struct {
	Status int
	Title  string
	Text   string
}

// sentence formats the text of an error as a sentence, without a status code such as NOT_FOUND.
func sentence(s string) string {
	s = strings.TrimPrefix(s, "asynq: ")
	if code, rest, ok := strings.Cut(s, ": "); ok && strings.Contains(code, "_") && code == strings.ToUpper(code) {
		s = rest
	}
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "!") {
		s += "."
	}
	return s
}

// link returns the URL of a page: its path with pairs of parameter names and values. Empty values
// are omitted.
func (u *UI) link(path string, pairs ...any) (string, error) {
	if len(pairs)%2 != 0 {
		return "", fmt.Errorf("link %s: a parameter has no value", path)
	}
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if value := fmt.Sprint(pairs[i+1]); value != "" {
			q.Set(fmt.Sprint(pairs[i]), value)
		}
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return u.Root + path, nil
}

// to redirects the browser to a page.
func (u *UI) to(w http.ResponseWriter, r *http.Request, path string, pairs ...any) (*view, error) {
	target, err := u.link(path, pairs...)
	if err != nil {
		return nil, err
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
	return nil, nil
}

// templates are the parsed pages by name.
type templates map[string]*template.Template

func (t templates) execute(b *bytes.Buffer, name, layout string, p *page) error {
	page, ok := t[name]
	if !ok {
		return fmt.Errorf("unknown template %s", name)
	}
	return page.ExecuteTemplate(b, layout, p)
}
