package apiv1_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/apiv1"
)

// TestMain silences go-redis about connections that tests cut.
func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	os.Exit(m.Run())
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// each runs a test on miniredis and on a real redis-server.
func each(t *testing.T, test func(t *testing.T, addr string)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, miniredis.RunT(t).Addr())
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, proctest.StartRedis(t).Addr())
	})
}

// gate is a Gate that records its calls.
type gate struct {
	refuse bool
	onDone func() // may be nil

	mu      sync.Mutex
	allowed []access.Action // without views
	views   []access.Action
	done    []access.Action
	errs    []error
}

func (g *gate) Allow(w http.ResponseWriter, _ *http.Request, a access.Action) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.Verb == access.View {
		g.views = append(g.views, a)
	} else {
		g.allowed = append(g.allowed, a)
	}
	if g.refuse {
		w.WriteHeader(http.StatusForbidden)
	}
	return !g.refuse
}

func (g *gate) Done(_ *http.Request, a access.Action, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done, g.errs = append(g.done, a), append(g.errs, err)
	if g.onDone != nil {
		g.onDone()
	}
}

// asked returns the calls of the gate since the last call of asked.
func (g *gate) asked() (allowed, done []access.Action) {
	g.mu.Lock()
	defer g.mu.Unlock()
	allowed, done = g.allowed, g.done
	g.allowed, g.done, g.errs = nil, nil, nil
	return allowed, done
}

// site is the handler on a Redis.
type site struct {
	t         testing.TB
	url       string
	gate      *gate
	inspector *asynq.Inspector
	client    *asynq.Client
	redis     redis.UniversalClient
	woken     atomic.Int64
}

func newSite(t testing.TB, addr string, configure ...func(*apiv1.Config)) *site {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	s := &site{t: t, gate: &gate{}, inspector: asynq.NewInspectorFromRedisClient(client), redis: client, client: asynq.NewClientFromRedisClient(client)}
	c := apiv1.Config{
		Inspector: s.inspector, Redis: client, Gate: s.gate, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Wake: func() { s.woken.Add(1) },
	}
	for _, f := range configure {
		f(&c)
	}
	server := httptest.NewServer(http.StripPrefix("/root", apiv1.New(c)))
	t.Cleanup(server.Close)
	s.url = server.URL + "/root/api"
	return s
}

// call sends a request and returns the response.
func (s *site) call(method, path, body string) (*http.Response, []byte) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response, answer
}

// want sends a request, checks the status and returns the body. Errors must be problems.
func (s *site) want(status int, method, path, body string) []byte {
	s.t.Helper()
	response, answer := s.call(method, path, body)
	if response.StatusCode != status {
		s.t.Fatalf("%s %s: %s instead of %d: %s", method, path, response.Status, status, answer)
	}
	kind := response.Header.Get("Content-Type")
	switch {
	case status == http.StatusNoContent:
		if len(answer) != 0 {
			s.t.Errorf("%s %s: 204 with a body: %s", method, path, answer)
		}
	case status == http.StatusOK:
		if kind != "application/json" {
			s.t.Errorf("%s %s: Content-Type is %q", method, path, kind)
		}
	default:
		var p struct {
			Title, Detail string
			Status        int
		}
		if err := json.Unmarshal(answer, &p); err != nil || kind != "application/problem+json" || p.Status != status || p.Detail == "" {
			s.t.Errorf("%s %s: no problem but %q: %s", method, path, kind, answer)
		}
	}
	return answer
}

// get returns a decoded response.
func get[T any](s *site, path string) (v T) {
	s.t.Helper()
	answer := s.want(http.StatusOK, http.MethodGet, path, "")
	if err := json.Unmarshal(answer, &v); err != nil {
		s.t.Fatalf("%s: %v: %s", path, err, answer)
	}
	return v
}

func (s *site) enqueue(typename string, payload []byte, opts ...asynq.Option) {
	s.t.Helper()
	if _, err := s.client.Enqueue(asynq.NewTask(typename, payload), opts...); err != nil {
		s.t.Fatal(err)
	}
}

// page is a response of a list.
type page struct {
	Tasks []struct {
		ID      string
		Payload string
	}
	Stats struct{ Queue string }
}

func (s *site) ids(path string) []string {
	s.t.Helper()
	ids := []string{}
	for _, task := range get[page](s, path).Tasks {
		ids = append(ids, task.ID)
	}
	slices.Sort(ids)
	return ids
}

