// Package apiv1 serves the routes under /api that tools of the existing web UI use: the same paths, names and types. Where the
// existing server errs, this one does not; docs/WEB_API.md lists the differences.
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

// Gate asks for leave and keeps the audit log; access.Guard is one.
type Gate interface {
	// Allow reports whether the request may do this. If not, it has answered.
	Allow(w http.ResponseWriter, r *http.Request, a access.Action) bool

	// Done is told the outcome of each change.
	Done(r *http.Request, a access.Action, err error)
}

// Config is what the routes need. Inspector, Redis and Gate are required.
type Config struct {
	Inspector *asynq.Inspector
	Redis     redis.UniversalClient // the Inspector's, for what Redis tells of itself
	Cluster   bool                  // Redis is a Redis Cluster
	Gate      Gate

	// PayloadFormatter and ResultFormatter print the bytes of tasks. Default: Text.
	PayloadFormatter, ResultFormatter func(typename string, b []byte) string

	// Redact takes out of a payload or a result what nobody may see, before it is printed. Default: nothing is taken out.
	Redact redact.Redact

	// PrometheusAddress is the URL of the Prometheus that /metrics asks. Default: none, and /metrics answers 404.
	PrometheusAddress string

	// Logger is told of requests that failed for want of Redis or Prometheus. Default: slog.Default().
	Logger *slog.Logger

	// Wake is called after each change, so that a poller looks at it at once. Default: nobody is.
	Wake func()
}

type handler struct {
	Config
	prometheus *prom.Server // nil: none
}

// New returns the handler of everything under /api/. It sees paths without the root path, and takes names from the escaped path; what
// is in front of it must not unescape or clean that.
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

// ServeHTTP finds the route and answers.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segments, ok := split(r.URL.EscapedPath())
	if !ok {
		notFound(w)
		return
	}
	call, args, methods := find(r.Method, segments)
	switch {
	case call != nil && args.queue != "" && !possible(args.queue):
		problem(w, http.StatusNotFound, fmt.Sprintf("no queue can have the name %q", args.queue))
	case call != nil:
		call(h, &exchange{w: w, r: r, args: args, inspector: h.Inspector.WithContext(r.Context())})
	case len(methods) == 0:
		notFound(w)
	default:
		notAllowed(w, r.Method, methods)
	}
}

// possible reports whether a queue can have a name.
func possible(queue string) bool {
	return strings.TrimSpace(queue) != "" && !strings.HasPrefix(queue, "}")
}

// exchange is one request with what its path names.
type exchange struct {
	w         http.ResponseWriter
	r         *http.Request
	args      args
	inspector *asynq.Inspector // of which all calls end with the request
}

// mayView asks for leave to look at what the path names.
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
