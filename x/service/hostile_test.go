package service_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
)

// A body that never arrives must not block a connection, least of all without a token.
func TestBodyThatNeverArrives(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	s.service.SetBodyTimeout(300 * time.Millisecond)
	for name, head := range map[string]string{
		"no token":   "POST /v1/tasks HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
		"no path":    "POST /nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"health":     "GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
		"not read":   "POST /v1/queues/q/pause HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + all + "\r\nContent-Length: 100\r\n\r\n",
		"being read": "POST /v1/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + all + "\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			response, err := io.ReadAll(bufio.NewReader(conn))
			if err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 ") {
				t.Errorf("got %q, %v", response, err)
			}
			if name == "being read" && !strings.HasPrefix(string(response), "HTTP/1.1 400 ") {
				t.Errorf("the response to an incomplete body is %q", response)
			}
		})
	}
}

// A client that closes its half of a connection may still read. It must not receive a success.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	s.call("POST", "/v1/tasks", `{"type":"q","id":"x"}`).want(http.StatusCreated)
	for name, head := range map[string]string{
		"body":   "POST /v1/tasks HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\nAuthorization: Bearer " + all + "\r\n\r\n{",
		"take":   "POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: 21\r\nAuthorization: Bearer " + all + "\r\n\r\n" + `{"queues": ["empty"]}`,
		"result": "GET /v1/queues/q/tasks/x?wait=30s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + all + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			response, err := io.ReadAll(conn)
			if err != nil || strings.HasPrefix(string(response), "HTTP/1.1 2") {
				t.Errorf("got %q, %v", response, err)
			}
		})
	}
}

// The same while it waits for a task or a workflow.
func TestHalfClosedWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	s.call("POST", "/v1/tasks", `{"type":"q","id":"x"}`).want(http.StatusCreated)
	s.call("POST", "/v1/workflows", `{"id":"x","nodes":[{"name":"n","task":{"type":"q"}}]}`).want(http.StatusCreated)
	for _, path := range []string{"/v1/queues/q/tasks/x", "/v1/workflows/x"} {
		conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(conn, "GET "+path+"?wait=30s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "+all+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		proctest.Eventually(t, "the request to wait", func() bool { return s.service.Waiting() == 1 })
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		response, err := io.ReadAll(conn)
		_ = conn.Close()
		if err != nil || strings.HasPrefix(string(response), "HTTP/1.1 2") {
			t.Errorf("%s: got %q, %v", path, response, err)
		}
		proctest.Eventually(t, "the request to end", func() bool { return s.service.Waiting() == 0 })
	}
}

// The read deadline of a body must not end a longer wait.
func TestWaitOutlivesBody(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	s.service.SetBodyTimeout(200 * time.Millisecond)
	start := time.Now()
	s.call("POST", "/v1/take", `{"queues": ["q"], "wait": "600ms"}`).want(http.StatusOK)
	if took := time.Since(start); took < 600*time.Millisecond {
		t.Errorf("waited for %v", took)
	}
}

// A lease is secret and part of paths.
func TestLeasesAreNotLogged(t *testing.T) {
	t.Parallel()
	s := newEnv(t, asynq.RedisClientOpt{Addr: "127.0.0.1:1", Params: "max_retries=-1"}, nil)
	lease := base64.RawURLEncoding.EncodeToString([]byte("\x01\x01q\x01ithe-token"))
	s.callAs("unknown-unknown-unknown", "POST", "/v1/leases/"+lease+"/done", "").want(http.StatusUnauthorized)
	s.call("POST", "/v1/leases/"+lease+"/done", "").want(http.StatusServiceUnavailable)
	text := s.log.String()
	if strings.Contains(text, lease) || !strings.Contains(text, "/v1/leases/{lease}/done") {
		t.Errorf("the log: %s", text)
	}
}

// The waiting requests of one token leave room for other tokens.
func TestWaitingRequestsAreShared(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.Limits.MaxWaiting = 10 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	responses := make(chan int, 20)
	hold := func(secret string) {
		before := s.service.Waiting()
		go func() {
			r, err := s.try(ctx, secret, "POST", "/v1/take", `{"queues": ["email:x"], "wait": "1m"}`)
			if err == nil {
				responses <- r.status
			}
		}()
		proctest.Eventually(t, "a response or another waiting request", func() bool { return s.service.Waiting() > before || len(responses) > 0 })
	}
	for range 5 {
		hold(all)
	}
	r := s.call("POST", "/v1/take", `{"queues": ["q"], "wait": "1s"}`)
	r.problem(http.StatusTooManyRequests, "too-many-requests")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	hold(email)
	hold(email)
	if len(responses) > 0 {
		t.Errorf("the other token got status %d", <-responses)
	}
}