func quiet() asynq.Logger { return asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))) }

// cable is a network connection that can be cut.
type cable struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, syscall.ECONNREFUSED
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.conns = nil
	}
}

// jsonWithLargeNumber has a number that a float64 cannot represent.
var jsonWithLargeNumber = []byte(`{"id":9007199254740993,"b":[1.50,"x"]}`)

// seed creates tasks in every state: by running servers, and by one that is cut off.
func (s *site) seed(addr string) {
	t := s.t
	t.Helper()
	opt := asynq.RedisClientOpt{Addr: addr}
	for id, typename := range map[string]string{"r1": "retry", "a1": "archive", "c1": "done", "act1": "block", "act2": "block"} {
		payload := jsonWithLargeNumber
		if id == "act2" {
			payload = []byte("bin\x00\xff")
		}
		s.enqueue(typename, payload, asynq.Queue("work"), asynq.TaskID(id), asynq.Retention(time.Hour), asynq.Deadline(time.Now().Add(time.Hour)))
	}
	s.enqueue("block", []byte("lost"), asynq.Queue("lost"), asynq.TaskID("orphan"))
	started, release := make(chan string, 3), make(chan struct{})
	handler := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "retry":
			return io.ErrUnexpectedEOF
		case "archive":
			return asynq.SkipRetry
		case "done":
			_, err := task.ResultWriter().Write(jsonWithLargeNumber)
			return err
		default:
			started <- task.Type()
			select {
			case <-release:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
	})
	run := func(opt asynq.RedisConnOpt, queue string, lease time.Duration) {
		server := asynq.NewServer(opt, asynq.Config{
			Concurrency: 5, Queues: map[string]int{queue: 3}, Logger: quiet(), LeaseDuration: lease, ShutdownTimeout: time.Second,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
		})
		if err := server.Start(handler); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
	}
	run(opt, "work", time.Minute)
	wire := &cable{}
	run(asynq.RedisClientOpt{Addr: addr, Params: "max_retries=-1"}.Configure(func(o *redis.Options) { o.Dialer = wire.dial }), "lost", time.Second)
	t.Cleanup(func() { close(release); wire.set(false) }) // before the servers stop
	for range cap(started) {
		<-started
	}
	wire.set(true)

	scheduler := asynq.NewScheduler(opt, &asynq.SchedulerOpts{Logger: quiet(), HeartbeatInterval: time.Second})
	for spec, task := range map[string]*asynq.Task{"@every 1s": asynq.NewTask("cron", jsonWithLargeNumber), "0 0 1 1 *": asynq.NewTask("yearly", []byte{255})} {
		if _, err := scheduler.Register(spec, task, asynq.Queue("cron"), asynq.MaxRetry(2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Shutdown)

	s.enqueue("p", jsonWithLargeNumber, asynq.TaskID("p1"))
	s.enqueue("p", []byte("line\nnext\ttab"), asynq.TaskID("p2"))
	s.enqueue("p", []byte{255, 0, 1}, asynq.TaskID("p3"))
	s.enqueue("p", nil, asynq.TaskID("p4"))
	s.enqueue("s", jsonWithLargeNumber, asynq.TaskID("s1"), asynq.ProcessIn(time.Hour))
	s.enqueue("g", jsonWithLargeNumber, asynq.TaskID("g1"), asynq.Group("g1"))
	s.enqueue("g", jsonWithLargeNumber, asynq.TaskID("g2"), asynq.Group("g/2 \n"))
	s.enqueue("p", nil, asynq.TaskID("byhand"))
	if err := s.inspector.ArchiveTask("default", "byhand"); err != nil {
		t.Fatal(err)
	}
	proctest.Eventually(t, "each state, the servers' workers, and an event", func() bool {
		info, err := s.inspector.WithMemorySamples(0).GetQueueInfo("work")
		if err != nil {
			t.Fatal(err)
		}
		lost, err := s.inspector.GetTaskInfo("lost", "orphan")
		if err != nil {
			t.Fatal(err)
		}
		workers := bytes.Count(s.want(http.StatusOK, http.MethodGet, "/servers", ""), []byte(`"task_id"`))
		_, entries := s.call(http.MethodGet, "/scheduler_entries", "")
		return info.Active == 2 && info.Retry == 1 && info.Archived == 1 && info.Completed == 1 && lost.IsOrphaned && workers >= 2 &&
			bytes.Contains(entries, []byte("prev_enqueue_at"))
	})
}
