package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web"
)

// A reverse proxy on the same host that adds no forwarding header and speaks HTTP/1.1, as newer
// nginx does by default, gives its clients the role Viewer, not Admin.
func TestSilentReverseProxyIsViewer(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	defer client.Close()
	defer inspector.Close()
	if _, err := client.Enqueue(asynq.NewTask("a", nil), asynq.Queue("mail"), asynq.TaskID("t")); err != nil {
		t.Fatal(err)
	}
	h := web.New(web.Options{RedisConnOpt: redis, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(func() { _ = h.Close() })
	inner := httptest.NewServer(h)
	t.Cleanup(inner.Close)
	target, err := url.Parse(inner.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target) // the Host is the target's, without X-Forwarded-For
	}})
	t.Cleanup(proxy.Close)

	form := func(values ...string) io.Reader {
		q := url.Values{}
		for i := 0; i < len(values); i += 2 {
			q.Set(values[i], values[i+1])
		}
		return strings.NewReader(q.Encode())
	}
	for _, c := range []struct {
		method, path, kind string
		body               io.Reader
		want               int
	}{
		{"GET", "/queue?queue=mail", "", http.NoBody, http.StatusOK},
		{"GET", "/api/queues", "", http.NoBody, http.StatusOK},
		{"GET", "/api/v2/queues", "", http.NoBody, http.StatusOK},
		{"POST", "/queue", "application/x-www-form-urlencoded", form("queue", "mail", "do", "pause"), http.StatusForbidden},
		{"POST", "/queue", "application/x-www-form-urlencoded", form("queue", "mail", "do", "delete", "confirm", "mail", "force", "1"), http.StatusForbidden},
		{"POST", "/api/queues/mail:pause", "", http.NoBody, http.StatusForbidden},
		{"DELETE", "/api/queues/mail", "", http.NoBody, http.StatusForbidden},
		{"PATCH", "/api/v2/queues/mail", "application/json", strings.NewReader(`{"paused":true}`), http.StatusForbidden},
		{"DELETE", "/api/v2/queues/mail?force=true", "", http.NoBody, http.StatusForbidden},
		{"DELETE", "/api/v2/queues/mail/tasks/t", "", http.NoBody, http.StatusForbidden},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, proxy.URL+c.path, c.body)
		if err != nil {
			t.Fatal(err)
		}
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != c.want || c.want == http.StatusForbidden && !strings.Contains(string(text), "sign-in link") {
			t.Errorf("%s %s: %s: want %d\n%s", c.method, c.path, resp.Status, c.want, text)
		}
	}
	info, err := inspector.GetQueueInfo("mail")
	if err != nil || info.Paused || info.Pending != 1 {
		t.Errorf("the queue is %+v, %v", info, err)
	}
}
