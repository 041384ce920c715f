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

// guarded authenticates requests, checks the scope and applies the rate limit. Logs contain the
// pattern of the route instead of the path, because paths contain leases.
func (s *Service) guarded(route api.Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.api.Enter() {
			api.Fail(w, api.Problemf(http.StatusServiceUnavailable, api.KindUnavailable, "the service is shutting down: try again"))
			return
		}
		defer s.api.Leave()
		if s.state.Load() != stateActive {
			api.Fail(w, api.Problemf(http.StatusServiceUnavailable, api.KindUnavailable, "the service is not running"))
			return
		}
		set := s.settings.Load()
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || secret == "" {
			api.Fail(w, api.Problemf(http.StatusUnauthorized, api.KindUnauthorized, "missing token: send the header Authorization: Bearer SECRET"))
			return
		}
		secret = strings.TrimSpace(secret)
		who := set.ring.Find(secret)
		if who == nil {
			s.log.Warn("unknown token", "route", r.Pattern, "remote", r.RemoteAddr)
			api.Fail(w, api.UnknownToken())
			return
		}
		if wait := who.Admit(); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			api.Fail(w, api.Problemf(http.StatusTooManyRequests, api.KindTooMany, "the token %q exceeded its rate limit: try again in %v, or send more per request", who.Name, wait.Round(time.Millisecond)))
			return
		}
		if !who.May(route.Scope) {
			api.Fail(w, api.MissingScope(who, route.Scope))
			return
		}
		call := &api.Call{W: w, R: r, Who: who, Rules: set.rules, Scope: route.Scope}
		call.Find = func() *auth.Holder { return s.settings.Load().ring.Find(secret) }
		if err := route.Handler(call); err != nil {
			if errors.Is(err, api.ErrClientGone) {
				return // net/http closes the connection: the response is incomplete
			}
			p := api.ProblemOf(err)
			switch {
			case r.Context().Err() != nil && p.Status >= http.StatusInternalServerError:
				// The client may have closed only its half of the connection and still read.
				// Without a response, net/http sends 200.
				p = api.Problemf(http.StatusServiceUnavailable, api.KindUnavailable, "the connection was closed before the response")
			case p.Status >= http.StatusInternalServerError:
				s.log.Warn("request failed", "route", r.Pattern, "token", who.Name, "status", p.Status, "error", err)
			}
			api.Fail(w, p)
		}
	}
}

// notFound handles requests that match no route.
func (s *Service) notFound(w http.ResponseWriter, r *http.Request) {
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
		api.Fail(w, api.Problemf(http.StatusMethodNotAllowed, api.KindMethod, "the path does not support %s: use %s", r.Method, strings.Join(allowed, " or ")))
		return
	}
	api.Fail(w, api.Problemf(http.StatusNotFound, api.KindNotFound, "path not found: see /openapi.json"))
}

// readyTimeout is how long /readyz waits for Redis.
const readyTimeout = 2 * time.Second

func (s *Service) ready(w http.ResponseWriter, r *http.Request) {
	if s.state.Load() != stateActive {
		respond(w, http.StatusServiceUnavailable, "the service is not running")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	pong := make(chan error, 1)
	go func() { pong <- s.redis.Ping(ctx).Err() }() // an unresponsive connection has longer timeouts of its own
	var err error
	select {
	case err = <-pong:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		respond(w, http.StatusServiceUnavailable, "Redis is unreachable") // the error may contain the address of Redis
		return
	}
	respond(w, http.StatusOK, "ok")
}

func respond(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
