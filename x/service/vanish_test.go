package service_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
)

// fragile is an HTTP/2 client whose connection can be lost in several ways.
type fragile struct {
	*http.Client
	t      testing.TB
	url    string
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	gone  bool
	conns []*net.TCPConn // the connection in use and unused duplicates
	deaf  chan struct{}  // if not nil, reads block until it is closed
}

// secure serves the service with TLS and HTTP/2.
func (s *env) secure() *httptest.Server {
	server := httptest.NewUnstartedServer(s.service)
	server.EnableHTTP2 = true
	server.StartTLS()
	s.t.Cleanup(func() {
		s.shutdown()
		server.Close()
	})
	return server
}

func newFragile(t testing.TB, server *httptest.Server) *fragile {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c := &fragile{t: t, url: server.URL}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.Client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.gone {
				return nil, errors.Join(net.ErrClosed, conn.Close())
			}
			c.conns = append(c.conns, conn.(*net.TCPConn))
			return &blockingConn{conn, c}, nil
		},
	}}
	t.Cleanup(c.reset)
	return c
}

// blockingConn blocks reads while the client is deaf.
type blockingConn struct {
	net.Conn
	c *fragile
}

func (h *blockingConn) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.c.mu.Lock()
	deaf := h.c.deaf
	h.c.mu.Unlock()
	if deaf != nil {
		<-deaf
	}
	return n, err
}

// take takes tasks. The error is a connection error.
func (c *fragile) take(queue string, n int) error {
	req, _ := http.NewRequestWithContext(c.ctx, http.MethodPost, c.url+"/v1/take", strings.NewReader(fmt.Sprintf(`{"queues":[%q],"n":%d,"wait":"20s","worker":"fragile"}`, queue, n)))
	req.Header.Set("Authorization", "Bearer "+all)
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusOK {
		c.t.Errorf("%s responded with %s", res.Proto, res.Status)
	}
	return nil
}

// close closes the connection, as when a process exits.
func (c *fragile) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// reset resets the connection, as when a process crashes with unread data.
func (c *fragile) reset() {
	c.mu.Lock()
	for _, conn := range c.conns {
		_ = conn.SetLinger(0)
	}
	if c.deaf != nil {
		close(c.deaf)
		c.deaf = nil
	}
	c.mu.Unlock()
	c.close()
}

// Clients that disconnect while they wait over HTTP/2 receive no tasks: the next worker receives
// them, in order, as first attempts.
func TestDisconnectWhileWaitingOverHTTP2(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		server := s.secure()
		for name, leave := range map[string]func(*fragile){
			"canceled": func(c *fragile) { c.cancel() }, "closed": (*fragile).close, "reset": (*fragile).reset,
		} {
			c := newFragile(t, server)
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					if c.take(name, 3) == nil {
						t.Errorf("%s: a disconnected client got a response", name)
					}
				})
			}
			proctest.Eventually(t, "requests to wait", func() bool { return s.service.Waiting() == 4 })
			leave(c)
			group.Wait()
			proctest.Eventually(t, "the service to detect the disconnect", func() bool { return s.service.Waiting() == 0 })
			s.enqueue(name, 5, "")
			for taken := 0; taken < 5; { // a fetch for a disconnected client may have taken some already
				r := s.call("POST", "/v1/take", `{"queues":["`+name+`"],"n":5,"wait":"50s"}`).want(200)
				tasks := r.list("tasks")
				for i := range tasks {
					if taken++; r.get("tasks", i, "id") != fmt.Sprint(taken) || r.get("tasks", i, "attempt") != 1.0 {
						t.Fatalf("%s: got %s, want task %d", name, r.body, taken)
					}
				}
				if len(tasks) == 0 {
					t.Fatalf("%s: only %d tasks were delivered", name, taken)
				}
			}
		}
	})
}

