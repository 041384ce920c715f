package ui_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"golang.org/x/net/html"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/survey"
	"github.com/asynq-go/asynq/x/web/internal/ui"
)

// gate lets everything through but what is refused, and remembers what was done.
type gate struct {
	mu      sync.Mutex
	refused []access.Verb
	done    []string
}

func (g *gate) Allow(w http.ResponseWriter, r *http.Request, a access.Action) bool {
	if !g.Can(r, a.Verb) {
		http.Error(w, "refused", http.StatusForbidden)
		return false
	}
	return true
}

func (g *gate) Can(_ *http.Request, v access.Verb) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.Contains(g.refused, v)
}

func (g *gate) Done(_ *http.Request, a access.Action, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done = append(g.done, fmt.Sprintf("%s %s/%s %d %v", a.Verb, a.Queue, a.TaskID, a.Count, err == nil))
}

// log is what was done so far, and forgotten then.
func (g *gate) log() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() { g.done = nil }()
	return g.done
}

// site is the pages on a Redis of their own.
type site struct {
	t         *testing.T
	ui        *ui.UI
	gate      *gate
	opt       asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	poller    *poll.Poller
	bulk      *bulk.Manager
	survey    *survey.Survey
	cookies   map[string]*http.Cookie
}

func newSite(t *testing.T, change func(*ui.Config)) *site {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	s := &site{t: t, gate: &gate{}, opt: asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}, cookies: map[string]*http.Cookie{}}
	redis, _, _, err := asynq.ConnectRedis(s.opt)
	if err != nil {
		t.Fatal(err)
	}
	shared := asynq.SharedRedisClient(redis)
	s.client, s.inspector = asynq.NewClient(shared), asynq.NewInspector(shared)
	s.poller = poll.New(poll.Config{Source: poll.NewSource(s.inspector, redis), Logger: quiet})
	s.poller.Start()
	s.bulk = bulk.New(bulk.Config{Inspector: s.inspector, Logger: quiet})
	s.survey = survey.New(survey.Config{Inspector: s.inspector, Logger: quiet})
	t.Cleanup(func() {
		_ = s.bulk.Close()
		s.survey.Close()
		s.poller.Close()
		_ = redis.Close()
	})
	cfg := ui.Config{
		Root: "/mon", Inspector: s.inspector, Client: s.client, Poller: s.poller, Gate: s.gate, Events: s.poller.Events, Bulk: s.bulk, Survey: s.survey, Logger: quiet,
	}
	if change != nil {
		change(&cfg)
	}
	s.ui = ui.New(cfg)
	s.look()
	return s
}

