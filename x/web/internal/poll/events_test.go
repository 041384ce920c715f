package poll

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// client is a ResponseWriter with deadlines. A dead client accepts nothing.
type client struct {
	header http.Header
	dead   bool

	mu       sync.Mutex
	text     strings.Builder
	status   int
	deadline time.Time
	flushed  int // bytes
}

func (c *client) Header() http.Header { return c.header }

func (c *client) WriteHeader(status int) { c.status = status }

func (c *client) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		time.Sleep(time.Until(c.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	return c.text.Write(b)
}

func (c *client) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed = c.text.Len()
	return nil
}

func (c *client) SetWriteDeadline(t time.Time) error { c.deadline = t; return nil }

// take returns the bytes that were flushed since the last call.
func (c *client) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.text.String()[:c.flushed]
	rest := c.text.String()[c.flushed:]
	c.text.Reset()
	c.text.WriteString(rest)
	c.flushed = 0
	return text
}

func get(ctx context.Context) *http.Request {
	return httptest.NewRequest(http.MethodGet, "/events", http.NoBody).WithContext(ctx)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.queues["low"] = asynq.QueueInfo{Pending: 1}
		f.queues["mid"] = asynq.QueueInfo{Archived: 9500}
		p := newPoller(t, Config{Source: f, Interval: 20 * time.Second, IdleInterval: 40 * time.Second})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		c := &client{header: make(http.Header)}
		ended := make(chan struct{})
		at := p.Latest().At.Format(time.RFC3339Nano)
		go func() {
			defer close(ended)
			p.Events(c, get(ctx))
		}()
		synctest.Wait()
		wantEqual(t, "content type", c.header.Get("Content-Type"), "text/event-stream")
		wantEqual(t, "no buffering", c.header.Get("X-Accel-Buffering"), "no")
		wantEqual(t, "no cache", c.header.Get("Cache-Control"), "no-store")
		wantEqual(t, "the first event", c.take(), "retry: 2000\n\nevent: snapshot\ndata: {\"seq\":1,\"at\":\""+at+"\",\"causes\":2,\"troubles\":1}\n\n")
		time.Sleep(16 * time.Second)
		wantEqual(t, "after 16 s", c.take(), ": here\n\n")
		f.set(func(f *fakeSource) { f.down = errDown })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		first, _, _ := strings.Cut(c.take(), "\n\n")
		var e event
		if err := json.Unmarshal([]byte(strings.TrimPrefix(first, "event: snapshot\ndata: ")), &e); err != nil {
			t.Fatal(err)
		}
		if e.Seq != 2 || !strings.Contains(e.Error, "connection refused") || e.Causes != 1 || e.Troubles != 1 {
			t.Errorf("the event of a Redis that is away: %+v", e)
		}
		cancel()
		<-ended
	})
}

func TestEventsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, Config{Source: newFake(), MaxStreams: 2})
		open := func(ctx context.Context, c *client) chan struct{} {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				p.Events(c, get(ctx))
			}()
			synctest.Wait()
			return ended
		}
		dead := open(t.Context(), &client{header: make(http.Header), dead: true})
		living := open(t.Context(), &client{header: make(http.Header)})
		third := httptest.NewRecorder()
		p.Events(third, get(t.Context()))
		if third.Code != http.StatusServiceUnavailable || third.Header().Get("Retry-After") == "" {
			t.Errorf("a third stream was answered with %d", third.Code)
		}
		time.Sleep(writeTimeout + time.Second)
		select {
		case <-dead:
		default:
			t.Error("the stream of a dead client goes on after its deadline")
		}
		again := open(t.Context(), &client{header: make(http.Header)})
		p.Close()
		<-living
		<-again
		after := httptest.NewRecorder()
		p.Events(after, get(t.Context()))
		wantEqual(t, "status after Close", after.Code, http.StatusServiceUnavailable)
		post := httptest.NewRecorder()
		p.Events(post, httptest.NewRequest(http.MethodPost, "/events", http.NoBody))
		wantEqual(t, "status of a POST", post.Code, http.StatusMethodNotAllowed)
		wantEqual(t, "streams", p.streams.Load(), 0)
	})
}

// A stream outlives the timeouts of its http.Server, and ends when its client disconnects.
func TestEventsOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFake()
	p := newPoller(t, Config{Source: f, Interval: 50 * time.Millisecond})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(p.Events))
	const timeout, lasts = 500 * time.Millisecond, 3 * 500 * time.Millisecond
	srv.Config.WriteTimeout, srv.Config.ReadTimeout = timeout, timeout
	srv.Start()
	defer srv.Close()
	var resp *http.Response
	proctest.Until(t, "a request that a busy machine reads within the timeouts", func() (err error) {
		resp, err = srv.Client().Get(srv.URL) //nolint:noctx,bodyclose // the body is closed below, which ends the request
		return err
	})
	lines := bufio.NewScanner(resp.Body)
	began, events := time.Now(), 0
	for (time.Since(began) < lasts || events < 3) && lines.Scan() {
		if lines.Text() == "event: snapshot" {
			events++
		}
	}
	if time.Since(began) < lasts || events < 3 {
		t.Errorf("the stream ended after %v with %d events: %v", time.Since(began), events, lines.Err())
	}
	resp.Body.Close()
	proctest.Eventually(t, "the stream to end without its client", func() bool { return p.streams.Load() == 0 })
}
