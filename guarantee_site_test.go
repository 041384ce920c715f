package asynq_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// patience is how long a test waits for what must happen before it fails. It is far longer than anything takes, even where the
// machine is busy with other things.
const patience = 30 * time.Second

// site is one test's Redis, and what it needs to have tasks run there.
type site struct {
	*redistest.Redis
	t      *testing.T
	redis  redis.UniversalClient
	client *asynq.Client // straight to Redis
	queue  wire.Queue    // the keys of the default queue
	log    *logbook      // of all servers
}

// everywhere runs a test on a miniredis and on a real server, in parallel with all others.
func everywhere(t *testing.T, test func(s *site)) {
	t.Helper()
	t.Parallel()
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) { test(newSite(t, r, r.Client())) })
}

// onServer returns a site on a redis-server of the test's own. Where there is none the test is skipped. There is no invariant check
// when the test ends.
func onServer(t *testing.T, args ...string) (*site, *redistest.Server) {
	t.Helper()
	server := redistest.StartServer(t, args...)
	return newSite(t, &redistest.Redis{Addr: server.Addr()}, server.Client(t)), server
}

func newSite(t *testing.T, r *redistest.Redis, client redis.UniversalClient) *site {
	s := &site{
		Redis: r, t: t, redis: client, client: asynq.NewClientFromRedisClient(client),
		queue: wire.DefaultNamespace.Queue("default"), log: &logbook{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the servers logged:\n%s", s.log)
		}
	})
	return s
}

// opt connects straight to Redis.
func (s *site) opt() asynq.RedisClientOpt { return asynq.RedisClientOpt{Addr: s.Addr, DB: s.DB} }

// inspector returns an inspector on the site's Redis.
func (s *site) inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(s.redis) }

// proxy returns a proxy before Redis, and how to connect through it.
func (s *site) proxy() (*redistest.Proxy, asynq.RedisClientOpt) {
	p := redistest.StartProxy(s.t, s.Addr)
	return p, asynq.RedisClientOpt{Addr: p.Addr(), DB: s.DB}
}

// clientOn returns a client that is closed when the test ends.
func (s *site) clientOn(opt asynq.RedisConnOpt) *asynq.Client {
	c := asynq.NewClient(opt)
	s.t.Cleanup(func() { _ = c.Close() }) // the test is over
	return c
}

// serve starts a server straight on Redis, which is shut down when the test ends.
func (s *site) serve(cfg asynq.Config, handler asynq.HandlerFunc) *asynq.Server {
	s.t.Helper()
	return s.serveOn(s.opt(), cfg, handler)
}

func (s *site) serveOn(opt asynq.RedisConnOpt, cfg asynq.Config, handler asynq.HandlerFunc) *asynq.Server {
	s.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = asynq.NewSlogLogger(slog.New(s.log))
	}
	srv := asynq.NewServer(opt, cfg)
	if err := srv.Start(handler); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(srv.Shutdown)
	return srv
}

// enqueue makes a task whose type is its ID.
func (s *site) enqueue(id string, opts ...asynq.Option) *asynq.TaskInfo {
	s.t.Helper()
	info, err := s.client.Enqueue(asynq.NewTask(id, nil), append([]asynq.Option{asynq.TaskID(id)}, opts...)...)
	if err != nil {
		s.t.Fatalf("enqueue of %q: %v", id, err)
	}
	return info
}

// enqueueMany makes tasks t0, t1, … in that order.
func (s *site) enqueueMany(n int, opts ...asynq.Option) {
	s.t.Helper()
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		id := "t" + strconv.Itoa(i)
		tasks[i] = asynq.NewTask(id, nil, asynq.TaskID(id))
	}
	for i, r := range s.client.BatchEnqueueContext(context.Background(), tasks, opts...) {
		if r.Err != nil {
			s.t.Fatalf("enqueue of task %d: %v", i, r.Err)
		}
	}
}

// crashWith takes n tasks as a server does that crashes right after: their leases of 1 s are not extended.
func (s *site) crashWith(n int) {
	s.t.Helper()
	f := &rdb.Fetch{Queue: "default", N: n, Token: fmt.Sprintf("crashed-%d", n), Lease: time.Second}
	s.Broker().Turn(context.Background(), &rdb.Turn{Fetch: []*rdb.Fetch{f}})
	if f.Err != nil || len(f.Tasks) != n {
		s.t.Fatalf("fetched %d tasks of %d, error %v", len(f.Tasks), n, f.Err)
	}
}

