// Package apiv2 is the HTTP API for new tools, under /api/v2/: lists with cursors and filters, problem+json errors, operations in the
// background, and an OpenAPI document that is made from the same table as the routes. docs/WEB_API_V2.md is its guide.
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
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/redact"
)

// Gate says who may do what, and hears of what was done; see access.Guard.
type Gate interface {
	Allow(w http.ResponseWriter, r *http.Request, a access.Action) bool
	Done(r *http.Request, a access.Action, err error)
}

// Poller is what others have seen of Redis; see poll.Poller.
type Poller interface {
	Latest() *poll.Snapshot // nil before the first look
	Wake()                  // something was changed: look now
}

// Series are numbers over time, for charts.
type Series struct {
	Times  []int64               `json:"times" doc:"Unix seconds."`
	Values map[string][]*float64 `json:"values" doc:"For each metric one value for each time; null where nothing is known."`
}

// Config is what the API works on. Inspector, Client, Bulk and Gate are required.
type Config struct {
	Inspector *asynq.Inspector
	Client    *asynq.Client
	Bulk      *bulk.Manager
	Gate      Gate

	Poller  Poller                                                           // nil: queues have no rates, and Redis is asked each time
	History func(queue string, metrics []string, span time.Duration) *Series // nil: there are no series
	User    func(ctx context.Context) (name string, role access.Role)        // nil: nobody is known

	Redact        redact.Redact // of payloads and results; nil: all is shown
	FormatPayload func(typename string, payload []byte) string
	FormatResult  func(typename string, result []byte) string

	RootPath string // before /api/v2 in links
	Version  string
	ReadOnly bool
	Logger   *slog.Logger
}

type api struct {
	Config
	routes  []*route
	openapi []byte
	secret  []byte // in entity tags, where payloads are redacted
}

// prefix is where the API begins, behind the root path.
const prefix = "/api/v2"

// New returns the handler of all paths that begin with /api/v2. It sees them without the root path.
func New(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	a := &api{Config: cfg}
	if cfg.Redact != nil { // else a tag would tell whether a guess at what is not shown is right
		a.secret = []byte(rand.Text())
	}
	a.routes = a.table()
	doc, err := json.Marshal(a.document())
	if err != nil {
		panic(err) // the table is wrong, which the tests see
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

// serve finds the route and has it handle the request.
func (c *call) serve() (any, error) {
	path, ok := strings.CutPrefix(c.r.URL.EscapedPath(), prefix)
	if !ok || path != "" && path[0] != '/' {
		return nil, notFound("there is nothing here: the API begins with %s", prefix)
	}
	route, allowed, values := c.api.find(c.r.Method, path)
	switch {
	case route == nil && len(allowed) == 0:
		return nil, notFound("there is no such resource: %s lists all of them", prefix+"/openapi.json")
	case route == nil:
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		if c.r.Method == http.MethodOptions {
			return nil, nil
		}
		return nil, problemf(http.StatusMethodNotAllowed, "", "%s is not for this resource: use %s", c.r.Method, strings.Join(allowed, ", "))
	}
	c.route, c.values = route, values
	if !acceptsJSON(c.r) {
		return nil, problemf(http.StatusNotAcceptable, "", "the answer is application/json: accept that, or */*")
	}
	if err := c.parseQuery(); err != nil {
		return nil, err
	}
	return route.handle(c)
}

// acceptsJSON reports whether the client takes what the API answers.
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
		_, _ = body.WriteTo(c.w) // the client has gone
	}
}

// allow asks for leave. The error says that the gate has answered already.
func (c *call) allow(actions ...access.Action) error {
	for _, a := range actions {
		if !c.api.Gate.Allow(c.w, c.r, a) {
			return errAnswered
		}
	}
	return nil
}

// view asks for leave to look.
func (c *call) view(queue, id string) error {
	return c.allow(access.Action{Verb: access.View, Queue: queue, TaskID: id})
}

// viewQueues asks for leave to look into each of these queues; of none: into all.
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

// done tells the audit log of a change, and the poller to look at what it has changed.
func (c *call) done(a access.Action, err error) {
	c.api.Gate.Done(c.r, a, err)
	c.api.wake()
}

func (a *api) wake() {
	if a.Poller != nil {
		a.Poller.Wake()
	}
}

// latest is what the poller has seen; nil if there is none.
func (a *api) latest() *poll.Snapshot {
	if a.Poller == nil {
		return nil
	}
	return a.Poller.Latest()
}

var errAnswered = errors.New("the request is answered")
