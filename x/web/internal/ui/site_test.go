package ui

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
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/prom"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// site is the pages on a miniredis. The test sets the snapshots of its poller.
type site struct {
	*testing.T
	ui        *UI
	redis     *miniredis.Miniredis
	opt       asynq.RedisClientOpt
	inspector *asynq.Inspector
	client    *asynq.Client
	bulk      *bulk.Manager
	survey    *survey.Survey
	gate      *fakeGate
	poller    *fakePoller
	now       time.Time // time of the pages; zero: the current time
	cookies   map[string]*http.Cookie
	imports   int
}

const root = "/mon"

// today is the time of pages with a fixed time.
var today = time.Date(2026, 11, 21, 12, 30, 0, 0, time.UTC)

func newSite(t *testing.T, changes ...func(*Config)) *site {
	t.Helper()
	t.Parallel()
	s := &site{
		T: t, redis: miniredis.RunT(t), gate: new(fakeGate), poller: &fakePoller{snapshot: &poll.Snapshot{At: time.Now()}},
		cookies: make(map[string]*http.Cookie),
	}
	s.opt = asynq.RedisClientOpt{Addr: s.redis.Addr()}
	s.inspector, s.client = asynq.NewInspector(s.opt), asynq.NewClient(s.opt)
	s.bulk = bulk.New(bulk.Config{Inspector: s.inspector, Logger: quiet()})
	s.survey = survey.New(survey.Config{Inspector: s.inspector, Logger: quiet()})
	t.Cleanup(func() {
		_ = s.bulk.Close()
		s.survey.Close()
		_, _ = s.inspector.Close(), s.client.Close()
	})
	cfg := Config{
		Root: root, Inspector: s.inspector, Client: s.client, Poller: s.poller, Gate: s.gate, Events: http.NotFound, Bulk: s.bulk, Survey: s.survey, Logger: quiet(),
	}
	for _, change := range changes {
		change(&cfg)
	}
	s.ui = New(cfg)
	s.ui.now = func() time.Time {
		if s.now.IsZero() {
			return time.Now()
		}
		return s.now
	}
	return s
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// withPrometheus configures the Prometheus at a URL.
func withPrometheus(t *testing.T, at string) func(*Config) {
	t.Helper()
	rates := prom.New(at, quiet())
	t.Cleanup(rates.Close)
	return func(c *Config) { c.Prometheus = rates }
}

// fakeGate permits everything except one verb or prefix of verbs, and records changes.
type fakeGate struct {
	mu     sync.Mutex
	refuse access.Verb
	done   []string
	events []access.Event
}

func (g *fakeGate) Events(f access.EventFilter) []access.Event {
	if f != (access.EventFilter{}) {
		return slices.DeleteFunc(slices.Clone(g.events), func(e access.Event) bool { return f.Queue != "" && e.Queue != f.Queue || e.At.Before(f.Since) })
	}
	return g.events
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
	return g.refuse == "" || !strings.HasPrefix(string(v), string(g.refuse))
}

func (g *fakeGate) Done(_ *http.Request, a access.Action, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	words := []string{string(a.Verb)}
	for _, f := range [][2]string{{"queue", a.Queue}, {"state", a.State}, {"group", a.Group}, {"filter", a.Filter}, {"task", a.TaskID}, {"entry", a.Entry}, {"server", a.Server}, {"cause", a.Cause}} {
		if f[1] != "" {
			words = append(words, f[0]+"="+f[1])
		}
	}
	g.done = append(g.done, fmt.Sprintf("%s n=%d ok=%v", strings.Join(words, " "), a.Count, err == nil))
}

// log returns the recorded changes.
func (g *fakeGate) log() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.done)
}

