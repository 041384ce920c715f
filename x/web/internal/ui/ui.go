// Package ui is the pages: made on the server by html/template, readable and usable without scripts, and made lively by small ones.
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
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/prom"
	"github.com/asynq-go/asynq/x/web/internal/redact"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// Config is what the pages need.
type Config struct {
	Root      string // path that all pages are under, without a slash at its end; may be empty
	Inspector *asynq.Inspector
	Client    *asynq.Client
	Poller    Poller
	Gate      Gate
	Events    http.HandlerFunc // the event stream of the poller
	Bulk      *bulk.Manager
	Logger    *slog.Logger

	// Redact is what may be shown of a payload or a result; nil: all. Pages show and search nothing else.
	Redact redact.Redact
	// PayloadText and ResultText make text of bytes, or say that they do not; nil: nobody does.
	PayloadText, ResultText func(typename string, data []byte) (string, bool)
	Survey                  *survey.Survey
	Prometheus              *prom.Client // nil: none is configured
	ReadOnly                bool         // every change is refused, to all
}

// Poller is what the pages need of poll.Poller.
type Poller interface {
	// Latest is what was seen last; never nil.
	Latest() *poll.Snapshot
	// History is what was seen over a span of time, of one queue or of all ("").
	History(queue string, metrics []poll.Metric, span time.Duration) poll.Series
	// RedisDetails asks Redis for what its page shows.
	RedisDetails(ctx context.Context) (*poll.Details, error)
	// Wake has the poller look at once, because something was changed, and waits for what it sees, but not for long.
	Wake()
}

// Gate is what the pages need of access.Guard.
type Gate interface {
	// Allow asks leave for an action. If that is refused, it has answered the request.
	Allow(w http.ResponseWriter, r *http.Request, a access.Action) bool
	// Can tells whether a request would get leave, so that a page offers nothing that it refuses.
	Can(r *http.Request, v access.Verb) bool
	// Done writes down what came of an action.
	Done(r *http.Request, a access.Action, err error)
}

// UI serves the pages.
type UI struct {
	Config
	mux       *http.ServeMux
	templates templates // with times from now
	exact     templates // with exact times
	details   detailsShown
	now       func() time.Time
}

// New makes the pages.
func New(cfg Config) *UI {
	u := &UI{Config: cfg, mux: http.NewServeMux(), now: time.Now}
	u.templates, u.exact = u.parse(u.when), u.parse(u.exactly)
	u.route()
	return u
}

// route is the one table of pages and of what forms are sent to. Names and IDs are parameters, never a part of the path: they may
// hold any byte.
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
		"/servers":    u.servers,
		"/schedulers": u.schedulers,
		"/schedule":   u.schedule,
		"/redis":      u.redis,
		"/settings":   u.settings,
	}
	methods := map[string][]string{"/events": {http.MethodGet}, "/series": {http.MethodGet, http.MethodHead}, "/download": {http.MethodGet, http.MethodHead}}
	for at, page := range pages {
		u.mux.HandleFunc("GET "+at, u.page(page))
		at = strings.TrimSuffix(at, "{$}")
		methods[at] = []string{http.MethodGet, http.MethodHead}
	}
	changes := map[string]func(http.ResponseWriter, *http.Request) (*view, error){
		"/queue": u.changeQueue,
		"/theme": u.setTheme,

		"/tasks":     u.changeTasks,
		"/task":      u.changeTask,
		"/edit":      u.saveEdit,
		"/enqueue":   u.sendEnqueue,
		"/operation": u.changeOperation,
		"/error":     u.changeErrors,
		"/groups":    u.changeGroup,
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
	u.mux.Handle("GET /static/", http.StripPrefix("/static/", assets))
	none := u.page(func(r *http.Request) (*view, error) { return nil, notFound("There is no page %s.", r.URL.Path) })
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
		u.Failure(w, r, http.StatusMethodNotAllowed, http.StatusText(http.StatusMethodNotAllowed), "This page does not know the method "+r.Method+".")
	})
}

// ServeHTTP serves a request whose path has the root path stripped. A path that must be cleaned is sent back under the root: the mux
// knows nothing of it.
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

// patience is for how long a request asks Redis.
const patience = 20 * time.Second

// inspector is the inspector for one request: its calls end with the request, or when nobody would wait any longer.
func (u *UI) inspector(r *http.Request) (*asynq.Inspector, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	return u.Inspector.WithContext(ctx), cancel
}

// events is the stream that tells of new snapshots.
func (u *UI) events(w http.ResponseWriter, r *http.Request) {
	if u.Gate.Allow(w, r, access.Action{Verb: access.View}) {
		u.Events(w, r)
	}
}

// Failure answers with a page that tells of an error.
func (u *UI) Failure(w http.ResponseWriter, r *http.Request, status int, title, detail string) {
	u.render(w, r, &view{
		Template: "error", Title: title, Status: status, Still: true, Body: failureBody{Status: status, Title: title, Text: sentence(detail)},
	})
}
