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

// parts are the components of a Handler.
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

// untilClosed rejects requests after Close, since the data is no longer current. Only static files,
// which the error page needs, are still served.
func (p *parts) untilClosed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.closed.Load() || strings.HasPrefix(r.URL.Path, p.opts.RootPath+"/static/") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "5")
		access.Problem(w, r, http.StatusServiceUnavailable, "", "The web UI is shutting down. Try again in a moment.")
	})
}

// handler dispatches requests to the components. It does not clean the paths of the APIs, since
// they contain names.
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

// apiv1 returns the API that is compatible with the existing UI's.
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

// apiv2 returns the API for new tools.
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

// history returns recorded series of metrics; nil if there are none.
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

// freshPoller adapts the poller to the pages.
type freshPoller struct{ *poll.Poller }

const (
	// pollTimeout bounds how long a request waits for a poll that it started.
	pollTimeout = 2 * time.Second

	// recent is the age up to which a snapshot is shown while a new one takes longer than
	// recentWait. The poller polls every ten seconds without open pages.
	recent     = 15 * time.Second
	recentWait = 200 * time.Millisecond
)

// Latest returns a recent snapshot. Without open pages the poller polls rarely, so the first
// request waits for a new poll.
func (l freshPoller) Latest() *poll.Snapshot {
	const now = 3 * time.Second
	s := l.Poller.Latest()
	if s != nil && (s.Err != nil || time.Since(s.At) < now) {
		return s
	}
	wait := pollTimeout
	if s != nil && time.Since(s.At) < recent {
		wait = recentWait // the page receives the new one when it is there
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if fresh, err := l.Fresh(ctx, time.Now().Add(-now)); err == nil {
		return fresh
	}
	if s == nil {
		s = &poll.Snapshot{At: time.Now(), Err: errors.New("no response yet")}
	}
	return s
}

// Wake waits for a new poll, so that the page after a change shows the change.
func (l freshPoller) Wake() {
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	defer cancel()
	_, _ = l.Fresh(ctx, time.Now()) // on timeout, the page shows the previous snapshot
}
