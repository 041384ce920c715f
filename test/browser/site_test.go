package browser_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web"
)

// site is a Redis with a web UI.
type site struct {
	redis     asynq.RedisClientOpt
	mini      *miniredis.Miniredis
	url       string
	ui        *web.Handler
	signIn    func() string // path and query of a new sign-in link, below the host
	client    *asynq.Client
	inspector *asynq.Inspector
}

// newSite starts a web UI on an embedded Redis.
func newSite(t *testing.T, with ...func(*web.Options)) *site {
	t.Helper()
	mini := miniredis.RunT(t)
	s := serve(t, asynq.RedisClientOpt{Addr: mini.Addr(), ReadTimeout: timeout}, with...) // a test may hold replies back
	s.mini = mini
	return s
}

// serve starts a web UI on a Redis.
func serve(t *testing.T, redis asynq.RedisClientOpt, with ...func(*web.Options)) *site {
	t.Helper()
	opts := web.Options{RedisConnOpt: redis, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, set := range with {
		set(&opts)
	}
	if len(opts.Users) == 0 && opts.Proxy == nil && opts.Token == "" {
		opts.Anonymous = web.Admin // most tests do not test access
	}
	handler := web.New(opts)
	server := httptest.NewServer(handler)
	s := &site{redis: redis, url: server.URL + opts.RootPath, ui: handler, signIn: handler.SignInPath, client: asynq.NewClient(redis), inspector: asynq.NewInspector(redis)}
	t.Cleanup(func() {
		_ = handler.Close() // ends the event streams, which the server would wait for
		server.Close()
		_ = s.client.Close()
		_ = s.inspector.Close()
	})
	return s
}

// await receives a value from a channel.
func await[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(timeout):
		t.Fatalf("timeout waiting for %s", what)
		panic("not reached")
	}
}

// subscribed waits until n servers receive cancelations.
func (s *site) subscribed(t *testing.T, n int) {
	t.Helper()
	proctest.Eventually(t, "servers to subscribe to cancelations", func() bool {
		const channel = "asynq:cancel"
		return s.mini.PubSubNumSub(channel)[channel] == n
	})
}

// get requests a page without a browser.
func (s *site) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get(s.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
