package ui_test

import (
	"cmp"
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
	"github.com/asynq-go/asynq/x/web/internal/prom"
	"github.com/asynq-go/asynq/x/web/internal/survey"
	"github.com/asynq-go/asynq/x/web/internal/ui"
)

// insight is the pages over a miniredis, with a survey.
type insight struct {
	*testing.T
	ui        *ui.UI
	redis     *miniredis.Miniredis
	inspector *asynq.Inspector
	survey    *survey.Survey
	gate      *insightGate
	poller    *insightPoller
	imports   int
}

const insightRoot = "/mon"

func newInsight(t *testing.T, prometheus string) *insight {
	t.Helper()
	t.Parallel()
	return newInsightFor(t, prometheus)
}

func newInsightFor(t *testing.T, prometheus string) *insight {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	s := &insight{T: t, redis: miniredis.RunT(t), gate: new(insightGate), poller: &insightPoller{snapshot: &poll.Snapshot{At: time.Now()}}}
	opt := asynq.RedisClientOpt{Addr: s.redis.Addr()}
	s.inspector = asynq.NewInspector(opt)
	s.survey = survey.New(survey.Config{Inspector: s.inspector, Logger: quiet})
	operations := bulk.New(bulk.Config{Inspector: s.inspector, Logger: quiet})
	rates := prom.New(prometheus, quiet)
	t.Cleanup(func() {
		_ = operations.Close()
		s.survey.Close()
		rates.Close()
		_ = s.inspector.Close()
	})
	s.ui = ui.New(ui.Config{
		Root: insightRoot, Inspector: s.inspector, Poller: s.poller, Gate: s.gate, Logger: quiet, Bulk: operations, Survey: s.survey, Prometheus: rates,
	})
	return s
}

// insightGate lets everything pass but some verbs, and remembers what was done.
type insightGate struct {
	mu     sync.Mutex
	refuse string
	done   []string
}

func (g *insightGate) Allow(w http.ResponseWriter, r *http.Request, a access.Action) bool {
	if !g.Can(r, a.Verb) {
		http.Error(w, "refused", http.StatusForbidden)
		return false
	}
	return true
}

func (g *insightGate) Can(_ *http.Request, v access.Verb) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refuse == "" || !strings.HasPrefix(string(v), g.refuse)
}

func (g *insightGate) Done(_ *http.Request, a access.Action, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done = append(g.done, fmt.Sprintf("%s queue=%s state=%s group=%s filter=%s n=%d err=%v", a.Verb, a.Queue, a.State, a.Group, a.Filter, a.Count, err))
}

func (g *insightGate) log() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done
}

type insightPoller struct{ snapshot *poll.Snapshot }

func (p *insightPoller) Latest() *poll.Snapshot                                       { return p.snapshot }
func (p *insightPoller) History(string, []poll.Metric, time.Duration) (s poll.Series) { return s }
func (p *insightPoller) RedisDetails(context.Context) (*poll.Details, error) {
	return new(poll.Details), nil
}
func (p *insightPoller) Wake() {}

// put makes tasks as they are.
func (s *insight) put(queue string, tasks ...*asynq.TaskRecord) {
	s.Helper()
	for _, r := range tasks {
		s.imports++
		r.ID, r.Type = cmp.Or(r.ID, fmt.Sprint("t", s.imports)), cmp.Or(r.Type, "x")
		if r.At.IsZero() {
			r.At = time.Now().Add(time.Hour)
		}
	}
	for page := range slices.Chunk(tasks, 200) {
		errs, err := s.inspector.ImportTasks(context.Background(), queue, asynq.ImportOptions{Name: page[0].ID}, page)
		if err := errors.Join(append(errs, err)...); err != nil {
			s.Fatal(err)
		}
	}
}

func failedTask(typename, text string) *asynq.TaskRecord {
	return &asynq.TaskRecord{State: asynq.TaskStateRetry, Type: typename, LastErr: text, LastFailedAt: time.Now().Add(-time.Minute), Retried: 1, MaxRetry: 5}
}

