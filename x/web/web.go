package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

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
		Root: opts.RootPath, Inspector: inspector, Client: asynq.NewClient(shared), Poller: looker{poller}, Gate: guard, Events: poller.Events, Logger: opts.Logger,
	})
	mux := http.NewServeMux()
	mux.Handle("/", pages)

	h := &Handler{Handler: guard.Wrap(http.StripPrefix(opts.RootPath, withMetrics(opts.Metrics, guard, mux))), root: opts.RootPath}
	h.close = append(h.close, func() error { poller.Close(); return nil })
	if owned {
		h.close = append(h.close, client.Close)
	}
	return h
}

// looker is the poller as the pages want it.
type looker struct{ *poll.Poller }

// patience is how long a request waits for a look that has been begun for it.
const patience = 2 * time.Second

// Latest waits for the first look, if there has been none; if that takes too long, nothing is known.
func (l looker) Latest() *poll.Snapshot {
	if s := l.Poller.Latest(); s != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := l.Fresh(ctx, time.Time{})
	if err != nil {
		return &poll.Snapshot{At: time.Now(), Err: errors.New("it has not answered yet")}
	}
	return s
}

// Wake waits for a look from now on, so that the page after a change shows what was changed.
func (l looker) Wake() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _ = l.Fresh(ctx, time.Now()) // what is known without it is shown then
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
