package web

import (
	"log/slog"
	"net/http"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/ui"
)

// Handler serves the pages and the APIs. It is safe for concurrent use.
type Handler struct {
	http.Handler
	root  string
	close []func() error
}

// New makes a Handler, which looks at Redis from then on until it is closed. It panics where Options.Check has an error, or the
// connection cannot be made.
func New(opts Options) *Handler {
	if err := opts.Check(); err != nil {
		panic(err.Error())
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	client, namespace, owned, err := asynq.ConnectRedis(opts.RedisConnOpt)
	if err != nil {
		panic("web: " + err.Error())
	}
	shared := asynq.WithNamespace(asynq.SharedRedisClient(client), namespace)
	inspector := asynq.NewInspector(shared)
	poller := poll.New(poll.Config{Source: poll.NewSource(inspector, client), Interval: opts.PollInterval, Logger: opts.Logger})
	poller.Start()

	var pages *ui.UI
	rules := opts.access()
	rules.Page = func(w http.ResponseWriter, r *http.Request, status int, title, detail string) {
		pages.Failure(w, r, status, title, detail)
	}
	guard, err := access.New(rules)
	if err != nil {
		panic("web: " + err.Error()) // Check has passed it
	}
	pages = ui.New(ui.Config{
		Root: opts.RootPath, Inspector: inspector, Client: asynq.NewClient(shared), Poller: poller, Gate: guard, Events: poller.Events, Logger: opts.Logger,
		ReadOnly: opts.ReadOnly, Redact: opts.Redact,
	})
	mux := http.NewServeMux()
	mux.Handle("/", pages)

	h := &Handler{Handler: guard.Wrap(http.StripPrefix(opts.RootPath, mux)), root: opts.RootPath}
	h.close = append(h.close, func() error { poller.Close(); return nil })
	if owned {
		h.close = append(h.close, client.Close)
	}
	return h
}

// RootPath is where the Handler is mounted: empty, or a path with no slash at its end.
func (h *Handler) RootPath() string { return h.root }

// Close ends the event streams and the operations that are under way, and closes the connection unless it is shared. It may be called
// more than once.
func (h *Handler) Close() error {
	closers := h.close
	h.close = nil
	var first error
	for _, closer := range closers {
		if err := closer(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
