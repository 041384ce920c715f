package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/encode"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/prom"
	"github.com/asynq-go/asynq/x/web/internal/redact"
	"github.com/asynq-go/asynq/x/web/internal/survey"
	"github.com/asynq-go/asynq/x/web/internal/ui"
)

// Handler serves the pages and the APIs. It is safe for concurrent use.
type Handler struct {
	serve  http.Handler
	root   string
	signIn func() string
	users  func([]User) error
	close  func() error
}

// New returns a Handler, which polls Redis until it is closed. It panics if Options.Check returns
// an error or the connection cannot be created.
func New(opts Options) *Handler {
	if err := opts.Check(); err != nil {
		panic(err.Error())
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	opts.Redact = redact.New(opts.Redact, opts.Logger)
	conn, err := asynq.ConnectRedis(opts.RedisConnOpt)
	if err != nil {
		panic("web: " + err.Error())
	}
	shared := conn.Shared()
	p := &parts{opts: opts, redis: conn.Client, inspector: asynq.NewInspector(shared), client: asynq.NewClient(shared)}
	cfg := poll.Config{
		Source: poll.NewSource(p.inspector, conn.Client), Interval: opts.PollInterval, Logger: opts.Logger, Health: opts.Health,
	}
	if !opts.ReadOnly {
		cfg.Unmute = p.inspector.UnmuteCause
	}
	p.poller = poll.New(cfg)
	p.bulk = bulk.New(bulk.Config{Inspector: p.inspector, Logger: opts.Logger, Seen: redact.Redact(opts.Redact).Task})
	p.survey = survey.New(survey.Config{Inspector: p.inspector, Logger: opts.Logger})
	p.prometheus = prom.New(opts.PrometheusAddress, opts.Logger)

	rules := opts.access()
	rules.Page = func(w http.ResponseWriter, r *http.Request, status int, title, detail string) {
		p.pages.Failure(w, r, status, title, detail)
	}
	if p.guard, err = access.New(rules); err != nil {
		panic("web: " + err.Error()) // impossible: Check has succeeded
	}
	p.pages = ui.New(ui.Config{
		Root: opts.RootPath, Inspector: p.inspector, Client: p.client, Poller: freshPoller{p.poller}, Gate: p.guard, Events: p.poller.Events,
		Bulk: p.bulk, Logger: opts.Logger, Redact: opts.Redact, PayloadText: opts.payloadText(), ResultText: opts.resultText(),
		Survey: p.survey, Prometheus: p.prometheus, ReadOnly: opts.ReadOnly,
	})
	p.poller.Start()
	return &Handler{
		serve:  encode.Wrap(p.guard.Wrap(p.untilClosed(under(opts.RootPath, withMetrics(opts.Metrics, p.guard, p.handler()))))),
		root:   opts.RootPath,
		signIn: p.guard.SignInPath,
		users:  p.guard.SetUsers,
		close: sync.OnceValue(func() error {
			p.closed.Store(true)
			p.poller.Close()
			p.survey.Close()
			p.prometheus.Close()
			err := p.bulk.Close()
			err = errors.Join(err, conn.Close())
			return err
		}),
	}
}

// under serves paths below a root with the root removed.
func under(root string, next http.Handler) http.Handler {
	if root == "" {
		return next
	}
	inside := http.StripPrefix(root, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == root:
			target := url.URL{Path: root + "/", RawQuery: r.URL.RawQuery}
			http.Redirect(w, r, target.String(), http.StatusMovedPermanently)
		case strings.HasPrefix(r.URL.Path, root+"/"):
			inside.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// ServeHTTP serves all paths below the root path.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serve.ServeHTTP(w, r)
}

// SignInPath returns the path and query of a new sign-in link, such as "/monitoring/?token=…". The
// program prints it after its scheme and host. Without Users, Provider, Proxy, Anonymous and
// Authorize, requests from the same machine may only view. The browser that opens the link gets the
// role Admin until the program ends. A link works once, and the next call of SignInPath replaces
// it; signed-in browsers stay signed in. SignInPath returns "" if sign-in links are not used: one
// of those options or ReadOnly is set.
func (h *Handler) SignInPath() string { return h.signIn() }

// SetUsers replaces Options.Users, for example after a change of the file that they are read from.
// It logs out users who were removed or have another password; roles change at once. It returns an
// error and changes nothing if a user is invalid, users is empty, or Options.Users was empty.
func (h *Handler) SetUsers(users []User) error {
	if err := h.users(users); err != nil {
		return fmt.Errorf("web: %w", err)
	}
	return nil
}

// RootPath returns the path of the Handler: empty, or without a trailing slash.
func (h *Handler) RootPath() string { return h.root }

// Close ends the event streams and the running operations, and closes the connection unless it is
// shared. It may be called more than once. Call it before http.Server.Shutdown, which would
// otherwise wait for the streams.
func (h *Handler) Close() error { return h.close() }
