package service_test

import (
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// Names may contain any UTF-8 text.
func TestUnusualNames(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		for _, name := range []string{"..", ".", "a/../b", "a//b", "%2F", "ü ?#&=+", "{x}:y", "a\x00b\n", `"\`, "tasks/1/run", "a\u2028"} {
			body := `{"type":` + quote(name) + `,"id":` + quote(name) + `,"process_in":"1h"}`
			r := s.call("POST", "/v1/tasks", body).want(201)
			queue := "/v1/queues/" + escape(name)
			path := queue + "/tasks/" + escape(name)
			if got := s.call("GET", path, "").want(200); got.str("task", "id") != name || got.str("task", "queue") != name {
				t.Errorf("%q: %s", name, got.body)
			}
			if name != ".." && name != "." { // clients resolve these
				s.call("GET", r.header.Get("Location"), "").want(200)
			}
			s.call("POST", path+"/run", "").want(204)
			leases, ids := s.takeEscaped(name)
			if len(ids) != 1 || ids[0] != name {
				t.Fatalf("%q: took %q", name, ids)
			}
			s.call("POST", "/v1/leases/"+leases[0]+"/fail", `{"error":`+quote(name)+`,"skip_retry":true}`).want(200)
			if got := s.call("GET", path, "").want(200).str("task", "last_error"); got != name {
				t.Errorf("%q: last error %q", name, got)
			}
			s.call("DELETE", path, "").want(204)
			s.call("GET", queue, "").want(200)
		}
		for _, path := range []string{"/v1/queues/%FF", "/v1/queues/%FF/tasks/1", "/v1/queues/%20/tasks/1"} {
			s.call("GET", path, "").problem(400, "invalid-request")
		}
		s.call("GET", "/v1/queues/../tasks/%FF", "").problem(404, "not-found")
	})
}

func (s *env) takeEscaped(queue string) (leases, ids []string) {
	s.t.Helper()
	r := s.call("POST", "/v1/take", `{"queues":[`+quote(queue)+`],"wait":"5s"}`).want(200)
	for i := range r.list("tasks") {
		leases, ids = append(leases, r.str("tasks", i, "lease")), append(ids, r.str("tasks", i, "id"))
	}
	return leases, ids
}

// escape escapes a name, including dots: clients resolve ".." in paths.
func escape(name string) string {
	switch name {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	return url.PathEscape(name)
}

// A temporary Redis error is reported as such, not as an error of the task.
func TestChangeWhileRedisFails(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	s := newEnv(t, asynq.RedisClientOpt{Addr: redis.Addr()}, nil)
	s.call("POST", "/v1/tasks", `{"type":"q","id":"the-task"}`).want(201)
	var failed atomic.Bool
	redis.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
		fails := strings.HasPrefix(command, "EVAL") && strings.Contains(strings.Join(args, " "), "the-task") && !failed.Swap(true)
		if fails {
			peer.WriteError("ERR not now")
		}
		return fails
	})
	s.call("POST", "/v1/queues/q/tasks/the-task/archive", "").problem(503, "redis")
	s.call("POST", "/v1/queues/q/tasks/the-task/archive", "").want(204)
	s.call("POST", "/v1/queues/q/tasks/the-task/archive", "").problem(409, "wrong-state")
}

func TestChangeTasks(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.enqueue("q", 2, `,"process_in":"1h"`)
		s.call("POST", "/v1/queues/q/tasks/1/reschedule", `{"in":"30m"}`).want(204)
		at, _ := time.Parse(time.RFC3339, s.call("GET", "/v1/queues/q/tasks/1", "").want(200).str("task", "next_process_at"))
		if d := time.Until(at); d < 25*time.Minute || d > 31*time.Minute {
			t.Errorf("rescheduled to %v", d)
		}
		s.call("POST", "/v1/queues/q/tasks/1/reschedule", `{"at":"2099-01-02T03:04:05Z"}`).want(204)
		for _, body := range []string{``, `{"at":"2099-01-02T03:04:05Z","in":"1s"}`, `{"at":5}`} {
			s.call("POST", "/v1/queues/q/tasks/1/reschedule", body).problem(400, "invalid-request")
		}
		s.call("POST", "/v1/queues/q/tasks/1/run", "").want(204)
		s.call("POST", "/v1/queues/q/tasks/1/run", "").problem(409, "wrong-state")
		s.call("POST", "/v1/queues/q/tasks/2/archive", "").want(204)
		s.call("DELETE", "/v1/queues/q/tasks/2", "").want(204)
		s.call("DELETE", "/v1/queues/q/tasks/2", "").problem(404, "task-not-found")
		s.call("DELETE", "/v1/queues/nowhere/tasks/2", "").problem(404, "queue-not-found")

		s.call("POST", "/v1/queues/q/pause", "").want(204)
		s.call("POST", "/v1/queues/q/pause", "").want(204)
		if l, _ := s.take("q", 1, "100ms"); len(l) != 0 {
			t.Error("took a task from a paused queue")
		}
		if got := s.call("GET", "/v1/queues/q", "").want(200).get("queue", "paused"); got != true {
			t.Errorf("paused %v", got)
		}
		s.call("POST", "/v1/queues/q/resume", "").want(204)
		s.call("POST", "/v1/queues/q/resume", "").want(204)
		if l, _ := s.take("q", 1, "50s"); len(l) != 1 {
			t.Error("took no task from a resumed queue")
		}
		s.call("POST", "/v1/queues/nowhere/pause", "").problem(404, "queue-not-found")
	})
}

func TestWaitForResult(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.enqueue("kept", 1, `,"retention":"1h"`)
		s.enqueue("dropped", 1, "")
		s.enqueue("failed", 1, "")
		s.enqueue("slow", 1, "")
		var group sync.WaitGroup
		for range 3 { // several waiters for one task
			group.Go(func() {
				if r := s.call("GET", "/v1/queues/kept/tasks/1?wait=20s", "").want(200); r.str("task", "state") != "completed" || r.get("task", "result") != 42.0 {
					t.Errorf("response: %s", r.body)
				}
			})
		}
		group.Go(func() { s.call("GET", "/v1/queues/dropped/tasks/1?wait=20s", "").problem(410, "task-gone") })
		group.Go(func() {
			if r := s.call("GET", "/v1/queues/failed/tasks/1?wait=20s", "").want(200); r.str("task", "state") != "archived" {
				t.Errorf("response: %s", r.body)
			}
		})
		group.Go(func() {
			if r := s.call("GET", "/v1/queues/slow/tasks/1?wait=10ms", "").want(200); r.str("task", "state") != "pending" {
				t.Errorf("response: %s", r.body)
			}
		})
		proctest.Eventually(t, "requests to wait", func() bool { return s.service.Waiting() >= 5 })
		for queue, outcome := range map[string]string{"kept": `done`, "dropped": `done`, "failed": `fail`} {
			l, _ := s.take(queue, 1, "50s")
			body := map[string]string{"done": `{"result":42}`, "fail": `{"error":"no","skip_retry":true}`}[outcome]
			s.call("POST", "/v1/leases/"+l[0]+"/"+outcome, body).want(200)
		}
		group.Wait()
		s.call("GET", "/v1/queues/kept/tasks/1?wait=20s", "").want(200) // already ended
		s.call("GET", "/v1/queues/dropped/tasks/1?wait=20s", "").problem(404, "task-not-found")
		s.call("GET", "/v1/queues/kept/tasks/1?wait=x", "").problem(400, "invalid-request")
		// A settlement by another instance is detected, too.
		s.enqueue("kept2", 1, `,"retention":"1h"`)
		group.Go(func() {
			if r := s.call("GET", "/v1/queues/kept2/tasks/1?wait=20s", "").want(200); r.str("task", "state") != "completed" {
				t.Errorf("response: %s", r.body)
			}
		})
		proctest.Eventually(t, "a request to wait", func() bool { return s.service.Waiting() == 1 })
		other := newEnv(t, opt, nil)
		l, _ := other.take("kept2", 1, "50s")
		other.call("POST", "/v1/leases/"+l[0]+"/done", "").want(200)
		group.Wait()
	})
}

// If the archive is full, archiving deletes its oldest task and requires consent.
func TestFullArchiveRequiresConsent(t *testing.T) {
	t.Parallel()
	opt := fakeRedis(t)
	s := newEnv(t, opt, nil)
	client, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	defer client.Close()
	defer inspector.Close()
	tasks := make([]*asynq.Task, asynq.ArchiveMaxTasks)
	for i := range tasks {
		tasks[i] = asynq.NewTask("old", nil, asynq.Queue("q"))
	}
	for _, r := range client.BatchEnqueueContext(t.Context(), tasks) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if done, err := inspector.ArchiveTasks(t.Context(), "q", asynq.TaskStatePending, asynq.TaskFilter{}); err != nil || done.Archived != len(tasks) {
		t.Fatal(done, err)
	}
	if _, err := client.Enqueue(asynq.NewTask("new", nil), asynq.Queue("q"), asynq.TaskID("new")); err != nil {
		t.Fatal(err)
	}
	s.call("POST", "/v1/queues/q/tasks/none/archive", "").problem(404, "task-not-found")
	r := s.call("POST", "/v1/queues/q/tasks/new/archive", "").problem(409, "archive-full")
	if detail := r.str("detail"); !strings.Contains(detail, "keeps the newest 10000 tasks") || !strings.Contains(detail, "?discard_oldest=true") {
		t.Errorf("detail %q", detail)
	}
	s.call("POST", "/v1/queues/q/tasks/new/archive?discard_oldest=yes", "").problem(400, "invalid-request")
	if info, err := inspector.GetTaskInfo("q", "new"); err != nil || info.State != asynq.TaskStatePending {
		t.Errorf("the task is %+v, %v", info, err)
	}
	s.call("POST", "/v1/queues/q/tasks/new/archive?discard_oldest=true", "").want(204)
	if info, err := inspector.GetTaskInfo("q", "new"); err != nil || info.State != asynq.TaskStateArchived {
		t.Errorf("the task is %+v, %v", info, err)
	}
}
