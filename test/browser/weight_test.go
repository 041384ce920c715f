package browser_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web"
)

var weights = flag.Bool("weights", false, "weigh all pages, with more data, and log a table")

// scale counts what a web UI sends and receives, and its commands to Redis.
type scale struct{ bytes, requests, commands atomic.Int64 }

// load is what a scale has counted.
type load struct{ bytes, requests, commands int64 }

func (s *scale) read() load { return load{s.bytes.Load(), s.requests.Load(), s.commands.Load()} }

type weighedListener struct {
	net.Listener
	*scale
}

func (l weighedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return weighedConn{c, l.scale}, err
}

type weighedConn struct {
	net.Conn
	*scale
}

func (c weighedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (s *scale) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *scale) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.commands.Add(1)
		return next(ctx, cmd)
	}
}

func (s *scale) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.commands.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// Pages are light: what they load at first, what they receive while they stay open, and what they
// cost Redis. With -weights, the test weighs all pages that are live:
//
//	go test -run TestPageWeight -v ./browser -args -weights
func TestPageWeight(t *testing.T) {
	queues, servers, tasks, updates := 20, 2, 200, 3
	paths := []string{"/"}
	if *weights {
		queues, servers, tasks, updates = 200, 50, 5000, 8
		paths = []string{"/", "/queues", "/?span=1h", "/queue?queue=q001", "/queue?queue=work&span=1h", "/queue?queue=work&span=48h", "/tasks?queue=q001&state=pending", "/tasks?queue=work&state=active",
			"/errors", "/types", "/groups", "/servers", "/schedulers", "/redis", "/operations"}
	}
	at := asynq.RedisClientOpt{Addr: proctest.StartRedis(t).Addr()}
	client := asynq.NewClient(at)
	t.Cleanup(func() { _ = client.Close() })
	enqueue := func(queue, kind string, n int) {
		var all []*asynq.Task
		for k := range n {
			all = append(all, asynq.NewTask(kind, fmt.Appendf(nil, `{"user_id":%d,"email":"user%d@example.com"}`, k, k), asynq.Queue(queue)))
		}
		for _, result := range client.BatchEnqueueContext(t.Context(), all) {
			if result.Err != nil {
				t.Error(result.Err)
			}
		}
	}
	for n := range queues {
		enqueue(fmt.Sprintf("q%03d", n), fmt.Sprint("email:kind", n%30), tasks/queues)
	}
	began := make(chan struct{}, servers)
	for range servers {
		server := asynq.NewServer(at, asynq.Config{Concurrency: 4, Queues: map[string]int{"work": 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond})
		if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			if task.Type() == "block" {
				began <- struct{}{}
				<-ctx.Done()
			}
			return ctx.Err()
		})); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
	}
	enqueue("work", "block", servers)
	for range servers {
		await(t, began, "the tasks to start")
	}
	// A steady load, so that figures change.
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-ended
	})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
				_, _ = client.EnqueueContext(ctx, asynq.NewTask("quick", nil), asynq.Queue("work"))
				_, _ = client.EnqueueContext(ctx, asynq.NewTask("email:kind1", nil), asynq.Queue(fmt.Sprintf("q%03d", n%queues)))
			case <-ctx.Done():
				return
			}
		}
	}()

	s := new(scale)
	connection := redis.NewClient(&redis.Options{Addr: at.Addr})
	connection.AddHook(s)
	handler := web.New(web.Options{RedisConnOpt: asynq.SharedRedisClient(connection), Anonymous: web.Admin})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler.ServeHTTP(w, r)
	}))
	server.Listener = weighedListener{server.Listener, s}
	server.Start()
	t.Cleanup(func() {
		_ = handler.Close()
		server.Close()
		_ = connection.Close()
	})
	t.Log("| page | bytes at first | requests | bytes/s while open | requests/s | Redis commands/s |")
	for _, path := range paths {
		b := open(t, server.URL)
		first := s.read()
		b.visit(path)
		b.until(`document.readyState === "complete" && !document.getElementById("hold").hidden && document.fonts.status === "loaded" &&
			document.querySelectorAll("figure[data-chart]").length === document.querySelectorAll("figure .uplot").length`)
		opened := s.read()
		snapshots := func(n int) {
			b.t.Helper()
			eval[bool](b, fmt.Sprintf(`new Promise((done) => { let n = 0; document.body.addEventListener("snapshot", () => ++n === %d && done(true)); })`, n))
		}
		snapshots(1)
		from, since := s.read(), time.Now()
		snapshots(updates)
		to, took := s.read(), time.Since(since).Seconds()
		per := func(n int64) float64 { return float64(n) / took }
		t.Logf("| %s | %d | %d | %.0f | %.1f | %.0f |", path, opened.bytes-first.bytes, opened.requests-first.requests,
			per(to.bytes-from.bytes), per(to.requests-from.requests), per(to.commands-from.commands))
		if path == "/" && (opened.bytes-first.bytes > 150_000 || opened.requests-first.requests > 12 || per(to.bytes-from.bytes) > 5000) {
			t.Error("the overview is heavier than 150 kB, 12 requests and 5 kB/s")
		}
		eval[bool](b, `location.assign("about:blank"), true`) // ends its event stream
	}
}
