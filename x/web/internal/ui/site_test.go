package ui

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"golang.org/x/net/html"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// site is the pages over a miniredis. What its poller has seen is what the test says.
type site struct {
	*testing.T
	ui        *UI
	redis     *miniredis.Miniredis
	opt       asynq.RedisClientOpt
	inspector *asynq.Inspector
	client    *asynq.Client
	gate      *fakeGate
	poller    *fakePoller
	now       time.Time
	cookies   []*http.Cookie
}

const root = "/mounted"

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	s := &site{T: t, redis: miniredis.RunT(t), gate: new(fakeGate), poller: &fakePoller{snapshot: new(poll.Snapshot)}}
	s.now = time.Now().UTC().Truncate(time.Second)
	s.opt = asynq.RedisClientOpt{Addr: s.redis.Addr()}
	s.inspector, s.client = asynq.NewInspector(s.opt), asynq.NewClient(s.opt)
	t.Cleanup(func() { _, _ = s.inspector.Close(), s.client.Close() })
	s.ui = New(Config{
		Root: root, Inspector: s.inspector, Client: s.client, Poller: s.poller, Gate: s.gate, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	s.ui.now = func() time.Time { return s.now }
	return s
}

// fakeGate lets everything pass but one verb, and remembers what was done.
type fakeGate struct {
	mu     sync.Mutex
	refuse access.Verb
	done   []string
}

func (g *fakeGate) Allow(w http.ResponseWriter, r *http.Request, a access.Action) bool {
	if !g.Can(r, a.Verb) {
		http.Error(w, "refused", http.StatusForbidden)
		return false
	}
	return true
}

func (g *fakeGate) Can(_ *http.Request, v access.Verb) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return v != g.refuse
}

func (g *fakeGate) Done(_ *http.Request, a access.Action, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done = append(g.done, fmt.Sprintf("%s queue=%s task=%s entry=%s ok=%v", a.Verb, a.Queue, a.TaskID, a.Entry, err == nil))
}

type fakePoller struct {
	mu       sync.Mutex
	snapshot *poll.Snapshot
	details  func() (*poll.Details, error)
	asked    int // for details
	woken    int
	spans    []time.Duration
}

func (p *fakePoller) Latest() *poll.Snapshot { return p.snapshot }

func (p *fakePoller) History(_ string, metrics []poll.Metric, span time.Duration) poll.Series {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spans = append(p.spans, span)
	values := make(map[poll.Metric][]float64)
	for _, m := range metrics {
		values[m] = []float64{1, 2, 3}
	}
	return poll.Series{Known: true, Step: 2, Times: []int64{2, 4, 6}, Values: values}
}

func (p *fakePoller) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken++
}

func (p *fakePoller) RedisDetails(context.Context) (*poll.Details, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.details == nil {
		return new(poll.Details), nil
	}
	return p.details()
}

// answer is what the pages said.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	doc    *html.Node
	body   string
}

// send sends a request, with the cookies of the answers before, as a browser does.
func (s *site) send(r *http.Request) *answer {
	s.Helper()
	for _, c := range s.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	s.ui.ServeHTTP(w, r)
	got := w.Result()
	for _, c := range got.Cookies() {
		kept := s.cookies[:0]
		for _, old := range s.cookies {
			if old.Name != c.Name {
				kept = append(kept, old)
			}
		}
		s.cookies = kept
		if c.MaxAge >= 0 {
			s.cookies = append(s.cookies, c)
		}
	}
	doc, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		s.Fatal(err)
	}
	return &answer{t: s.T, status: got.StatusCode, header: got.Header, doc: doc, body: w.Body.String()}
}

// get asks for a page, which must be there.
func (s *site) get(path string, pairs ...string) *answer {
	s.Helper()
	a := s.send(httptest.NewRequest(http.MethodGet, target(path, pairs), nil))
	if a.status != http.StatusOK {
		s.Fatalf("GET %s: status %d: %s", path, a.status, a.text("main"))
	}
	return a
}

func (s *site) post(path string, pairs ...string) *answer {
	s.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(strings.TrimPrefix(target("", pairs), "?")))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(r)
}

func target(path string, pairs []string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

// all lists the elements of a kind, or with a class (".tag"), or an ID ("#now"), in the order of the page.
func (a *answer) all(what string) []*html.Node { return within(a.doc, what) }

func within(top *html.Node, what string) []*html.Node {
	var found []*html.Node
	for n := range top.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch name, ok := strings.CutPrefix(what, "."); {
		case ok && strings.Contains(" "+attr(n, "class")+" ", " "+name+" "),
			strings.HasPrefix(what, "#") && attr(n, "id") == what[1:],
			n.Data == what:
			found = append(found, n)
		}
	}
	return found
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text is what the first of the elements says, with single spaces; empty if there is none.
func (a *answer) text(what string) string {
	for _, n := range a.all(what) {
		return textOf(n)
	}
	return ""
}

func textOf(top *html.Node) string {
	var b strings.Builder
	for n := range top.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// row is the text of the table row that has a heading or a cell with this text.
func (a *answer) row(has string) string {
	a.t.Helper()
	for _, tr := range a.all("tr") {
		if text := textOf(tr); strings.Contains(text, has) {
			return text
		}
	}
	a.t.Fatalf("no row has %q: %s", has, a.text("main"))
	return ""
}

// leads tells whether a link of the page leads to a path with exactly these parameters.
func (a *answer) leads(path string, pairs ...string) bool {
	want, _ := url.ParseQuery(strings.TrimPrefix(target("", pairs), "?"))
	for _, link := range a.all("a") {
		u, err := url.Parse(attr(link, "href"))
		if err == nil && u.Path == root+path && u.Query().Encode() == want.Encode() {
			return true
		}
	}
	return false
}

// sound holds what must be so of every page, whatever it shows.
func (a *answer) sound() {
	a.t.Helper()
	for _, n := range a.all("script") {
		if attr(n, "src") == "" || n.FirstChild != nil {
			a.t.Errorf("the page has a script in it: %s", textOf(n))
		}
	}
	ids := make(map[string]bool)
	for n := range a.doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "b" && attr(n, "onclick") != "" || n.Data == "img" && attr(n, "src") == "x" {
			a.t.Errorf("a name made an element: %v", n.Attr)
		}
		for _, at := range n.Attr {
			if strings.HasPrefix(at.Key, "on") || at.Key == "style" || at.Key == "hx-on" {
				a.t.Errorf("<%s> has %s=%q, which the policy forbids", n.Data, at.Key, at.Val)
			}
			if (at.Key == "href" || at.Key == "action" || at.Key == "src") && !strings.HasPrefix(at.Val, root+"/") && !strings.HasPrefix(at.Val, "#") {
				a.t.Errorf("<%s> leads out: %s", n.Data, at.Val)
			}
		}
		if id := attr(n, "id"); id != "" {
			if ids[id] {
				a.t.Errorf("two elements have the ID %q", id)
			}
			ids[id] = true
		}
	}
}

// hostileNames are names that queues, tasks, types and hosts may have.
var hostileNames = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'"`, "a\nb\r\nc", "..", "/", "a/../b", "%2F", "a?b=c&d#e", "javascript:alert(1)",
	"\u202egnp.exe", "\u200b", "{{.}}", "\xff\xfe", strings.Repeat("long ", 200), "naïve 名前 🙂", " ",
}
