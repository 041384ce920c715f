package apiv2

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// gate permits everything except the actions for which refuse returns true, and records changes.
type gate struct {
	mu     sync.Mutex
	refuse access.Verb
	asked  []access.Action
	log    []string
	told   chan struct{}

	events   []access.Event
	filtered access.EventFilter
}

func (g *gate) Events(f access.EventFilter) []access.Event {
	g.filtered = f
	return g.events
}

func (g *gate) Allow(w http.ResponseWriter, _ *http.Request, a access.Action) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, a)
	if a.Verb == g.refuse {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"type":"about:blank","title":"Forbidden","status":403}`)
		return false
	}
	return true
}

func (g *gate) Done(_ *http.Request, a access.Action, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log = append(g.log, fmt.Sprintf("%s %s/%s %s %q %d %v", a.Verb, a.Queue, a.TaskID, a.State, a.Filter, a.Count, err == nil))
	select {
	case g.told <- struct{}{}:
	default:
	}
}

// last returns the last recorded change.
func (g *gate) last() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.log) == 0 {
		return ""
	}
	return g.log[len(g.log)-1]
}

// poller returns a snapshot set by the test.
type poller struct {
	snapshot *poll.Snapshot
	wakes    int
}

func (p *poller) Latest() *poll.Snapshot { return p.snapshot }
func (p *poller) Wake()                  { p.wakes++ }

type site struct {
	t         *testing.T
	redis     *miniredis.Miniredis
	opt       asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	gate      *gate
	api       *api
	doc       object // the served OpenAPI document
}

func newSite(t *testing.T, configure func(*Config)) *site {
	t.Helper()
	t.Parallel()
	s := &site{t: t, redis: miniredis.RunT(t), gate: &gate{told: make(chan struct{}, 100)}}
	s.opt = asynq.RedisClientOpt{Addr: s.redis.Addr()}
	s.client, s.inspector = asynq.NewClient(s.opt), asynq.NewInspector(s.opt)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	manager := bulk.New(bulk.Config{Inspector: s.inspector, Logger: quiet})
	t.Cleanup(func() {
		_ = manager.Close()
		_ = s.client.Close()
		_ = s.inspector.Close()
	})
	cfg := Config{
		Inspector: s.inspector, Client: s.client, Bulk: manager, Gate: s.gate, RootPath: "/monitor", Version: "1.2.3", Logger: quiet,
		User: func(context.Context) (string, access.Role) { return "ann", access.Operator },
	}
	if configure != nil {
		configure(&cfg)
	}
	s.api = New(cfg).(*api)
	if err := json.Unmarshal(s.api.openapi, &s.doc); err != nil {
		t.Fatal(err)
	}
	return s
}

// reply is a response whose body was validated by the schema of its route.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// send sends a request. Headers have the form "Name: value".
func (s *site) send(method, path, body string, headers ...string) *reply {
	s.t.Helper()
	r := httptest.NewRequest(method, prefix+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	out := &reply{s.t, w.Code, w.Header(), w.Body.Bytes()}
	s.conforms(method, r.URL.EscapedPath(), out)
	return out
}

func (s *site) get(path string) *reply {
	s.t.Helper()
	return s.send(http.MethodGet, path, "")
}

// want sends a request and checks its status.
func (s *site) want(status int, method, path, body string, headers ...string) *reply {
	s.t.Helper()
	r := s.send(method, path, body, headers...)
	if r.status != status {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, path, r.status, status, r.body)
	}
	return r
}

// into decodes the body.
func (r *reply) into(v any) {
	r.t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		r.t.Fatalf("%v in %s", err, r.body)
	}
}

// conforms validates a response by the document.
func (s *site) conforms(method, path string, got *reply) {
	s.t.Helper()
	below, _ := strings.CutPrefix(path, prefix+"/")
	route, _, _ := s.api.find(method, below)
	kind := got.header.Get("Content-Type")
	if got.status >= 400 {
		if kind != "application/problem+json" {
			s.t.Errorf("%s %s: %d as %q", method, path, got.status, kind)
		}
		if method != http.MethodHead {
			s.fits(object{"$ref": "#/components/schemas/Problem"}, got.body, method+" "+path)
		}
	}
	if route == nil || method == http.MethodHead {
		return
	}
	operation := s.doc["paths"].(object)[route.path].(object)[strings.ToLower(method)].(object)
	response, ok := operation["responses"].(object)[fmt.Sprint(got.status)].(object)
	if !ok {
		s.t.Errorf("%s %s: the document knows no answer %d: %s", method, path, got.status, got.body)
		return
	}
	content, _ := response["content"].(object)
	if content == nil {
		if len(got.body) > 0 {
			s.t.Errorf("%s %s: %d with a body: %s", method, path, got.status, got.body)
		}
		return
	}
	media, ok := content[kind].(object)
	if !ok {
		s.t.Errorf("%s %s: %d as %q, which the document does not know", method, path, got.status, kind)
		return
	}
	s.fits(media["schema"].(object), got.body, method+" "+path)
}

func (s *site) fits(schema object, body []byte, what string) {
	s.t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		s.t.Errorf("%s: %v in %q", what, err, body)
		return
	}
	for _, fault := range s.faults(schema, v, "") {
		s.t.Errorf("%s: %s in %s", what, fault, body)
	}
}

// enqueue enqueues a task.
func (s *site) enqueue(typename, payload string, opts ...asynq.Option) *asynq.TaskInfo {
	s.t.Helper()
	info, err := s.client.Enqueue(asynq.NewTask(typename, []byte(payload)), opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	return info
}

// many enqueues n tasks to a queue.
func (s *site) many(n int, queue, typename string, opts ...asynq.Option) {
	s.t.Helper()
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		tasks[i] = asynq.NewTask(typename, nil, asynq.TaskID(fmt.Sprintf("%s-%03d", typename, i)), asynq.Queue(queue))
	}
	for _, r := range s.client.BatchEnqueueContext(context.Background(), tasks, opts...) {
		if r.Err != nil {
			s.t.Fatal(r.Err)
		}
	}
}

// serve runs a server until the test ends.
func (s *site) serve(handler func(context.Context, *asynq.Task) error) {
	s.t.Helper()
	srv := asynq.NewServer(s.opt, asynq.Config{
		Concurrency: 10, Queues: map[string]int{"default": 1, "mail": 1},
		Logger:         asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }, AttemptLog: 5,
	})
	if err := srv.Start(asynq.HandlerFunc(handler)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(srv.Shutdown)
}

func taskURL(queue, id string) string {
	return "/queues/" + url.PathEscape(queue) + "/tasks/" + url.PathEscape(id)
}