// state is where the task's hash says that it is, "" if there is none.
func (s *site) state(id string) string {
	return s.redis.HGet(context.Background(), s.queue.Task(id), wire.FieldState).Val()
}

// message is what Redis keeps of a task.
func (s *site) message(id string) *wire.TaskMessage {
	s.t.Helper()
	b, err := s.redis.HGet(context.Background(), s.queue.Task(id), wire.FieldMessage).Bytes()
	if err != nil {
		s.t.Fatalf("message of %q: %v", id, err)
	}
	m, err := wire.DecodeTaskMessage(b)
	if err != nil {
		s.t.Fatalf("message of %q: %v", id, err)
	}
	return m
}

// awaitState waits until the task's hash says that it is in a state, "" for no task.
func (s *site) awaitState(id, want string) {
	s.t.Helper()
	s.eventually(func() bool { return s.state(id) == want }, "task %q to be in state %q", id, want)
}

// awaitEmpty waits until the default queue holds no task.
func (s *site) awaitEmpty() {
	s.t.Helper()
	s.eventually(func() bool { return len(s.keys(s.queue.TaskPrefix()+"*")) == 0 }, "all tasks to end")
}

func (s *site) keys(pattern string) []string {
	keys := s.redis.Keys(context.Background(), pattern).Val()
	slices.Sort(keys)
	return keys
}

// eventually waits for a condition, and fails the test if it does not come.
func (s *site) eventually(cond func() bool, format string, args ...any) {
	s.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-late.C:
			s.t.Fatalf("waited in vain for "+format, args...)
		}
	}
}

// receive waits for a value.
func receive[T any](s *site, from <-chan T, format string, args ...any) T {
	s.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		s.t.Fatalf("waited in vain for "+format, args...)
		panic("not reached")
	}
}

// sound fails the test if an invariant is broken at this moment. Nothing may change meanwhile.
func (s *site) sound(when string) {
	s.t.Helper()
	found, err := rdb.Check(context.Background(), s.redis, wire.DefaultNamespace)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, v := range found {
		s.t.Errorf("%s: broken invariant: %v", when, v)
	}
}

// counts are the statistics of the default queue, which the totals and the days must agree on.
func (s *site) counts() (processed, failed int64) {
	s.t.Helper()
	total := func(key string) int64 {
		ctx := context.Background()
		total, _ := s.redis.Get(ctx, key).Int64() // 0 if there is none
		var days int64
		for _, day := range s.keys(key + ":*") {
			n, _ := s.redis.Get(ctx, day).Int64()
			days += n
		}
		if days != total {
			s.t.Errorf("%s is %d, but those of the days add up to %d", key, total, days)
		}
		return total
	}
	return total(s.queue.Processed()), total(s.queue.Failed())
}

// wantCounts compares the statistics of the default queue.
func (s *site) wantCounts(processed, failed int64) {
	s.t.Helper()
	if p, f := s.counts(); p != processed || f != failed {
		s.t.Errorf("counted %d processed and %d failed, want %d and %d", p, f, processed, failed)
	}
}

// tally counts how often each task ran.
type tally struct {
	mu   sync.Mutex
	runs map[string]int
	list []string // in the order in which they ran
}

func (c *tally) add(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = make(map[string]int)
	}
	c.runs[id]++
	c.list = append(c.list, id)
	return c.runs[id]
}

func (c *tally) of(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[id]
}

// different is how many different tasks ran.
func (c *tally) different() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs)
}

// order is the tasks in the order in which they ran.
func (c *tally) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

// handle is a handler that does nothing but count.
func (c *tally) handle(_ context.Context, task *asynq.Task) error {
	c.add(task.Type())
	return nil
}

// logbook is a slog.Handler that keeps the lines.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (b *logbook) WithAttrs([]slog.Attr) slog.Handler           { return b }
func (b *logbook) WithGroup(string) slog.Handler                { return b }

func (b *logbook) Handle(_ context.Context, r slog.Record) error {
	line := r.Time.Format("05.000 ") + r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	return nil
}

// count is how many lines contain all the words.
func (b *logbook) count(words ...string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, line := range b.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

func (b *logbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}
