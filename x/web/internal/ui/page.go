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
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// view is what a page has to say.
type view struct {
	Template string // name of the file of templates that defines "main"
	Title    string
	Nav      string // path of the entry of the menu that it belongs to
	Body     any
	Status   int  // 200 unless set
	Still    bool // the page is not asked for again when there is a new snapshot
}

// page is what a template is given.
type page struct {
	view
	Now      time.Time
	Snapshot *poll.Snapshot
	Self     string // the URL of this page
	Theme    string // light, dark, or empty: as the system
	Settings settings
	Flash    *flash
	User     access.User
	r        *http.Request
	gate     Gate
}

// Can tells whether who asks may do something.
func (p *page) Can(verb access.Verb) bool { return p.gate.Can(p.r, verb) }

// Troubles is how many verdicts there are of things that need somebody.
func (p *page) Troubles() int {
	n := 0
	for _, v := range p.Snapshot.Health {
		if v.Severity >= poll.Warning {
			n++
		}
	}
	return n
}

// page makes a handler of what tells the contents of a page.
func (u *UI) page(tell func(*http.Request) (*view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !u.Gate.Allow(w, r, u.looks(r)) {
			return
		}
		r = restored(r)
		v, err := tell(r)
		if err != nil {
			v = u.failure(r, err)
		}
		u.render(w, r, v)
	}
}

// change makes a handler of what carries out a form. A view without an error is a question to be answered before it is done, or the form
// again, with what is wrong in it; with neither, the request has been answered.
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

// render answers with a page. It is made in memory first, so that a mistake in a template is not half a page.
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
	if err := pages.execute(&b, v.Template, p); err != nil {
		u.Logger.ErrorContext(r.Context(), "web: a page cannot be shown", "page", v.Template, "error", err)
		http.Error(w, "This page cannot be shown: the server's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(cmp.Or(v.Status, http.StatusOK))
	_, _ = w.Write(b.Bytes()) // the browser has gone, if anything
}

// self is the URL under which a page is asked for again: that of its GET, without what would be a change.
func (u *UI) self(r *http.Request) string {
	self := u.Root + r.URL.EscapedPath()
	if r.Method == http.MethodGet && r.URL.RawQuery != "" {
		self += "?" + r.URL.RawQuery
	}
	return self
}

// httpError is an error that a page tells to who asked, with a status.
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

// badForm tells of a form that cannot be read.
func badForm(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("The form is larger than %d bytes, which is all that this server takes.", large.Limit)}
	}
	return &httpError{http.StatusBadRequest, "The form cannot be read: " + err.Error() + "."}
}

// failure is the page that tells of an error.
func (u *UI) failure(r *http.Request, err error) *view {
	var known *httpError
	var status int
	switch {
	case errors.As(err, &known):
		status = known.status
	case errors.Is(err, asynq.ErrQueueNotFound), errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrSchedulerEntryNotFound):
		status = http.StatusNotFound
	case r.Context().Err() != nil:
		status = 499 // nobody reads it
	default:
		status = http.StatusBadGateway
		u.Logger.WarnContext(r.Context(), "web: Redis could not be asked", "path", r.URL.Path, "error", err)
	}
	title := cmp.Or(http.StatusText(status), "Ended")
	if status == http.StatusBadGateway {
		title = "Redis does not answer" // nobody sees a gateway
	}
	return &view{
		Template: "error", Title: title, Status: status, Still: true,
		Body: failureBody{Status: status, Title: title, Text: sentence(err.Error())},
	}
}

type failureBody struct {
	Status int
	Title  string
	Text   string
}

// sentence makes a sentence of an error's text.
func sentence(s string) string {
	s = strings.TrimPrefix(s, "asynq: ")
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "!") {
		s += "."
	}
	return s
}

// link is the URL of a page: a path and pairs of a parameter's name and value, of which empty ones are left out.
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

// to sends the browser to a page.
func (u *UI) to(w http.ResponseWriter, r *http.Request, path string, pairs ...any) (*view, error) {
	target, err := u.link(path, pairs...)
	if err != nil {
		return nil, err
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
	return nil, nil
}

// templates are the parsed pages, by name.
type templates map[string]*template.Template

func (t templates) execute(b *bytes.Buffer, name string, p *page) error {
	page, ok := t[name]
	if !ok {
		return fmt.Errorf("there is no template %s", name)
	}
	return page.ExecuteTemplate(b, "layout", p)
}
