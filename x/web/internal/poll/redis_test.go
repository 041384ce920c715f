package poll

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// site is a Redis with queues on it.
type site struct {
	source Source
	redis  redis.UniversalClient
}

// newSite fills a Redis: two queues with tasks, one of them paused, and a server.
func newSite(t *testing.T, opt asynq.RedisConnOpt) *site {
	t.Helper()
	made, err := asynq.ConnectRedis(opt)
	if err != nil {
		t.Fatal(err)
	}
	conn := made.Client
	inspector, client := asynq.NewInspectorFromRedisClient(conn), asynq.NewClientFromRedisClient(conn)
	t.Cleanup(func() { conn.Close() })
	for _, queue := range []string{"high", "low", "low", "low"} {
		if _, err := client.Enqueue(asynq.NewTask("mail", []byte("secret")), asynq.Queue(queue)); err != nil {
			t.Fatal(err)
		}
	}
	if err := inspector.PauseQueue("low"); err != nil {
		t.Fatal(err)
	}
	srv := asynq.NewServerFromRedisClient(conn, asynq.Config{
		Queues: map[string]int{"low": 1}, Concurrency: 3, LogLevel: asynq.FatalLevel,
	})
	if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	return &site{source: NewSource(inspector, conn), redis: conn}
}

// look polls the site until its server is listed.
func (s *site) look(t *testing.T) *Snapshot {
	t.Helper()
	p := newPoller(t, Config{Source: s.source, Interval: 50 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last *Snapshot
	for last = range p.Subscribe(ctx) {
		if last.Err == nil && len(last.Servers) == 1 && len(last.Queues) == 2 {
			break
		}
	}
	if last == nil || last.Err != nil || len(last.Servers) != 1 || last.Problems != (Problems{}) {
		t.Fatalf("the snapshot is %+v", last)
	}
	high, _ := last.Queue("high")
	low, _ := last.Queue("low")
	if high.Info == nil || low.Info == nil || high.Info.Pending != 1 || low.Info.Pending != 3 || !low.Info.Paused || last.Total.Pending != 4 || last.Total.Concurrency != 3 {
		t.Fatalf("the queues are %+v and %+v, the total is %+v", high.Info, low.Info, last.Total)
	}
	if all := strings.Join(kinds(last), ","); !strings.Contains(all, "trouble no-worker:high") || !strings.Contains(all, "warning paused:low") {
		t.Errorf("the verdicts are %s", all)
	}
	return last
}

func TestMiniredis(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	site := newSite(t, asynq.RedisClientOpt{Addr: mini.Addr()})
	s := site.look(t)
	if s.Redis.Clients == 0 || s.Redis.Keys == 0 {
		t.Errorf("Redis is %+v", s.Redis)
	}
	d, err := site.source.Details(t.Context(), []string{"high", "low"})
	if err != nil || len(d.Nodes) != 1 || d.Cluster || len(d.Places) != 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	if n := d.Nodes[0]; n.Addr != mini.Addr() || n.InfoErr != nil || n.KeysErr != nil || n.ClientsErr == nil && n.Clients == nil || n.SlowErr == nil {
		t.Errorf("what miniredis does not know is not told: %+v", n)
	}

	// Redis stops and restarts.
	p := newPoller(t, Config{Source: site.source, Interval: 50 * time.Millisecond})
	ch := p.Subscribe(t.Context())
	<-ch
	until := func(what string, ok func(*Snapshot) bool) *Snapshot {
		timeout := time.After(time.Minute)
		for {
			select {
			case s := <-ch:
				if ok(s) {
					return s
				}
			case <-timeout:
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	mini.Close()
	away := until("Redis to be away", func(s *Snapshot) bool { return s.Err != nil })
	if len(away.Queues) != 2 || away.Queues[0].Info == nil {
		t.Errorf("what was known is forgotten: %+v", away)
	}
	if _, err := p.RedisDetails(t.Context()); err == nil {
		t.Error("there are details of a Redis that is away")
	}
	proctest.Until(t, "the port to be free", mini.Restart) // another process may have taken it
	until("Redis to be back", func(s *Snapshot) bool { return s.Err == nil && s.Queues[0].Info != nil })
}

func TestRealRedis(t *testing.T) {
	t.Parallel()
	addr := proctest.StartRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--slowlog-log-slower-than", "0").Addr()
	site := newSite(t, asynq.RedisClientOpt{Addr: addr})
	s := site.look(t)
	r := s.Redis
	if r.Version == "" || r.Mode != "standalone" || r.Memory == 0 || r.MemoryPeak == 0 || r.MaxMemory != 100<<20 || r.Clients == 0 || r.Keys == 0 || len(r.Nodes) != 1 {
		t.Errorf("Redis is %+v", r)
	}
	wantCause(t, s, "redis-policy")
	if low, _ := s.Queue("low"); low.Info.MemoryUsage == 0 {
		t.Error("the memory of a queue is not known")
	}
	d, err := site.source.Details(t.Context(), nil)
	if err != nil || len(d.Nodes) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	n := d.Nodes[0]
	if n.InfoErr != nil || n.KeysErr != nil || n.ClientsErr != nil || n.SlowErr != nil || n.Role() != "master" || n.Keys == 0 ||
		len(n.Keyspace) != 1 || n.Keyspace[0].Keys != n.Keys || n.Clients.Total == 0 || len(n.Slow) == 0 || len(n.Slow) > slowEntries {
		t.Errorf("%+v", n)
	}
	for _, slow := range n.Slow {
		if strings.Contains(slow.Call, "secret") {
			t.Errorf("a payload is shown: %s", slow.Call)
		}
	}

	// A user with few permissions sees only the errors.
	ctx := t.Context()
	if err := site.redis.Do(ctx, "ACL", "SETUSER", "viewer", "on", ">pw", "~*", "&*", "+@all", "-info", "-slowlog", "-client|list").Err(); err != nil {
		t.Fatal(err)
	}
	little := redis.NewClient(&redis.Options{Addr: addr, Username: "viewer", Password: "pw"})
	defer little.Close()
	source := NewSource(asynq.NewInspectorFromRedisClient(little), little)
	if d, err = source.Details(ctx, nil); err != nil {
		t.Fatal(err)
	}
	n = d.Nodes[0]
	for _, err := range []error{n.InfoErr, n.ClientsErr, n.SlowErr} {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("refused with %v", err)
		}
	}
	if n.KeysErr != nil || n.Keys == 0 {
		t.Errorf("%+v", n)
	}
	p := newPoller(t, Config{Source: source})
	few, err := p.Fresh(ctx, time.Time{})
	if err != nil || few.Err != nil || few.Problems.Queues != nil || few.Problems.Redis == nil || len(few.Queues) != 2 {
		t.Errorf("%+v, %v", few, err)
	}
	wantCause(t, few, "no-info")
}

func TestCluster(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	site := newSite(t, asynq.RedisClusterClientOpt{Addrs: []string{proctest.StartCluster(t).Addr()}})
	if s := site.look(t); s.Redis.Mode != "cluster" || len(s.Redis.Nodes) != 1 {
		t.Errorf("Redis is %+v", s.Redis)
	}
	queues := make([]string, maxPlaces+7)
	for i := range queues {
		queues[i] = "low"
	}
	queues[0] = "high"
	d, err := site.source.Details(ctx, queues)
	if err != nil || !d.Cluster || len(d.Nodes) != 1 || len(d.Places) != maxPlaces || d.Left != 7 {
		t.Fatalf("%+v, %v", d, err)
	}
	high, low := d.Places[0], d.Places[maxPlaces-1]
	if high.Queue != "high" || low.Queue != "low" || high.Slot == low.Slot || low.Err != nil || len(low.Nodes) != 1 {
		t.Errorf("%+v, %+v", high, low)
	}
}