// If a client stops reading during a response and disconnects, its tasks return to the queue at
// once.
func TestDisconnectDuringResponseOverHTTP2(t *testing.T) {
	t.Parallel()
	s := newEnv(t, realRedis(t), nil)
	c := newFragile(t, s.secure())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.take("q", 2) // an error or headers only
	}()
	proctest.Eventually(t, "the request to wait", func() bool { return s.service.Waiting() == 1 })
	c.mu.Lock()
	c.deaf = make(chan struct{})
	c.mu.Unlock()
	large := strings.Repeat("x", 6<<20) // exceeds the flow control window of a stream
	s.call("POST", "/v1/tasks", `{"type":"t","queue":"q","id":"1","payload_text":"`+large+`"}`).want(201)
	proctest.Eventually(t, "the task to be delivered", func() bool { return s.state("q", "1") == "active" && s.service.Waiting() == 0 })
	c.reset()
	<-ended
	r := s.call("POST", "/v1/take", `{"queues":["q"],"wait":"20s"}`).want(200)
	if r.get("tasks", 0, "id") != "1" || r.get("tasks", 0, "attempt") != 1.0 || len(r.str("tasks", 0, "payload_text")) != len(large) {
		t.Errorf("got %.300s", r.body)
	}
	if !strings.Contains(s.log.String(), "undelivered tasks returned") {
		t.Error("not logged")
	}
}

// Clients disconnect at random moments while tasks are enqueued. Every task completes: it returned
// to the queue at once, or its lease expired.
func TestRandomDisconnectsOverHTTP2(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		const n = 60
		s := newEnv(t, opt, func(c *service.Config) { c.Limits.LeaseDuration = time.Second })
		server := s.secure()
		seed := uint64(time.Now().UnixNano())
		rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not used for security
		enqueued := make(chan struct{})
		go func() {
			defer close(enqueued)
			for i := range n {
				r, err := s.try(context.Background(), all, "POST", "/v1/tasks", fmt.Sprintf(`{"type":"t","queue":"q","id":"%d","retention":"1h"}`, i))
				if err != nil || r.status != 201 {
					t.Errorf("enqueue: %v", err)
				}
			}
		}()
		for open := true; open; {
			select {
			case <-enqueued:
				open = false
			default:
			}
			c := newFragile(t, server)
			var group sync.WaitGroup
			for range 1 + rnd.IntN(3) {
				group.Go(func() { _ = c.take("q", 2) })
			}
			leave := []func(){c.cancel, c.close, c.reset}[rnd.IntN(3)]
			time.AfterFunc(time.Duration(rnd.IntN(8000))*time.Microsecond, leave)
			group.Wait()
			c.reset()
		}
		inspector := s.inspector()
		proctest.Eventually(t, "all tasks to be done", func() bool {
			retries, err := inspector.ListRetryTasks("q")
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range retries { // skips the retry delay
				if err := inspector.RunTask("q", info.ID); err != nil && !errors.Is(err, asynq.ErrTaskState) {
					t.Error(err)
				}
			}
			if l, _ := s.take("q", 100, "0s"); len(l) > 0 {
				s.call("POST", "/v1/leases/settle", `{"outcomes":[{"outcome":"done","lease":"`+strings.Join(l, `"},{"outcome":"done","lease":"`)+`"}]}`).want(200)
			}
			info, err := inspector.GetQueueInfo("q")
			if err != nil {
				t.Fatal(err)
			}
			return info.Completed == n
		})
		done, err := inspector.ListCompletedTasks("q", asynq.PageSize(n))
		if err != nil || len(done) != n {
			t.Fatalf("%d tasks completed, %v", len(done), err)
		}
		lapsed := 0
		for _, info := range done {
			lapsed += min(info.Retried, 1)
		}
		t.Logf("seed %d: %d of %d tasks waited for a lease to expire; undelivered tasks were returned %d times", seed, lapsed, n, strings.Count(s.log.String(), "undelivered tasks returned"))
	})
}
