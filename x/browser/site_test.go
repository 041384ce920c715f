package browser_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web"
)

// site is a Redis with a web UI on it.
type site struct {
	redis     asynq.RedisClientOpt
	mini      *miniredis.Miniredis
	url       string
	client    *asynq.Client
	inspector *asynq.Inspector
}

// newSite starts a web UI on an embedded Redis.
func newSite(t *testing.T, with ...func(*web.Options)) *site {
	t.Helper()
	mini := miniredis.RunT(t)
	s := serve(t, asynq.RedisClientOpt{Addr: mini.Addr()}, with...)
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
	handler := web.New(opts)
	server := httptest.NewServer(handler)
	s := &site{redis: redis, url: server.URL + opts.RootPath, client: asynq.NewClient(redis), inspector: asynq.NewInspector(redis)}
	t.Cleanup(func() {
		_ = handler.Close() // it ends the event streams, which the server would wait for
		server.Close()
		_ = s.client.Close()
		_ = s.inspector.Close()
	})
	return s
}

// get asks for a page without a browser.
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
