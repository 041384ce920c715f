package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// node returns a node with all details.
func node(addr, role string) poll.NodeDetails {
	return poll.NodeDetails{
		Addr: addr, Keys: 10,
		Sections: []poll.Section{
			{Name: "Server", Fields: []poll.Field{{Name: "redis_version", Value: "7.2.1"}, {Name: "uptime_in_seconds", Value: "3600"}}},
			{Name: "Memory", Fields: []poll.Field{{Name: "used_memory", Value: "1048576"}, {Name: "used_memory_rss", Value: "2097152"}, {Name: "maxmemory", Value: "4194304"}}},
			{Name: "Stats", Fields: []poll.Field{{Name: "keyspace_hits", Value: "90"}, {Name: "keyspace_misses", Value: "10"}, {Name: "evicted_keys", Value: "3"}, {Name: "instantaneous_ops_per_sec", Value: "NaN"}}},
			{Name: "Persistence", Fields: []poll.Field{{Name: "rdb_last_bgsave_status", Value: "err"}, {Name: "aof_enabled", Value: "1"}, {Name: "aof_last_write_status", Value: "ok"}, {Name: "aof_current_size", Value: "1024"}}},
			{Name: "Replication", Fields: []poll.Field{{Name: "role", Value: role}, {Name: "connected_slaves", Value: "1"}}},
		},
		Keyspace: []poll.Keyspace{{DB: 2, Keys: 1234, Expires: 5, AvgTTL: time.Minute}},
		Clients:  &poll.Clients{Total: 3, Blocked: 1, ByName: []poll.ClientGroup{{Name: "", Count: 2}, {Count: 1, Rest: true}}},
		Slow:     []poll.SlowEntry{{ID: 1, Took: 12345 * time.Microsecond, Call: "evalsha abc 1 key", Client: "10.0.0.1:5 worker"}},
	}
}

func TestRedisPage(t *testing.T) {
	s := newSite(t)
	s.now = today
	s.poller.snapshot = &poll.Snapshot{
		At:     s.now,
		Redis:  poll.Redis{Version: "7.2.1", Mode: "standalone", Uptime: time.Hour, Memory: 3 << 20, MaxMemory: 4 << 20, MaxMemoryPolicy: "allkeys-lru", Keys: 10, Clients: 3, OpsPerSecond: 42},
		Health: health.Report{Causes: []health.Cause{{Severity: health.Trouble, Title: "it evicts tasks", Link: health.Link{Page: health.PageRedis}}}},
	}
	s.poller.details = func() (*poll.Details, error) {
		return &poll.Details{At: s.now, Nodes: []poll.NodeDetails{node("127.0.0.1:1", "master")}}, nil
	}
	page := s.get("/redis")
	text := page.text("main")
	for _, want := range []string{
		"7.2.1 · standalone · up for 1h", "it evicts tasks", "3.0 MiB 75 % of 4.0 MiB", "42 /s", "allkeys-lru a full Redis may evict", "Hit rate 90 %", "Evicted keys 3",
		"Fragmentation 0.67 2.0 MiB", "Snapshot (RDB) err", "Append-only file (AOF) ok last write, 1.0 KiB", "Replicas 1", "2 1,234 5 1m",
		"3 connections, 1 blocked", "without a name 2 other 1", "evalsha abc 1 key 12.3 ms", "10.0.0.1:5 worker", "used_memory 1048576",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, "No problems") || len(page.all(".full")) != 1 || strings.Contains(text, "Nodes") {
		t.Errorf("the page says too much, or too little: %s", text)
	}

	// Background reloads do not query Redis each time.
	watch := request("/redis")
	watch.Header.Set("HX-Request", "true")
	s.send(watch)
	if s.poller.asked != 1 {
		t.Errorf("Redis was asked %d times for a page and a tab that watches", s.poller.asked)
	}
	s.now = s.now.Add(detailsAge)
	s.send(watch)
	s.get("/redis")
	if s.poller.asked != 3 {
		t.Errorf("Redis was asked %d times, want 3: what it told was old, and a page was opened", s.poller.asked)
	}
}

