// Package apiv1 serves the routes under /api that tools of the existing web UI use: the same paths,
// names and types. Where the existing server errs, this one does not; docs/WEB_API.md lists the
// differences.
package apiv1

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/prom"
	"github.com/asynq-go/asynq/x/web/internal/redact"
)

// Gate controls access and keeps the audit log, like access.Guard.
type Gate interface {
	// Allow checks the permission for an action. If it returns false, it has answered the request.
	Allow(w http.ResponseWriter, r *http.Request, a access.Action) bool

	// Done logs the outcome of a change.
	Done(r *http.Request, a access.Action, err error)
}

// Config configures the routes. Inspector, Redis and Gate are required.
type Config struct {
	Inspector *asynq.Inspector
	Redis     redis.UniversalClient // the Inspector's, for the state of Redis
	Cluster   bool                  // Redis is a Redis Cluster
	Gate      Gate

	// PayloadFormatter and ResultFormatter print the bytes of tasks. Default: Text.
	PayloadFormatter, ResultFormatter func(typename string, b []byte) string

	// Redact redacts payloads and results before they are formatted. The default is no redaction.
	Redact redact.Redact

	// PrometheusAddress is the URL of the Prometheus for /metrics. If empty, /metrics returns 404.
	PrometheusAddress string

	// Logger receives requests that failed because of Redis or Prometheus. The default is
	// slog.Default().
	Logger *slog.Logger

	// Wake is called after each change, so that a poller can poll at once. It may be nil.
	Wake func()
}

type handler struct {
	Config
	prometheus *prom.Server // nil: not configured
}

// New returns the handler of all paths under /api/. It receives paths without the root path, and
// takes names from the escaped path, so callers must not unescape or clean it.
func New(c Config) http.Handler {
	if c.Inspector == nil || c.Redis == nil || c.Gate == nil {
		panic("apiv1: Config.Inspector, Redis and Gate are required")
	}
	if c.PayloadFormatter == nil {
		c.PayloadFormatter = plain
	}
	if c.ResultFormatter == nil {
		c.ResultFormatter = plain
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Wake == nil {
		c.Wake = func() {}
	}
	return &handler{Config: c, prometheus: prom.NewServer(c.PrometheusAddress)}
}

// ServeHTTP dispatches a request to its route.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segments, ok := split(r.URL.EscapedPath())
	if !ok {
		notFound(w)
		return
	}
	call, args, methods := find(r.Method, segments)
	switch {
	case call != nil && args.queue != "" && !possible(args.queue):
		problem(w, http.StatusNotFound, fmt.Sprintf("invalid queue name %q", args.queue))
	case call != nil:
		call(h, &exchange{w: w, r: r, args: args, inspector: h.Inspector.WithContext(r.Context())})
	case len(methods) == 0:
		notFound(w)
	default:
		notAllowed(w, r.Method, methods)
	}
}

// possible reports whether a queue name is valid.
func possible(queue string) bool {
	return strings.TrimSpace(queue) != "" && !strings.HasPrefix(queue, "}")
}

// exchange is one request with the names in its path.
type exchange struct {
	w         http.ResponseWriter
	r         *http.Request
	args      args
	inspector *asynq.Inspector // its calls end with the request
}

// mayView checks the permission to view the target of the request.
func (h *handler) mayView(x *exchange) bool {
	return h.Gate.Allow(x.w, x.r, access.Action{
		Verb: access.View, Queue: x.args.queue, Group: x.args.group, TaskID: x.args.id, Entry: x.args.entry,
	})
}

func (h *handler) payload(queue, typename string, b []byte) string {
	shown, _ := h.Redact.Bytes(queue, typename, b)
	return h.PayloadFormatter(typename, shown)
}

func (h *handler) result(t *asynq.TaskInfo) string {
	shown, _ := h.Redact.Bytes(t.Queue, t.Type, t.Result)
	return h.ResultFormatter(t.Type, shown)
}
