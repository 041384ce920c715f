package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/service/internal/api"
	"github.com/asynq-go/asynq/x/service/internal/auth"
)

// guarded lets in who has a token for a route, as often as the token may be used. Logs tell the pattern of the route: there are leases
// in paths.
func (s *Service) guarded(route api.Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.api.Enter() {
			api.Fail(w, api.Problemf(http.StatusServiceUnavailable, api.KindUnavailable, "the service shuts down: try again"))
			return
		}
		defer s.api.Leave()
		if s.state.Load() != stateActive {
			api.Fail(w, api.Problemf(http.StatusServiceUnavailable, api.KindUnavailable, "the service does not run"))
			return
		}
		set := s.settings.Load()
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || secret == "" {
			api.Fail(w, api.Problemf(http.StatusUnauthorized, api.KindUnauthorized, "send a token: Authorization: Bearer SECRET"))
			return
		}
		secret = strings.TrimSpace(secret)
		who := set.ring.Find(secret)
		if who == nil {
			s.log.Warn("unknown token", "route", r.Pattern, "remote", r.RemoteAddr)
			api.Fail(w, api.Unknown())
			return
		}
		if wait := who.Admit(); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			api.Fail(w, api.Problemf(http.StatusTooManyRequests, api.KindTooMany, "the token %q was used too often: try again in %v, or send more in one request", who.Name, wait.Round(time.Millisecond)))
			return
		}
		if !who.May(route.Scope) {
			api.Fail(w, api.Lacks(who, route.Scope))
			return
		}
		call := &api.Call{W: w, R: r, Who: who, Rules: set.rules, Scope: route.Scope}
		call.Find = func() *auth.Holder { return s.settings.Load().ring.Find(secret) }
		if err := route.Handler(call); err != nil {
			if errors.Is(err, api.ErrClientGone) {
				return // net/http closes the connection: not all of the answer was written
			}
			p := api.ProblemOf(err)
			switch {
			case r.Context().Err() != nil && p.Status >= http.StatusInternalServerError:
				// It may have closed only its half of the connection, and read on. Without an answer net/http says 200.
				p = api.Problemf(http.StatusServiceUnavailable, api.KindUnavailable, "the connection was closed before the answer")
			case p.Status >= http.StatusInternalServerError:
				s.log.Warn("request failed", "route", r.Pattern, "token", who.Name, "status", p.Status, "error", err)
			}
			api.Fail(w, p)
		}
	}
}

// missing answers for what there is not.
func (s *Service) missing(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := s.mux.Handler(&other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		api.Fail(w, api.Problemf(http.StatusMethodNotAllowed, api.KindMethod, "%s is not for this path: %s is", r.Method, strings.Join(allowed, " or ")))
		return
	}
	api.Fail(w, api.Problemf(http.StatusNotFound, api.KindNotFound, "there is no such path: /openapi.json lists all"))
}

// readyTimeout is how long /readyz waits for Redis.
const readyTimeout = 2 * time.Second

func (s *Service) ready(w http.ResponseWriter, r *http.Request) {
	if s.state.Load() != stateActive {
		answer(w, http.StatusServiceUnavailable, "the service does not run")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	pong := make(chan error, 1)
	go func() { pong <- s.redis.Ping(ctx).Err() }() // a connection that is silent ends by its own timeouts, which are longer
	var err error
	select {
	case err = <-pong:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		answer(w, http.StatusServiceUnavailable, "Redis does not answer") // the error may tell where Redis is
		return
	}
	answer(w, http.StatusOK, "ok")
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
