package apiv1_test

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/apiv1"
)

// A queue that cannot be read does not hide the others.
func TestBrokenQueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, addr string) {
		s := newSite(t, addr)
		s.enqueue("t", nil)
		s.enqueue("t", nil, asynq.Queue("broken"))
		if err := s.redis.Set(context.Background(), "asynq:{broken}:retry", "no set", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.redis.SAdd(context.Background(), "asynq:{broken}:processed:"+today(s), "no number").Err(); err != nil {
			t.Fatal(err)
		}
		queues := get[struct {
			Queues []struct {
				Queue, Error string
				Pending      int
			}
		}](s, "/queues").Queues
		if len(queues) != 2 || queues[0].Error == "" || queues[1].Error != "" || queues[1].Pending != 1 {
			t.Errorf("queues: %v", queues)
		}
		stats := get[struct {
			Stats  map[string][]struct{ Date string }
			Errors map[string]string
		}](s, "/queue_stats")
		if len(stats.Stats["default"]) != 90 || stats.Stats["broken"] == nil && stats.Errors["broken"] == "" {
			t.Errorf("stats: %v", stats)
		}
		s.want(http.StatusInternalServerError, http.MethodGet, "/queues/broken", "")
	})
}

// today returns the first day of a queue's history, as in its keys.
func today(s *site) string {
	s.t.Helper()
	days := get[struct{ History []struct{ Date string } }](s, "/queues/default").History
	return days[0].Date
}

// Without Redis, all routes return 503.
func TestNoRedis(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	s := newSite(t, mini.Addr())
	s.enqueue("t", nil, asynq.TaskID("a"))
	mini.Close()
	for _, r := range [][3]string{
		{http.MethodGet, "/queues"},
		{http.MethodGet, "/queues/default"},
		{http.MethodGet, "/queue_stats"},
		{http.MethodGet, "/queues/default/pending_tasks"},
		{http.MethodGet, "/queues/default/tasks/a"},
		{http.MethodGet, "/servers"},
		{http.MethodGet, "/redis_info"},
		{http.MethodPost, "/queues/default:pause"},
		{http.MethodDelete, "/queues/default/pending_tasks/a"},
		{http.MethodDelete, "/queues/default/pending_tasks:delete_all"},
		{http.MethodPost, "/queues/default/pending_tasks:batch_delete", `{"task_ids":["a","b"]}`},
	} {
		s.want(http.StatusServiceUnavailable, r[0], r[1], r[2])
	}
}

// In a cluster, the locations of queues are returned.
func TestCluster(t *testing.T) {
	t.Parallel()
	addr := proctest.StartCluster(t, "--cluster-announce-ip", "127.0.0.1").Addr()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	t.Cleanup(func() { _ = cluster.Close() })
	s := newSite(t, addr, func(c *apiv1.Config) {
		c.Redis, c.Inspector, c.Cluster = cluster, asynq.NewInspectorFromRedisClient(cluster), true
	})
	s.enqueue("t", nil, asynq.Queue("q1"))
	info := get[struct {
		Address         string
		Cluster         bool
		Info            map[string]string
		RawClusterNodes string          `json:"raw_cluster_nodes"`
		QueueLocations  []queueLocation `json:"queue_locations"`
	}](s, "/redis_info")
	want := []queueLocation{{"q1", 7450, []string{addr}}}
	if info.Address != addr || !info.Cluster || info.Info["cluster_state"] != "ok" || !strings.Contains(info.RawClusterNodes, "0-16383") ||
		!reflect.DeepEqual(info.QueueLocations, want) {
		t.Errorf("info: %+v", info)
	}
	s.wantJSON(http.MethodPost, "/queues/q1/pending_tasks:archive_all", "", `{"archived":1}`)
}

type queueLocation struct {
	Queue   string
	KeySlot int
	Nodes   []string
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "line\r\n\tbreak": "line\r\n\tbreak", `{"n":9007199254740993, "x":1.50}`: `{"n":9007199254740993, "x":1.50}`,
		"ü 世 👩‍💻\u00a0": "ü 世 👩‍💻\u00a0", "\x00\xff": `"\x00\xff"`, "a\x1b[31m": `"a\x1b[31m"`, "ok\xff": `"ok\xff"`, "\u0085": `"\u0085"`,
	} {
		if got := apiv1.Text([]byte(in)); got != want {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
}

// Payloads are redacted and then formatted everywhere.
func TestFormatters(t *testing.T) {
	t.Parallel()
	addr := miniredis.RunT(t).Addr()
	s := newSite(t, addr, func(c *apiv1.Config) {
		c.Redact = func(queue, typename string, payload []byte) []byte {
			return []byte(queue + " " + typename + " " + strings.ReplaceAll(string(payload), "secret", "***"))
		}
		c.PayloadFormatter = func(typename string, b []byte) string { return "<" + typename + "|" + string(b) + ">" }
		c.ResultFormatter = func(typename string, b []byte) string { return "[" + typename + "|" + string(b) + "]" }
	})
	s.enqueue("t", []byte("a secret"), asynq.TaskID("a"))
	const want = "<t|default t a ***>"
	if got := get[struct{ Payload, Result string }](s, "/queues/default/tasks/a"); got.Payload != want || got.Result != "[t|]" {
		t.Errorf("details: %v", got)
	}
	if got := get[page](s, "/queues/default/pending_tasks").Tasks; len(got) != 1 || got[0].Payload != want {
		t.Errorf("list: %v", got)
	}
	scheduler := asynq.NewScheduler(asynq.RedisClientOpt{Addr: addr}, &asynq.SchedulerOpts{Logger: quiet()})
	if _, err := scheduler.Register("@yearly", asynq.NewTask("y", []byte("secret")), asynq.Queue("q")); err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Shutdown)
	proctest.Eventually(t, "the entry", func() bool { return len(entriesOf(s)) == 1 })
	if got := entriesOf(s)[0].Payload; got != "<y|q y ***>" {
		t.Errorf("entry: %s", got)
	}
}

type entry struct {
	Payload string `json:"task_payload"`
}

func entriesOf(s *site) []entry {
	s.t.Helper()
	return get[struct{ Entries []entry }](s, "/scheduler_entries").Entries
}