// look has the poller see what is there now.
func (s *site) look() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := s.poller.Fresh(ctx, time.Now()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) enqueue(task *asynq.Task, opts ...asynq.Option) *asynq.TaskInfo {
	s.t.Helper()
	info, err := s.client.Enqueue(task, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	return info
}

// archived puts a task into the archive that failed with an error.
func (s *site) archived(task *asynq.Task, text string, opts ...asynq.Option) *asynq.TaskInfo {
	s.t.Helper()
	info := s.enqueue(task, append(opts, asynq.MaxRetry(0))...)
	ended := make(chan struct{})
	srv := asynq.NewServer(s.opt, asynq.Config{
		Concurrency: 1, Queues: map[string]int{info.Queue: 1}, Logger: asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { close(ended); return errors.New(text) })); err != nil {
		s.t.Fatal(err)
	}
	<-ended
	srv.Shutdown()
	return s.find(info)
}

func (s *site) find(info *asynq.TaskInfo) *asynq.TaskInfo {
	s.t.Helper()
	now, err := s.inspector.GetTaskInfo(info.Queue, info.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return now
}

// answer is a response, read and parsed.
type answer struct {
	t    *testing.T
	code int
	head http.Header
	body string
	doc  *html.Node
}

func (s *site) do(r *http.Request) *answer {
	s.t.Helper()
	for _, c := range s.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	s.ui.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if delete(s.cookies, c.Name); c.MaxAge > 0 {
			s.cookies[c.Name] = c
		}
	}
	a := &answer{t: s.t, code: w.Code, head: w.Header(), body: w.Body.String()}
	var err error
	if a.doc, err = html.Parse(strings.NewReader(a.body)); err != nil {
		s.t.Fatal(err)
	}
	return a
}

// get asks for a page by its path, or by a link of another page.
func (s *site) get(path string, pairs ...string) *answer {
	s.t.Helper()
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return s.do(httptest.NewRequest(http.MethodGet, "http://site"+strings.TrimPrefix(path, "/mon"), nil))
}

func (s *site) post(path string, form url.Values) *answer {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://site"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.do(r)
}

// follow goes where a redirect leads.
func (s *site) follow(a *answer) *answer {
	s.t.Helper()
	if a.code != http.StatusSeeOther {
		s.t.Fatalf("answered %d, want a redirect: %s", a.code, a.text("main"))
	}
	return s.get(a.head.Get("Location"))
}

// submit sends a form of a page again, with changes.
func (s *site) submit(form *html.Node, pairs ...string) *answer {
	s.t.Helper()
	values := url.Values{}
	for n := range form.Descendants() {
		switch {
		case n.Data == "input" && (attr(n, "type") == "hidden" || attr(n, "type") == "text" || attr(n, "checked") == "set"):
			values.Add(attr(n, "name"), attr(n, "value"))
		case n.Data == "textarea":
			values.Add(attr(n, "name"), strings.ReplaceAll(inner(n), "\n", "\r\n"))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return s.post(strings.TrimPrefix(attr(form, "action"), "/mon"), values)
}

// all are the elements of a name, with an attribute of a value where these are given.
func (a *answer) all(name string, attrs ...string) []*html.Node {
	var found []*html.Node
	for n := range a.doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != name {
			continue
		}
		fits := true
		for i := 0; i < len(attrs); i += 2 {
			fits = fits && attr(n, attrs[i]) == attrs[i+1]
		}
		if fits {
			found = append(found, n)
		}
	}
	return found
}

func (a *answer) one(name string, attrs ...string) *html.Node {
	a.t.Helper()
	found := a.all(name, attrs...)
	if len(found) != 1 {
		a.t.Fatalf("%d elements %s %q, want one: %s", len(found), name, attrs, a.text("main"))
	}
	return found[0]
}

// text is what an element says, in one line.
func (a *answer) text(name string, attrs ...string) string {
	var texts []string
	for _, n := range a.all(name, attrs...) {
		texts = append(texts, strings.Join(strings.Fields(inner(n)), " "))
	}
	return strings.Join(texts, " ")
}

// rows are the rows of tasks on a page.
func (a *answer) ids() []string {
	var ids []string
	for _, box := range a.all("input", "name", "id", "type", "checkbox") {
		ids = append(ids, attr(box, "value"))
	}
	return ids
}

// form is the form that is sent to a path.
func (a *answer) form(action string) *html.Node {
	a.t.Helper()
	forms := a.all("form", "action", "/mon"+action, "method", "post")
	if len(forms) == 0 {
		a.t.Fatalf("there is no form for %s: %s", action, a.text("main"))
	}
	return forms[0]
}

// attr is an attribute; one without a value is "set".
func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			if a.Val == "" && (name == "checked" || name == "disabled") {
				return "set"
			}
			return a.Val
		}
	}
	return ""
}

func inner(n *html.Node) string {
	var b bytes.Buffer
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// checkSafe fails where a page has what the content security policy refuses, or a name has become markup.
func (a *answer) checkSafe() {
	a.t.Helper()
	for n := range a.doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" && !strings.HasPrefix(attr(n, "src"), "/mon/static/") || n.Data == "style" || n.Data == "img" && !strings.HasPrefix(attr(n, "src"), "/mon/static/") {
			a.t.Errorf("there is an element %s: %q", n.Data, inner(n))
		}
		for _, at := range n.Attr {
			if strings.HasPrefix(at.Key, "on") || at.Key == "style" {
				a.t.Errorf("%s has an attribute %s", n.Data, at.Key)
			}
			if (at.Key == "href" || at.Key == "action") && !strings.HasPrefix(at.Val, "/mon/") && at.Val != "#main" {
				a.t.Errorf("%s leads to %q", n.Data, at.Val)
			}
		}
	}
}
