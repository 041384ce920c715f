package e2e

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// flaky is a proxy before a service that drops one connection in so many requests: in turn before the service has got the request, and
// when it has answered. Tasks on their way to a worker it lets pass: their attempts would count.
func flaky(t *testing.T, s *site, every int64) (address string) {
	t.Helper()
	target, err := url.Parse(s.url())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { hangUp(w) }
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := count.Add(1)
		switch {
		case n%every == 0 && r.URL.Path != "/v1/take":
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			hangUp(w)
		case n%every == 0, n%every == every/2:
			hangUp(w)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// hangUp ends a connection in the middle of everything.
func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// shortLease lets heartbeats come soon.
const shortLease = 2 * time.Second

func TestPHPClient(t *testing.T) {
	t.Parallel()
	php := needPHP(t)
	s := newSite(t, shortLease)
	env := append(clientEnv(flaky(t, s, 7)), "ASYNQ_READ_TOKEN="+readToken)
	start(t, env, php, filepath.Join("..", "php", "tests", "run.php")).wait(t)
}

func TestPythonClient(t *testing.T) {
	t.Parallel()
	python := need(t, "python3", "CI_REQUIRE_PYTHON")
	s := newSite(t, shortLease)
	env := append(clientEnv(flaky(t, s, 7)), "ASYNQ_READ_TOKEN="+readToken, "PYTHONDONTWRITEBYTECODE=1")
	start(t, env, python, "-m", "unittest", "discover", "-s", filepath.Join("..", "python"), "-p", "*_test.py").wait(t)
}
