package web

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/apiv1"
	"github.com/asynq-go/asynq/x/web/internal/apiv2"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/prom"
	"github.com/asynq-go/asynq/x/web/internal/survey"
	"github.com/asynq-go/asynq/x/web/internal/ui"
)

// parts is what a Handler is made of.
type parts struct {
	opts       Options
	redis      redis.UniversalClient
	inspector  *asynq.Inspector
	client     *asynq.Client
	poller     *poll.Poller
	bulk       *bulk.Manager
	survey     *survey.Survey
	prometheus *prom.Client
	guard      *access.Guard
	pages      *ui.UI
	closed     atomic.Bool
}

// untilClosed refuses requests from Close on: all that is known is what was seen before, and would be told as if it were so now. Only
// the page that says so gets its styles.
func (p *parts) untilClosed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.closed.Load() || strings.HasPrefix(r.URL.Path, p.opts.RootPath+"/static/") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "5")
		access.Problem(w, r, http.StatusServiceUnavailable, "", "The web UI is being shut down. Try again in a moment.")
	})
}

// handler passes each request to the part that it is for. The paths of the APIs hold names, and so must not be cleaned.
func (p *parts) handler() http.Handler {
	first, second := p.apiv1(), p.apiv2()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/api/v2" || strings.HasPrefix(path, "/api/v2/"):
			second.ServeHTTP(w, r)
		case path == "/api" || strings.HasPrefix(path, "/api/"):
			first.ServeHTTP(w, r)
		default:
			p.pages.ServeHTTP(w, r)
		}
	})
}

// apiv1 is the API that tools of the existing UI use.
func (p *parts) apiv1() http.Handler {
	_, cluster := p.redis.(*redis.ClusterClient)
	cfg := apiv1.Config{
		Inspector: p.inspector, Redis: p.redis, Cluster: cluster, Gate: p.guard, Redact: p.opts.Redact,
		PrometheusAddress: p.opts.PrometheusAddress, Logger: p.opts.Logger, Wake: p.poller.Wake,
	}
	if f := p.opts.PayloadFormatter; f != nil {
		cfg.PayloadFormatter = f.FormatPayload
	}
	if f := p.opts.ResultFormatter; f != nil {
		cfg.ResultFormatter = f.FormatResult
	}
	return apiv1.New(cfg)
}

// apiv2 is the API for new tools.
func (p *parts) apiv2() http.Handler {
	cfg := apiv2.Config{
		Inspector: p.inspector, Client: p.client, Bulk: p.bulk, Gate: p.guard, Poller: p.poller, History: p.history,
		Redact: p.opts.Redact, RootPath: p.opts.RootPath, ReadOnly: p.opts.ReadOnly, Logger: p.opts.Logger, Version: version(),
		User: func(ctx context.Context) (string, access.Role) {
			u := access.UserFrom(ctx)
			return u.Name, u.Role
		},
	}
	if f := p.opts.PayloadFormatter; f != nil {
		cfg.FormatPayload = f.FormatPayload
	}
	if f := p.opts.ResultFormatter; f != nil {
		cfg.FormatResult = f.FormatResult
	}
	return apiv2.New(cfg)
}

// history is what the poller has kept of some metrics, or nil if that is nothing.
func (p *parts) history(queue string, metrics []string, span time.Duration) *apiv2.Series {
	var known []poll.Metric
	for _, name := range metrics {
		if m, ok := poll.ParseMetric(name); ok {
			known = append(known, m)
		}
	}
	kept := p.poller.History(queue, known, span)
	if !kept.Known {
		return nil
	}
	series := &apiv2.Series{Times: kept.Times, Values: make(map[string][]*float64, len(known))}
	for _, m := range known {
		values := make([]*float64, len(kept.Values[m]))
		for i := range kept.Values[m] {
			if v := &kept.Values[m][i]; !math.IsNaN(*v) {
				values[i] = v
			}
		}
		series.Values[m.String()] = values
	}
	return series
}

// looker is the poller as the pages want it.
type looker struct{ *poll.Poller }

// patience is how long a request waits for a look that has been begun for it.
const patience = 2 * time.Second

// Latest is no older than what people take for now. While nobody looks the poller looks seldom: who comes then waits for a look of
// their own.
func (l looker) Latest() *poll.Snapshot {
	const now = 3 * time.Second
	s := l.Poller.Latest()
	if s != nil && (s.Err != nil || time.Since(s.At) < now) {
		return s
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if fresh, err := l.Fresh(ctx, time.Now().Add(-now)); err == nil {
		return fresh
	}
	if s == nil {
		s = &poll.Snapshot{At: time.Now(), Err: errors.New("it has not answered yet")}
	}
	return s
}

// Wake waits for a look from now on, so that the page after a change shows what was changed.
func (l looker) Wake() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _ = l.Fresh(ctx, time.Now()) // what is known without it is shown then
}