func TestRedisRefuses(t *testing.T) {
	s := newSite(t)
	s.now = today
	no := errors.New("NOPERM <b>this user</b>")
	s.poller.details = func() (*poll.Details, error) {
		return &poll.Details{At: s.now, Nodes: []poll.NodeDetails{{Addr: "a:1", InfoErr: no, KeysErr: no, ClientsErr: no, SlowErr: no}}}, nil
	}
	page := s.get("/redis")
	if got := page.text("main"); !strings.Contains(got, "No data: INFO is not available") || !strings.Contains(got, no.Error()) || strings.Contains(got, "No problems") {
		t.Errorf("a Redis that refuses all: %s", got)
	}
	s.poller.details = func() (*poll.Details, error) {
		n := node("a:1", "master")
		n.Clients, n.ClientsErr, n.SlowErr, n.Keyspace, n.KeysErr = nil, no, no, nil, no
		return &poll.Details{At: s.now, Nodes: []poll.NodeDetails{n}}, nil
	}
	page = s.get("/redis")
	if got := page.text("main"); strings.Count(got, no.Error()) != 3 {
		t.Errorf("a Redis that refuses some: %s", got)
	}
	s.poller.details = func() (*poll.Details, error) { return nil, context.DeadlineExceeded }
	page = s.get("/redis")
	if got := page.text(".bad"); !strings.Contains(got, "Details unavailable") {
		t.Errorf("a Redis that does not answer: %s", got)
	}
}

func TestRedisCluster(t *testing.T) {
	s := newSite(t)
	s.now = today
	s.poller.snapshot = &poll.Snapshot{Redis: poll.Redis{Version: "7.2.1", Mode: "cluster", Memory: 1}}
	s.poller.details = func() (*poll.Details, error) {
		down := poll.NodeDetails{Addr: "c:3", InfoErr: errors.New("connection refused"), ClientsErr: errors.New("connection refused")}
		d := &poll.Details{At: s.now, Cluster: true, Left: 7, Nodes: []poll.NodeDetails{node("a:1", "master"), node("b:2", "slave"), down}}
		for _, name := range hostileNames {
			d.Places = append(d.Places, poll.Place{Queue: name, Slot: 77, Nodes: []*asynq.ClusterNode{{Addr: "a:1"}, {Addr: "b:2"}}})
		}
		d.Places = append(d.Places, poll.Place{Queue: "broken", Err: errors.New("moved")}, poll.Place{Queue: "nowhere", Slot: 5})
		return d, nil
	}
	page := s.get("/redis")
	text := page.text("main")
	for _, want := range []string{"a:1 master 1.0 MiB 10", "b:2 replica", "c:3 Connection refused.", "7 more queues not shown", "broken moved", "nowhere 5 no node", "naïve 名前 👩‍🔬 77 a:1 b:2", "Hit rate 90 %", "Evicted keys 3"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
}

func TestSpans(t *testing.T) {
	s := newSite(t)
	s.poller.snapshot = &poll.Snapshot{Redis: poll.Redis{Version: "7.0"}, Queues: []poll.Queue{{Name: "a&b", Info: &asynq.QueueInfo{Queue: "a&b"}}}}
	if _, err := s.client.Enqueue(asynq.NewTask("t", nil), asynq.Queue("a&b")); err != nil {
		t.Fatal(err)
	}
	for path, last := range map[string]string{"/?x=1": "720h", "/queue?queue=a%26b": "48h", "/redis": "72h"} {
		longest, err := time.ParseDuration(last)
		if err != nil {
			t.Fatal(err)
		}
		choices := map[string]int{"/redis": 4}[path]
		if choices == 0 {
			choices = 5
		}
		for span, want := range map[string]time.Duration{"": 10 * time.Minute, "1h": time.Hour, "6h": 6 * time.Hour, last: longest, "9000h": 10 * time.Minute, `"><b>`: 10 * time.Minute} {
			r := request(path)
			q := r.URL.Query()
			q.Set("span", span)
			r.URL.RawQuery = q.Encode()
			s.poller.spans = nil
			page := s.send(r)
			last := s.poller.spans[len(s.poller.spans)-1]
			links := within(page.all(".spans")[0], "a")
			current := 0
			for _, link := range links {
				if attr(link, "aria-current") != "" {
					current++
				}
			}
			if last != want || len(links) != choices || current != 1 {
				t.Errorf("%s with span %q: %v of history, %d links, %d of them current", path, span, last, len(links), current)
			}
			shown := attr(page.all("figure")[0], "data-chart")
			if text := strings.TrimSuffix(strings.TrimSuffix(want.String(), "0s"), "0m"); want > time.Hour/2 && !strings.Contains(shown, "span="+text) {
				t.Errorf("%s: a chart is of %s, want span=%s", path, shown, text)
			}
		}
	}
	if page := s.get("/queue", "queue", "a&b", "span", "1h"); !page.leads("/queue", "queue", "a&b", "span", "6h") || !page.leads("/queue", "queue", "a&b") {
		t.Error("the links to other spans lose the queue")
	}
}
