package e2e

import (
	"encoding/json"
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

// flaky is a proxy that drops one connection in every so many requests, alternately before the
// service receives the request and after it has responded. It accepts the first settlements at the
// fifth attempt only. It does not drop responses that deliver tasks, because their attempts would
// count.
func flaky(t *testing.T, s *env, every int64) (address string) {
	t.Helper()
	target, err := url.Parse(s.url())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { hangUp(w) }
	var count, settles atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drop := count.Add(1) % every
		if r.URL.Path == "/v1/leases/settle" {
			// libcurl itself repeats a request on a reused connection that was dropped, so drop
			// two.
			switch n := settles.Add(1); {
			case n > 10:
			case n%5 == 0:
				drop = 1 // accept
			case n%5 == 1, n%5 == 2:
				drop = every / 2
			case n%5 == 3:
				unavailable(w, r)
				return
			case n%5 == 4:
				drop = 0
			}
		}
		switch {
		case drop == 0 && r.URL.Path != "/v1/take":
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			hangUp(w)
		case drop == 0, drop == every/2:
			hangUp(w)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// unavailable responds to settlements as the service does when Redis is unreachable.
func unavailable(w http.ResponseWriter, r *http.Request) {
	var body struct{ Outcomes []struct{ Lease string } }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var results []map[string]any
	for _, o := range body.Outcomes {
		results = append(results, map[string]any{
			"lease": o.Lease, "problem": map[string]any{"type": "urn:asynq:problem:redis", "status": http.StatusServiceUnavailable},
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results}) // the client may have disconnected
}

// hangUp resets a connection.
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

// shortLease makes heartbeats frequent.
const shortLease = 2 * time.Second

func TestPHPClient(t *testing.T) {
	t.Parallel()
	php := needPHP(t)
	s := newEnv(t, shortLease)
	env := append(clientEnv(flaky(t, s, 7)), "ASYNQ_READ_TOKEN="+readToken)
	start(t, env, php, filepath.Join("..", "php", "tests", "run.php")).wait(t)
}

func TestPythonClient(t *testing.T) {
	t.Parallel()
	python := need(t, "python3", "CI_REQUIRE_PYTHON")
	s := newEnv(t, shortLease)
	env := append(clientEnv(flaky(t, s, 7)), "ASYNQ_READ_TOKEN="+readToken, "PYTHONDONTWRITEBYTECODE=1")
	start(t, env, python, "-m", "unittest", "discover", "-v", "-s", filepath.Join("..", "python"), "-p", "*_test.py").wait(t)
}
