package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
)

// Each archive keeps as many tasks as configured for its queue, or else for all.
func TestArchiveLimits(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, func(c *service.Config) {
			c.Archive = asynq.ArchiveConfig{MaxTasks: 2, MaxAge: time.Hour}
			c.Queues = map[string]service.QueueConfig{"own": {Archive: asynq.ArchiveConfig{MaxTasks: 1}}}
		})
		i := s.inspector()
		for queue, want := range map[string]asynq.ArchiveConfig{"own": {MaxTasks: 1, MaxAge: time.Hour}, "other": {MaxTasks: 2, MaxAge: time.Hour}} {
			failed := 0
			proctest.Eventually(t, "the archive of "+queue+" to be full", func() bool {
				s.call("POST", "/v1/tasks", fmt.Sprintf(`{"type":"t","queue":%q,"max_retry":0}`, queue)).want(201)
				l, _ := s.take(queue, 1, "50s")
				s.call("POST", "/v1/leases/"+l[0]+"/fail", `{"error":"no"}`).want(200)
				failed++
				info, err := i.GetQueueInfo(queue)
				if err != nil {
					t.Fatal(err)
				}
				return failed > want.MaxTasks && info.Archived == want.MaxTasks && info.Archive == want
			})
		}
	})
}

// A queue exists from its first task on: neither the configuration nor a waiting worker adds it to
// Redis.
func TestQueueIsCreatedByFirstTask(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, func(c *service.Config) { c.Queues = map[string]service.QueueConfig{"configured": {}} })
		conn, err := asynq.ConnectRedis(opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		queues := func() []string {
			t.Helper()
			names, err := conn.Client.SMembers(context.Background(), "asynq:queues").Result()
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		for i := range 20 {
			s.call("POST", "/v1/take", fmt.Sprintf(`{"queues":["configured","unknown:%d"],"wait":"0s"}`, i)).want(200)
		}
		if got := queues(); len(got) != 0 {
			t.Errorf("queues without a task exist: %q", got)
		}
		if got := s.service.Maintained(); !slices.Equal(got, []string{"configured"}) {
			t.Errorf("maintained: %q", got)
		}
		s.call("GET", "/v1/queues/unknown:1", "").problem(404, "queue-not-found")

		// A waiting worker receives the first task at once, and the queue is maintained from then
		// on.
		taken := make(chan *reply, 1)
		go func() {
			r, err := s.try(context.Background(), all, "POST", "/v1/take", `{"queues":["unknown:1"],"wait":"30s"}`)
			if err != nil {
				t.Error(err)
			}
			taken <- r
		}()
		proctest.Eventually(t, "the worker waits", func() bool { return s.service.Waiting() == 1 })
		other := asynq.NewClient(opt)
		t.Cleanup(func() { _ = other.Close() })
		if _, err := other.Enqueue(asynq.NewTask("t", nil), asynq.Queue("unknown:1"), asynq.TaskID("first")); err != nil {
			t.Fatal(err)
		}
		if r := <-taken; r == nil || r.str("tasks", 0, "id") != "first" {
			t.Errorf("taken: %+v", r)
		}
		proctest.Eventually(t, "the queue is maintained", func() bool { return slices.Contains(s.service.Maintained(), "unknown:1") })
		if got := queues(); !slices.Equal(got, []string{"unknown:1"}) {
			t.Errorf("queues: %q", got)
		}
	})
}

func TestWaitingRequestsNameLimitedQueues(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.Limits.MaxBatch = 20_000 })
	var names []string
	for i := range 12_000 {
		names = append(names, fmt.Sprintf(`"%d"`, i))
	}
	body := `{"queues":[` + strings.Join(names, ",") + `],"wait":"60s"}`
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := s.try(ctx, all, "POST", "/v1/take", body); !errors.Is(err, context.Canceled) {
			t.Errorf("the first request: %v", err)
		}
	}()
	proctest.Eventually(t, "the first request waits", func() bool { return s.service.Waiting() == 1 })
	s.call("POST", "/v1/take", body).problem(503, "unavailable")
	s.call("POST", "/v1/take", `{"queues":["one"],"wait":"0s"}`).want(200)
	cancel()
	<-ended
}

func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.call("DELETE", "/v1/queues/email:a", "").problem(404, "queue-not-found")
		s.enqueue("email:a", 2, "")
		r := s.call("DELETE", "/v1/queues/email:a", "").problem(409, "queue-not-empty")
		if !strings.Contains(r.str("detail"), "?force=true") {
			t.Errorf("detail %q", r.str("detail"))
		}
		s.call("DELETE", "/v1/queues/email:a?force=yes", "").problem(400, "invalid-request")
		lease, _ := s.take("email:a", 1, "50s")
		s.call("DELETE", "/v1/queues/email:a?force=true", "").problem(409, "queue-active")
		s.call("POST", "/v1/leases/"+lease[0]+"/done", "").want(200)
		s.callAs(email, "DELETE", "/v1/queues/sms", "").problem(403, "forbidden")
		s.callAs(email, "DELETE", "/v1/queues/email:a?force=true", "").want(204)
		s.call("GET", "/v1/queues/email:a", "").problem(404, "queue-not-found")
		if !strings.Contains(s.log.String(), "action=queue.delete token=email queue=email:a") {
			t.Errorf("no audit entry in %s", s.log)
		}
		// The service does not recreate it.
		if err := s.service.Reload(service.Config{Tokens: tokens()}); err != nil {
			t.Fatal(err)
		}
		s.call("POST", "/v1/take", `{"queues":["email:a"],"wait":"0s"}`).want(200)
		if names, err := s.inspector().Queues(); err != nil || len(names) != 0 {
			t.Errorf("queues %q, %v", names, err)
		}
		s.enqueue("email:b", 1, "")
		s.take("email:b", 1, "50s")
	})
}
