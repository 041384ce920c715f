// Package apiv2 provides the HTTP API for new tools under /api/v2/: lists with cursors and filters,
// problem+json errors, background operations, and an OpenAPI document generated from the table of
// routes. docs/WEB_API_V2.md is its guide.
package apiv2

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/redact"
)

// Gate controls access and logs changes; see access.Guard.
type Gate interface {
	Allow(w http.ResponseWriter, r *http.Request, a access.Action) bool
	Done(r *http.Request, a access.Action, err error)
	Events(f access.EventFilter) []access.Event
}

// Poller provides snapshots; see poll.Poller.
type Poller interface {
	Latest() *poll.Snapshot // nil before the first snapshot
	Wake()                  // polls now, after a change
}

// Series are metrics over time, for charts.
type Series struct {
	Times  []int64               `json:"times" doc:"In Unix seconds."`
	Values map[string][]*float64 `json:"values" doc:"One value per time for each metric. null: no data."`
}

// Config configures the API. Inspector, Client, Bulk and Gate are required.
type Config struct {
	Inspector *asynq.Inspector
	Client    *asynq.Client
	Bulk      *bulk.Manager
	Gate      Gate

	Poller  Poller                                                           // nil: queues have no rates, and each request reads Redis
	History func(queue string, metrics []string, span time.Duration) *Series // nil: no series
	User    func(ctx context.Context) (name string, role access.Role)        // nil: no users

	Redact        redact.Redact // redacts payloads and results; nil: no redaction
	FormatPayload func(typename string, payload []byte) string
	FormatResult  func(typename string, result []byte) string

	RootPath string // before /api/v2 in links
	Version  string
	ReadOnly bool
	Logger   *slog.Logger
}

type api struct {
	Config
	flows   *flow.Inspector
	routes  []*route
	openapi []byte
	secret  []byte // for entity tags of redacted payloads
}

// prefix is the path of the API, after the root path.
const prefix = "/api/v2"

// New returns the handler of all paths under /api/v2. It receives them without the root path.
func New(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	a := &api{Config: cfg, flows: flow.Inspect(cfg.Inspector)}
	if cfg.Redact != nil { // otherwise entity tags would reveal whether a guess of a redacted payload is right
		a.secret = []byte(rand.Text())
	}
	a.routes = a.table()
	doc, err := json.Marshal(a.document())
	if err != nil {
		panic(err) // a bug in the table, which the tests detect
	}
	a.openapi = doc
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{api: a, w: w, r: r}
	out, err := c.serve()
	switch {
	case errors.Is(err, errAnswered):
	case err != nil:
		c.fail(err)
	case out == nil && c.status == 0:
		w.WriteHeader(http.StatusNoContent)
	default:
		c.answer(out)
	}
}

// serve dispatches the request to its route.
func (c *call) serve() (any, error) {
	path, ok := strings.CutPrefix(c.r.URL.EscapedPath(), prefix)
	if !ok || path != "" && path[0] != '/' {
		return nil, notFound("not found: the paths of the API begin with %s", prefix)
	}
	route, allowed, values := c.api.find(c.r.Method, path)
	switch {
	case route == nil && len(allowed) == 0:
		return nil, notFound("no such resource: see %s", prefix+"/openapi.json")
	case route == nil:
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		if c.r.Method == http.MethodOptions {
			return nil, nil
		}
		return nil, problemf(http.StatusMethodNotAllowed, "", "method %s is not allowed: use %s", c.r.Method, strings.Join(allowed, ", "))
	}
	c.route, c.values = route, values
	if !acceptsJSON(c.r) {
		return nil, problemf(http.StatusNotAcceptable, "", "the response is application/json: send Accept: application/json or */*")
	}
	if err := c.parseQuery(); err != nil {
		return nil, err
	}
	return route.handle(c)
}

// acceptsJSON reports whether the client accepts the responses of the API.
func acceptsJSON(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return true
	}
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), ";")
		switch strings.TrimSpace(kind) {
		case "*/*", "application/*", "application/json", "application/problem+json", "application/yaml":
			q := strings.ReplaceAll(params, " ", "")
			if q != "q=0" && !strings.HasPrefix(q, "q=0.000") {
				return true
			}
		}
	}
	return false
}

// answer writes a value as JSON.
func (c *call) answer(out any) {
	var body bytes.Buffer
	if raw, ok := out.(json.RawMessage); ok {
		body.Write(raw)
	} else {
		e := json.NewEncoder(&body)
		e.SetEscapeHTML(false)
		if err := e.Encode(out); err != nil {
			c.fail(err)
			return
		}
	}
	h := c.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	c.w.WriteHeader(max(c.status, http.StatusOK))
	if c.r.Method != http.MethodHead {
		_, _ = body.WriteTo(c.w) // fails only if the client has disconnected
	}
}

// allow checks permissions. If it returns an error, the gate has answered the request.
func (c *call) allow(actions ...access.Action) error {
	for _, a := range actions {
		if !c.api.Gate.Allow(c.w, c.r, a) {
			return errAnswered
		}
	}
	return nil
}

// view checks the permission to view.
func (c *call) view(queue, id string) error {
	return c.allow(access.Action{Verb: access.View, Queue: queue, TaskID: id})
}

// viewQueues checks the permission to view each of these queues; without names, all queues.
func (c *call) viewQueues(queues []string) error {
	asked := false
	for _, queue := range queues {
		if queue == "" {
			continue
		}
		asked = true
		if err := c.view(queue, ""); err != nil {
			return err
		}
	}
	if asked {
		return nil
	}
	return c.view("", "")
}

// done logs a change in the audit log and wakes the poller.
func (c *call) done(a access.Action, err error) {
	c.api.Gate.Done(c.r, a, err)
	c.api.wake()
}

func (a *api) wake() {
	if a.Poller != nil {
		a.Poller.Wake()
	}
}

// latest returns the last snapshot of the poller; nil if there is none.
func (a *api) latest() *poll.Snapshot {
	if a.Poller == nil {
		return nil
	}
	return a.Poller.Latest()
}

var errAnswered = errors.New("the request is answered")
