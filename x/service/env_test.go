package service_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
)

// Secrets of the test tokens.
const (
	all   = "all-all-all-all-all"
	email = "email-email-email"
)

// env is a service with its own Redis.
type env struct {
	t       testing.TB
	redis   asynq.RedisConnOpt
	service *service.Service
	server  *httptest.Server
	log     *proctest.Log
}

func fakeRedis(t testing.TB) asynq.RedisConnOpt {
	t.Helper()
	return asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
}

func realRedis(t testing.TB) asynq.RedisConnOpt {
	t.Helper()
	return asynq.RedisClientOpt{Addr: proctest.StartRedis(t).Addr()}
}

// onEach runs a test with miniredis and redis-server.
func onEach(t *testing.T, test func(t *testing.T, opt asynq.RedisConnOpt)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { t.Parallel(); test(t, fakeRedis(t)) })
	t.Run("redis-server", func(t *testing.T) { t.Parallel(); test(t, realRedis(t)) })
}

func tokens() []service.Token {
	every := []service.Scope{service.Enqueue, service.Work, service.Read, service.Manage}
	return []service.Token{
		{Name: "all", Secret: all, Scopes: every, Queues: []string{"*"}},
		{Name: "email", Secret: email, Scopes: every, Queues: []string{"email:*"}},
	}
}

// newEnv starts a service. change may be nil.
func newEnv(t testing.TB, opt asynq.RedisConnOpt, change func(*service.Config)) *env {
	t.Helper()
	s := &env{t: t, redis: opt, log: new(proctest.Log)}
	cfg := service.Config{RedisConnOpt: opt, Tokens: tokens(), Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.service, err = service.New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := s.service.Start(); err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(s.service)
	t.Cleanup(func() {
		s.shutdown()
		s.server.Close()
	})
	return s
}

func (s *env) shutdown() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.service.Shutdown(ctx); err != nil {
		s.t.Errorf("shutdown: %v", err)
	}
}

// reply is a response.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

// call makes a request with the token "all".
func (s *env) call(method, path, body string) *reply {
	s.t.Helper()
	return s.callAs(all, method, path, body)
}

func (s *env) callAs(secret, method, path, body string) *reply {
	s.t.Helper()
	r, err := s.try(context.Background(), secret, method, path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *env) try(ctx context.Context, secret, method, path, body string) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.server.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	res, err := s.server.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return &reply{s.t, res.StatusCode, res.Header, text}, err
}

// want fails the test unless the response has this status.
func (r *reply) want(status int) *reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// problem fails the test unless the response is a problem of this kind.
func (r *reply) problem(status int, kind string) *reply {
	r.t.Helper()
	r.want(status)
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		r.t.Errorf("content type %q", got)
	}
	if got := r.get("type"); got != "urn:asynq:problem:"+kind {
		r.t.Errorf("problem type %v, want %v: %s", got, kind, r.body)
	}
	if got := r.get("status"); got != float64(status) {
		r.t.Errorf("status of the problem: %v, want %v", got, status)
	}
	return r
}

// get returns a value of the response by field names and indexes.
func (r *reply) get(path ...any) any {
	r.t.Helper()
	var v any
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Fatalf("the response is not JSON: %v: %s", err, r.body)
	}
	for _, p := range path {
		switch p := p.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

func (r *reply) str(path ...any) string {
	r.t.Helper()
	s, ok := r.get(path...).(string)
	if !ok {
		r.t.Fatalf("%v is not a string in %s", path, r.body)
	}
	return s
}

func (r *reply) list(name string) []any {
	r.t.Helper()
	list, ok := r.get(name).([]any)
	if !ok {
		r.t.Fatalf("%s is not an array in %s", name, r.body)
	}
	return list
}

func (s *env) inspector() *asynq.Inspector {
	i := asynq.NewInspector(s.redis)
	s.t.Cleanup(func() { _ = i.Close() })
	return i
}
