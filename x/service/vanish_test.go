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

// fragile is a client over HTTP/2 with one connection, which it can lose in several ways.
type fragile struct {
	*http.Client
	t      testing.TB
	url    string
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	gone  bool
	conns []*net.TCPConn // one, and those that others were quicker than
	deaf  chan struct{}  // closed: it reads again; nil: it reads
}

// secure is where the service answers with TLS and HTTP/2, too.
func (s *site) secure() *httptest.Server {
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
			return &hearing{conn, c}, nil
		},
	}}
	t.Cleanup(c.reset)
	return c
}

// hearing reads from a connection unless the client is deaf.
type hearing struct {
	net.Conn
	c *fragile
}

func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.c.mu.Lock()
	deaf := h.c.deaf
	h.c.mu.Unlock()
	if deaf != nil {
		<-deaf
	}
	return n, err
}

// take takes tasks. The error is of the connection.
func (c *fragile) take(queue string, n int) error {
	req, _ := http.NewRequestWithContext(c.ctx, http.MethodPost, c.url+"/v1/take", strings.NewReader(fmt.Sprintf(`{"queues":[%q],"n":%d,"wait":"20s","worker":"fragile"}`, queue, n)))
	req.Header.Set("Authorization", "Bearer "+all)
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusOK {
		c.t.Errorf("%s answered %s", res.Proto, res.Status)
	}
	return nil
}

// close ends the connection as a process does that ends.
func (c *fragile) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// reset ends it as a process does that crashes with something unread.
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

// Whoever waits over HTTP/2 and vanishes, with all that waits on the connection, gets no task: what comes goes to the next, in order, and
// in its first attempt.
func TestTakersOverHTTP2ThatLeave(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newSite(t, opt, nil)
		server := s.secure()
		for name, leave := range map[string]func(*fragile){
			"canceled": func(c *fragile) { c.cancel() }, "closed": (*fragile).close, "reset": (*fragile).reset,
		} {
			c := newFragile(t, server)
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					if c.take(name, 3) == nil {
						t.Errorf("%s: a client that was gone got an answer", name)
					}
				})
			}
			proctest.Eventually(t, "requests to wait", func() bool { return s.service.Waiting() == 4 })
			leave(c)
			group.Wait()
			proctest.Eventually(t, "the service to hear that they are gone", func() bool { return s.service.Waiting() == 0 })
			s.enqueue(name, 5, "")
			r := s.call("POST", "/v1/take", `{"queues":["`+name+`"],"n":5,"wait":"10s"}`).want(200)
			for i := range 5 {
				if r.get("tasks", i, "id") != fmt.Sprint(i+1) || r.get("tasks", i, "attempt") != 1.0 {
					t.Errorf("%s: got %s", name, r.body)
				}
			}
		}
	})
}

// A client that stops reading in the middle of its answer, and vanishes then, has not got its tasks: they go back at once.
func TestTakeBreaksOffOverHTTP2(t *testing.T) {
	t.Parallel()
	s := newSite(t, realRedis(t), nil)
	c := newFragile(t, s.secure())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.take("q", 2) // an error, or the headers alone
	}()
	proctest.Eventually(t, "the request to wait", func() bool { return s.service.Waiting() == 1 })
	c.mu.Lock()
	c.deaf = make(chan struct{})
	c.mu.Unlock()
	large := strings.Repeat("x", 6<<20) // more than the window of a stream
	s.call("POST", "/v1/tasks", `{"type":"t","queue":"q","id":"1","payload_text":"`+large+`"}`).want(201)
	proctest.Eventually(t, "the task to be on its way", func() bool { return s.state("q", "1") == "active" && s.service.Waiting() == 0 })
	c.reset()
	<-ended
	r := s.call("POST", "/v1/take", `{"queues":["q"],"wait":"20s"}`).want(200)
	if r.get("tasks", 0, "id") != "1" || r.get("tasks", 0, "attempt") != 1.0 || len(r.str("tasks", 0, "payload_text")) != len(large) {
		t.Errorf("got %.300s", r.body)
	}
	if !strings.Contains(s.log.String(), "tasks given back") {
		t.Error("it was not logged")
	}
}

// Clients vanish at any moment, in any way, while tasks come. Each task is done in the end: it went back at once, or its lease ended.
func TestStormOfTakersOverHTTP2(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		const n = 60
		s := newSite(t, opt, func(c *service.Config) { c.Limits.LeaseDuration = time.Second })
		server := s.secure()
		seed := uint64(time.Now().UnixNano())
		rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // Who vanishes is no secret.
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
			for _, info := range retries { // nobody waits for the delay
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
			t.Fatalf("%d tasks are done, %v", len(done), err)
		}
		lapsed := 0
		for _, info := range done {
			lapsed += min(info.Retried, 1)
		}
		t.Logf("seed %d: %d of %d tasks were held until a lease ended, %d times some went back at once", seed, lapsed, n, strings.Count(s.log.String(), "tasks given back"))
	})
}