type fakePoller struct {
	mu       sync.Mutex
	snapshot *poll.Snapshot
	details  func() (*poll.Details, error)
	asked    int // calls of RedisDetails
	woken    int
	spans    []time.Duration
	times    []int64 // of the three points of its history; nil: soon after 1970
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
	times := p.times
	if times == nil {
		times = []int64{2, 4, 6}
	}
	return poll.Series{Known: true, Step: 2, Times: times, Values: values}
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

// look updates the snapshot of the poller.
func (s *site) look() {
	s.Helper()
	conn, err := asynq.ConnectRedis(s.opt)
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	p := poll.New(poll.Config{Source: poll.NewSource(s.inspector, conn.Client), Logger: quiet()})
	p.Start()
	defer p.Close()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	if s.poller.snapshot, err = p.Fresh(ctx, time.Now()); err != nil {
		s.Fatal(err)
	}
}

// read waits for a complete survey.
func (s *site) read() *survey.Result {
	s.Helper()
	var r *survey.Result
	proctest.Eventually(s, "the survey to end", func() (whole bool) {
		var err error
		r, err = s.survey.Tasks(s.Context())
		return err == nil && r.Whole
	})
	return r
}

func (s *site) enqueue(task *asynq.Task, opts ...asynq.Option) *asynq.TaskInfo {
	s.Helper()
	info, err := s.client.Enqueue(task, opts...)
	if err != nil {
		s.Fatal(err)
	}
	return info
}

// put stores tasks verbatim.
func (s *site) put(queue string, tasks ...*asynq.TaskRecord) {
	s.Helper()
	for _, r := range tasks {
		s.imports++
		r.ID, r.Type = cmp.Or(r.ID, fmt.Sprint("t", s.imports)), cmp.Or(r.Type, "x")
		if r.At.IsZero() {
			r.At = time.Now().Add(time.Hour)
		}
	}
	for page := range slices.Chunk(tasks, 200) {
		errs, err := s.inspector.ImportTasks(context.Background(), queue, asynq.ImportOptions{IdempotencyKey: page[0].ID}, page)
		if err := errors.Join(append(errs, err)...); err != nil {
			s.Fatal(err)
		}
	}
}

func failedTask(typename, text string) *asynq.TaskRecord {
	return &asynq.TaskRecord{State: asynq.TaskStateRetry, Type: typename, LastErr: text, LastFailedAt: time.Now().Add(-time.Minute), Retried: 1, MaxRetry: 5}
}

func archivedTask(typename, text string) *asynq.TaskRecord {
	r := failedTask(typename, text)
	r.State = asynq.TaskStateArchived
	return r
}

func (s *site) find(queue, id string) *asynq.TaskInfo {
	s.Helper()
	info, err := s.inspector.GetTaskInfo(queue, id)
	if err != nil {
		s.Fatal(err)
	}
	return info
}

func (s *site) size(queue string) int {
	s.Helper()
	info, err := s.inspector.GetQueueInfo(queue)
	if err != nil {
		s.Fatal(err)
	}
	return info.Size
}

// send sends a request with the cookies of earlier responses, like a browser. It checks that the
// response is sound.
func (s *site) send(r *http.Request) *answer {
	s.Helper()
	for _, c := range s.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	s.ui.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if delete(s.cookies, c.Name); c.MaxAge >= 0 {
			s.cookies[c.Name] = c
		}
	}
	a := &answer{t: s.T, status: w.Code, header: w.Header(), body: w.Body.String()}
	var err error
	if a.doc, err = html.Parse(strings.NewReader(a.body)); err != nil {
		s.Fatal(err)
	}
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		a.sound()
	}
	return a
}

func request(target string) *http.Request { return httptest.NewRequest(http.MethodGet, target, nil) }

// ask requests a page by its path, or by a link of another page.
func (s *site) ask(path string, pairs ...string) *answer {
	s.Helper()
	if len(pairs) > 0 {
		path += "?" + values(pairs).Encode()
	}
	return s.send(request(strings.TrimPrefix(path, root)))
}

// get requests a page, which must exist.
func (s *site) get(path string, pairs ...string) *answer {
	s.Helper()
	a := s.ask(path, pairs...)
	if a.status != http.StatusOK {
		s.Fatalf("GET %s %q: status %d: %s", path, pairs, a.status, a.text("main"))
	}
	return a
}

func (s *site) post(path string, pairs ...string) *answer {
	s.Helper()
	return s.postForm(path, values(pairs))
}

func (s *site) postForm(path string, form url.Values) *answer {
	s.Helper()
	r := httptest.NewRequest(http.MethodPost, strings.TrimPrefix(path, root), strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(r)
}

// follow follows a redirect.
func (s *site) follow(a *answer) *answer {
	s.Helper()
	if a.status != http.StatusSeeOther {
		s.Fatalf("status %d, want a redirect: %s", a.status, a.text("main"))
	}
	return s.get(a.header.Get("Location"))
}

// submit submits a form of a page, with changes.
func (s *site) submit(form *html.Node, pairs ...string) *answer {
	s.Helper()
	sent := url.Values{}
	for n := range form.Descendants() {
		_, checked := attribute(n, "checked")
		switch kind := attr(n, "type"); {
		case n.Data == "input" && (kind == "hidden" || kind == "text" || checked):
			sent.Add(attr(n, "name"), attr(n, "value"))
		case n.Data == "textarea":
			sent.Add(attr(n, "name"), strings.ReplaceAll(inner(n), "\n", "\r\n"))
		}
	}
	for name, value := range values(pairs) {
		sent[name] = value
	}
	return s.postForm(attr(form, "action"), sent)
}

// values converts pairs of names and values.
func values(pairs []string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v
}