// read waits for a survey that has ended: it gives no signal.
func (s *insight) read() *survey.Result {
	s.Helper()
	var r *survey.Result
	s.eventually("the survey to end", func() (whole bool) {
		var err error
		r, err = s.survey.Tasks(s.Context())
		return err == nil && r.Whole
	})
	return r
}

// reply is what the pages answered.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	doc    *html.Node
}

func (s *insight) send(r *http.Request) *reply {
	s.Helper()
	w := httptest.NewRecorder()
	s.ui.ServeHTTP(w, r)
	doc, err := html.Parse(w.Body)
	if err != nil {
		s.Fatal(err)
	}
	return &reply{s.T, w.Code, w.Header(), doc}
}

func query(pairs []string) string {
	q := url.Values{}
	for n := 0; n < len(pairs); n += 2 {
		q.Set(pairs[n], pairs[n+1])
	}
	return q.Encode()
}

// get asks for a page, which must be there.
func (s *insight) get(path string, pairs ...string) *reply {
	s.Helper()
	a := s.send(httptest.NewRequest(http.MethodGet, path+"?"+query(pairs), nil))
	if a.status != http.StatusOK {
		s.Fatalf("GET %s: status %d: %s", path, a.status, a.text("main"))
	}
	a.sound()
	return a
}

func (s *insight) post(path string, pairs ...string) *reply {
	s.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(query(pairs)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(r)
}

func (a *reply) all(name string) []*html.Node {
	var found []*html.Node
	for n := range a.doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func said(top *html.Node) string {
	var b strings.Builder
	for n := range top.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// text is what all elements of a name say.
func (a *reply) text(name string) string {
	var texts []string
	for _, n := range a.all(name) {
		texts = append(texts, said(n))
	}
	return strings.Join(texts, "\n")
}

// rows are what the rows of the tables say, without headings.
func (a *reply) rows() []string {
	var rows []string
	for _, n := range a.all("tr") {
		if n.Parent.Data == "tbody" {
			rows = append(rows, said(n))
		}
	}
	return rows
}

// links are the URLs that lead to a page.
func (a *reply) links(path string) []*url.URL {
	var found []*url.URL
	for _, n := range a.all("a") {
		if u, err := url.Parse(attribute(n, "href")); err == nil && u.Path == insightRoot+path {
			found = append(found, u)
		}
	}
	return found
}

// search is the filter of the first link to a search.
func (a *reply) search() string {
	for _, u := range a.links("/search") {
		if f := u.Query().Get("filter"); f != "" {
			return f
		}
	}
	return ""
}

// has tells whether a button does something.
func (a *reply) has(do string) bool {
	for _, n := range a.all("button") {
		if attribute(n, "name") == "do" && attribute(n, "value") == do {
			return true
		}
	}
	return false
}

// sound holds what must be so of every page: nothing of a task is markup, and nothing is there that the policy forbids.
func (a *reply) sound() {
	a.t.Helper()
	ids := map[string]bool{}
	for n := range a.doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" && attribute(n, "src") == "" || n.Data == "style" || n.Data == "img" && !strings.HasPrefix(attribute(n, "src"), insightRoot+"/") {
			a.t.Errorf("there is an element %s: %s", n.Data, said(n))
		}
		for _, at := range n.Attr {
			if strings.HasPrefix(at.Key, "on") || at.Key == "style" || strings.HasPrefix(at.Key, "hx-on") {
				a.t.Errorf("%s has %s", n.Data, at.Key)
			}
			if (at.Key == "href" || at.Key == "action") && !strings.HasPrefix(at.Val, insightRoot+"/") && !strings.HasPrefix(at.Val, "#") {
				a.t.Errorf("%s leads to %q", n.Data, at.Val)
			}
		}
		if id := attribute(n, "id"); id != "" && ids[id] {
			a.t.Errorf("two elements have the id %q", id)
		} else {
			ids[id] = true
		}
	}
}
