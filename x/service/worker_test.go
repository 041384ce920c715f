package service_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/web"
)

// workers waits until the servers in Redis meet a condition, and returns them by worker name.
func (s *env) workers(what string, are func(all map[string]*asynq.ServerInfo) bool) map[string]*asynq.ServerInfo {
	s.t.Helper()
	i := s.inspector()
	var all map[string]*asynq.ServerInfo
	proctest.Eventually(s.t, what, func() bool {
		servers, err := i.Servers()
		if err != nil {
			s.t.Fatal(err)
		}
		all = make(map[string]*asynq.ServerInfo)
		for _, server := range servers {
			all[server.Worker] = server
		}
		return len(all) == len(servers) && are(all)
	})
	return all
}

// Workers are listed by the names that they send, with the queues that they take from. The service
// itself is not listed with queues.
func TestWorkersAreListed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		configure := func(c *service.Config) {
			c.Queues = map[string]service.QueueConfig{"email:a": {Weight: 2}, "nobody": {}}
		}
		s, other := newEnv(t, opt, configure), newEnv(t, opt, configure)
		s.enqueue("nobody", 1, "")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		poll := func(s *env, secret, body string) {
			go func() { _, _ = s.try(ctx, secret, "POST", "/v1/take", body) }() // ends with the test
		}
		poll(s, all, `{"queues":["email:a","unknown"],"n":3,"worker":"web-1:42"}`)
		poll(other, all, `{"queues":["email:b"],"worker":"web-1:42"}`)
		poll(s, email, `{"queues":["email:b"]}`)
		got := s.workers("the workers that wait are listed", func(all map[string]*asynq.ServerInfo) bool {
			return len(all) == 2 && all["web-1:42"] != nil && len(all["web-1:42"].Queues) == 3
		})
		if w := got["web-1:42"]; !maps.Equal(w.Queues, map[string]int{"email:a": 2, "unknown": 1, "email:b": 1}) || w.Host != "web-1" || w.PID != 42 || w.LastPoll.IsZero() {
			t.Errorf("listed: %+v", w)
		}
		if w := got["email"]; w == nil || !maps.Equal(w.Queues, map[string]int{"email:b": 1}) {
			t.Errorf("without a name the worker has that of its token: %+v", got)
		}
		cancel()
		for _, name := range []string{`"a\nb"`, `" "`, `"` + strings.Repeat("x", 201) + `"`} {
			if r := s.call("POST", "/v1/take", `{"queues":["email:a"],"worker":`+name+`}`).problem(400, "invalid-request"); r.str("errors", 0, "pointer") != "/worker" {
				t.Errorf("%s: %s", name, r.body)
			}
		}

		// The instance that extends a lease lists it under the name of its worker.
		s.enqueue("email:a", 1, "")
		r := s.call("POST", "/v1/take", `{"queues":["email:a"],"wait":"5s","worker":"holder"}`).want(200)
		other.call("POST", "/v1/leases/"+r.str("tasks", 0, "lease")+"/extend", "").want(200)
		s.shutdown()
		s.workers("the other instance lists the lease", func(all map[string]*asynq.ServerInfo) bool {
			w := all["holder"]
			return w != nil && len(w.ActiveWorkers) == 1 && w.ActiveWorkers[0].Queue == "email:a"
		})
	})
}

// The web UI shows the queues of each worker, and reports a queue that no worker takes from.
func TestUIShowsWorkers(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.UI = &web.Options{Anonymous: web.Viewer} })
	s.enqueue("nobody", 1, "")
	s.enqueue("email:a", 1, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, taken := s.take("email:a", 1, "50s"); taken == nil {
		t.Fatal("no task")
	}
	go func() { _, _ = s.try(ctx, all, "POST", "/v1/take", `{"queues":["email:a"],"worker":"web-1:42"}`) }() // ends with the test
	page := func(path string) string { return string(s.callAs("", "GET", "/ui"+path, "").want(200).body) }
	proctest.Eventually(t, "the worker is on the page of servers", func() bool {
		text := page("/servers")
		return strings.Contains(text, ">web-1:42</a> <span class=\"tag\"") && strings.Contains(text, "last poll")
	})
	proctest.Eventually(t, "the queue without workers is reported", func() bool {
		return strings.Contains(page("/api/v2/health"), `Queue \"nobody\" has 1 task, but no server or worker processes it`)
	})
	if text := page("/api/v2/health"); strings.Contains(text, `email:a\" has`) {
		t.Errorf("a queue with a worker is reported: %s", text)
	}
	if text := page("/api/v2/servers"); !strings.Contains(text, `"worker":"web-1:42"`) || strings.Contains(text, `"nobody"`) {
		t.Errorf("servers: %s", text)
	}
}
