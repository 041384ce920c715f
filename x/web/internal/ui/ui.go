// Package ui serves the pages. They are rendered on the server by html/template, work without
// scripts, and are enhanced by small ones.
package ui

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/prom"
	"github.com/asynq-go/asynq/x/web/internal/redact"
	"github.com/asynq-go/asynq/x/web/internal/survey"
	"github.com/asynq-go/asynq/x/web/internal/trend"
)

// Config configures the pages.
type Config struct {
	Root      string // path of all pages, without a trailing slash; may be empty
	Inspector *asynq.Inspector
	Client    *asynq.Client
	Poller    Poller
	Gate      Gate
	Events    http.HandlerFunc // the event stream of the poller
	Bulk      *bulk.Manager
	Logger    *slog.Logger

	// Redact redacts payloads and results; nil: everything is shown. Pages show and search only
	// redacted data.
	Redact redact.Redact
	// PayloadText and ResultText format bytes as text, or report that they do not. They may be nil.
	PayloadText, ResultText func(typename string, data []byte) (string, bool)
	Survey                  *survey.Survey
	Prometheus              *prom.Client // nil: not configured
	ReadOnly                bool         // every change is refused
}

// Poller is the part of poll.Poller that the pages use.
type Poller interface {
	// Latest returns the last snapshot. It is never nil.
	Latest() *poll.Snapshot
	// History returns series over a time span, of one queue or of all queues ("").
	History(queue string, metrics []poll.Metric, span time.Duration) poll.Series
	// RedisDetails queries Redis for its page.
	RedisDetails(ctx context.Context) (*poll.Details, error)
	// Wake starts a poll after a change, and waits for its snapshot for a short time.
	Wake()
}

// Gate is the part of access.Guard that the pages use.
type Gate interface {
	// Allow checks the permission for an action. If it returns false, it has answered the request.
	Allow(w http.ResponseWriter, r *http.Request, a access.Action) bool
	// Can reports whether Allow would permit an action, so that pages do not offer refused ones.
	Can(r *http.Request, v access.Verb) bool
	// Done logs the result of an action.
	Done(r *http.Request, a access.Action, err error)
	// Events returns the events of the audit log, newest first.
	Events(f access.EventFilter) []access.Event
}

// UI serves the pages.
type UI struct {
	Config
	mux       *http.ServeMux
	templates templates // with relative times
	exact     templates // with exact times
	details   detailsShown
	contents  *contents
	inspect   *flow.Inspector
	trends    *trend.Cache
	now       func() time.Time
}

// New returns the pages.
func New(cfg Config) *UI {
	u := &UI{Config: cfg, mux: http.NewServeMux(), contents: newContents(), inspect: flow.Inspect(cfg.Inspector), trends: trend.New(cfg.Inspector), now: time.Now}
	u.templates, u.exact = u.parse(u.when), u.parse(u.exactly)
	u.route()
	return u
}

// route registers all pages and form actions. Names and IDs are parameters, never parts of the
// path: they may contain any byte.
func (u *UI) route() {
	pages := map[string]func(*http.Request) (*view, error){
		"/{$}":    u.overview,
		"/queues": u.queues,
		"/queue":  u.queue,

		"/tasks":      u.tasks,
		"/search":     u.search,
		"/task":       u.task,
		"/edit":       u.edit,
		"/enqueue":    u.enqueue,
		"/operations": u.operations,
		"/operation":  u.operation,
		"/errors":     u.errors,
		"/error":      u.errorKind,
		"/types":      u.types,
		"/type":       u.taskType,
		"/groups":     u.groups,
		"/partitions": u.partitions,
		"/partition":  u.partition,
		"/flows":      u.flows,
		"/flow":       u.flow,
		"/servers":    u.servers,
		"/schedulers": u.schedulers,
		"/schedule":   u.schedule,
		"/redis":      u.redis,
		"/audit":      u.audit,
		"/settings":   u.settings,
	}
	methods := map[string][]string{"/events": {http.MethodGet}, "/series": {http.MethodGet, http.MethodHead}, "/download": {http.MethodGet, http.MethodHead}}
	for at, page := range pages {
		u.mux.HandleFunc("GET "+at, u.page(page))
		at = strings.TrimSuffix(at, "{$}")
		methods[at] = []string{http.MethodGet, http.MethodHead}
	}
	changes := map[string]func(http.ResponseWriter, *http.Request) (*view, error){
		"/queue":  u.changeQueue,
		"/theme":  u.setTheme,
		"/health": u.changeHealth,

		"/tasks":     u.changeTasks,
		"/task":      u.changeTask,
		"/edit":      u.saveEdit,
		"/enqueue":   u.sendEnqueue,
		"/operation": u.changeOperation,
		"/error":     u.changeErrors,
		"/groups":    u.changeGroup,
		"/partition": u.changePartition,
		"/flow":      u.changeFlow,
		"/servers":   u.changeServers,
		"/schedule":  u.changeSchedule,
		"/settings":  u.changeSettings,
	}
	for at, change := range changes {
		u.mux.HandleFunc("POST "+at, u.change(change))
		methods[at] = append(methods[at], http.MethodPost)
	}
	u.mux.HandleFunc("GET /events", u.events)
	u.mux.HandleFunc("GET /series", u.series)
	u.mux.HandleFunc("GET /download", u.download)
	u.mux.Handle("GET /static/", http.StripPrefix("/static/", assets()))
	none := u.page(func(r *http.Request) (*view, error) { return nil, notFound("Page not found: %s.", r.URL.Path) })
	u.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		known := methods[r.URL.Path]
		if known == nil {
			none(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(append(known[:len(known):len(known)], http.MethodOptions), ", "))
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		u.Failure(w, r, http.StatusMethodNotAllowed, http.StatusText(http.StatusMethodNotAllowed), "Method not allowed: "+r.Method+".")
	})
}

// ServeHTTP serves a request whose path has the root path removed. It redirects to the clean path
// below the root itself, since the mux does not know the root.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	clean := path.Clean("/" + r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") && clean != "/" {
		clean += "/"
	}
	if clean != r.URL.Path {
		target := url.URL{Path: u.Root + clean, RawQuery: r.URL.RawQuery}
		http.Redirect(w, r, target.String(), http.StatusTemporaryRedirect)
		return
	}
	u.mux.ServeHTTP(w, r)
}

// requestTimeout bounds the calls to Redis of one request.
const requestTimeout = 20 * time.Second

// inspector returns an inspector for one request. Its calls end with the request, or after
// requestTimeout.
func (u *UI) inspector(r *http.Request) (*asynq.Inspector, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	return u.Inspector.WithContext(ctx), cancel
}

// events is the stream of snapshot events.
func (u *UI) events(w http.ResponseWriter, r *http.Request) {
	if u.Gate.Allow(w, r, access.Action{Verb: access.View}) {
		u.Events(w, r)
	}
}

// Failure responds with an error page.
func (u *UI) Failure(w http.ResponseWriter, r *http.Request, status int, title, detail string) {
	u.render(w, r, &view{
		Template: "error", Title: title, Status: status, Still: true, Body: failureBody{Status: status, Title: title, Text: sentence(detail)},
	})
}
