package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
)

// enqueue enqueues tasks 1 to n.
func (s *env) enqueue(queue string, n int, more string) {
	s.t.Helper()
	var tasks []string
	for i := range n {
		tasks = append(tasks, fmt.Sprintf(`{"type":"t","queue":%q,"id":"%d","payload":%d%s}`, queue, i+1, i+1, more))
	}
	r := s.call("POST", "/v1/tasks/batch", `{"tasks":[`+strings.Join(tasks, ",")+`]}`).want(200)
	if strings.Contains(string(r.body), "problem") {
		s.t.Fatalf("%s", r.body)
	}
}

// take takes tasks and returns their leases and IDs.
func (s *env) take(queue string, n int, wait string) (leases, ids []string) {
	s.t.Helper()
	r := s.call("POST", "/v1/take", fmt.Sprintf(`{"queues":[%q],"n":%d,"wait":%q}`, queue, n, wait)).want(200)
	for i := range r.list("tasks") {
		leases, ids = append(leases, r.str("tasks", i, "lease")), append(ids, r.str("tasks", i, "id"))
	}
	return leases, ids
}

// takeAll takes n tasks.
func (s *env) takeAll(queue string, n int) (leases, ids []string) {
	s.t.Helper()
	for len(leases) < n {
		l, i := s.take(queue, min(n-len(leases), 100), "10s")
		if len(l) == 0 {
			s.t.Fatalf("only %d of %d tasks were delivered", len(leases), n)
		}
		leases, ids = append(leases, l...), append(ids, i...)
	}
	return leases, ids
}

func (s *env) state(queue, id string) string {
	s.t.Helper()
	info, err := s.inspector().GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return "gone"
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return info.State.String()
}

func TestTakeAndSettle(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.call("POST", "/v1/tasks", `{"type":"t","id":"1","payload":{"a": 1},"headers":{"h":"v"},"max_retry":4,"timeout":"1h","retention":"1h"}`).want(201)
		before := time.Now()
		r := s.call("POST", "/v1/take", `{"queues":["t"],"worker":"w"}`).want(200)
		taken := time.Now()
		for field, want := range map[string]any{"queue": "t", "id": "1", "type": "t", "attempt": 1.0, "max_retry": 4.0} {
			if got := r.get("tasks", 0, field); got != want {
				t.Errorf("%s is %v, want %v", field, got, want)
			}
		}
		if !strings.Contains(string(r.body), `"payload":{"a": 1},"headers":{"h":"v"}`) {
			t.Errorf("response: %s", r.body)
		}
		for field, after := range map[string]time.Duration{"deadline": time.Hour, "lease_expires_at": 30 * time.Second} {
			at, err := time.Parse(time.RFC3339, r.str("tasks", 0, field))
			if err != nil || at.Sub(before) < after-2*time.Second || at.Sub(taken) > after+2*time.Second {
				t.Errorf("%s is in %v, want %v: %v", field, at.Sub(before), after, err)
			}
		}
		lease := r.str("tasks", 0, "lease")
		s.call("POST", "/v1/leases/"+lease+"/extend", "").want(200).str("lease_expires_at")
		if got := s.state("t", "1"); got != "active" {
			t.Errorf("state %s", got)
		}
		// The first outcome counts; later ones change nothing.
		s.call("POST", "/v1/leases/"+lease+"/done", `{"result":{"b": 2}}`).want(200)
		s.call("POST", "/v1/leases/"+lease+"/done", `{"result":3}`).want(200)
		s.call("POST", "/v1/leases/"+lease+"/fail", `{"error":"late"}`).want(200)
		s.call("POST", "/v1/leases/"+lease+"/release", ``).want(200)
		s.call("POST", "/v1/leases/"+lease+"/extend", "").problem(409, "lease-lost")
		got := s.call("GET", "/v1/queues/t/tasks/1", "").want(200)
		if !strings.Contains(string(got.body), `"result":{"b": 2}`) || got.str("task", "state") != "completed" {
			t.Errorf("task: %s", got.body)
		}
		q := s.call("GET", "/v1/queues/t", "").want(200)
		if q.get("queue", "processed_today") != 1.0 || q.get("queue", "failed_today") != 0.0 {
			t.Errorf("queue: %s", q.body)
		}
	})
}

func TestProgressAndAttempts(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, func(c *service.Config) { c.Limits.AttemptLog = 5 })
		s.call("POST", "/v1/tasks", `{"type":"t","id":"1"}`).want(201)
		path := "/v1/leases/" + s.call("POST", "/v1/take", `{"queues":["t"],"worker":"w"}`).want(200).str("tasks", 0, "lease")
		for body, pointer := range map[string]string{
			`{}`: "/fraction", `{"fraction":-0.1}`: "/fraction", `{"fraction":1.1}`: "/fraction", `{"fraction":"1"}`: "/fraction",
			`{"fraction":1,"note":1}`: "/note", `{"fraction":1,"other":1}`: "/other", ``: "",
		} {
			if p := s.call("POST", path+"/progress", body); p.status != 400 || !strings.Contains(string(p.body), `"pointer":"`+pointer) {
				t.Errorf("%s: %s", body, p.body)
			}
		}
		s.callAs(email, "POST", path+"/progress", `{"fraction":1}`).problem(403, "forbidden")
		s.call("POST", path+"/progress", `{"fraction":0.25,"note":"1 of 4"}`).want(200)
		r := s.call("GET", "/v1/queues/t/tasks/1", "").want(200)
		if r.get("task", "progress", "fraction") != 0.25 || r.str("task", "progress", "note") != "1 of 4" || r.str("task", "progress", "at") == "" {
			t.Errorf("task: %s", r.body)
		}
		s.call("POST", path+"/fail", `{"error":"no"}`).want(200)
		s.call("POST", path+"/progress", `{"fraction":1}`).problem(409, "lease-lost")
		r = s.call("GET", "/v1/queues/t/tasks/1", "").want(200)
		if r.str("task", "attempts", 0, "kind") != "failed" || r.str("task", "attempts", 0, "error") != "no" || r.str("task", "attempts", 0, "server") != "w" {
			t.Errorf("task: %s", r.body)
		}
	})
}

func TestSettleMany(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.enqueue("q", 6, `,"max_retry":5`)
		l, ids := s.takeAll("q", 6)
		if fmt.Sprint(ids) != "[1 2 3 4 5 6]" {
			t.Fatalf("order: %v", ids)
		}
		lost := l[4][:len(l[4])-2] + "AA"
		body, _ := json.Marshal(map[string]any{"outcomes": []map[string]any{
			{"lease": l[0], "outcome": "done"},
			{"lease": l[1], "outcome": "fail", "error": "later", "retry_in": "1h"},
			{"lease": l[2], "outcome": "fail", "error": "never", "skip_retry": true},
			{"lease": l[3], "outcome": "release"},
			{"lease": lost, "outcome": "done"},
			{"lease": "nonsense", "outcome": "done"},
			{"lease": l[5], "outcome": "maybe"},
			{"lease": l[5], "outcome": "release", "error": "x"},
			{"lease": l[5], "outcome": "fail", "retry_in": "1s", "skip_retry": true},
			{"lease": l[0], "outcome": "fail"},
		}})
		r := s.call("POST", "/v1/leases/settle", string(body)).want(200)
		for i, want := range []string{"ok", "ok", "ok", "ok", "", "invalid-request", "invalid-request", "invalid-request", "invalid-request", "ok"} {
			got := "ok"
			if r.get("results", i, "ok") != true {
				got = strings.TrimPrefix(r.str("results", i, "problem", "type"), "urn:asynq:problem:")
			}
			if want != "" && got != want || want == "" && got == "ok" {
				t.Errorf("outcome %d: %s, want %s", i, got, want)
			}
		}
		for id, want := range map[string]string{"1": "gone", "2": "retry", "3": "archived", "4": "pending", "5": "active", "6": "active"} {
			if got := s.state("q", id); got != want {
				t.Errorf("task %s is %s, want %s", id, got, want)
			}
		}
		task := s.call("GET", "/v1/queues/q/tasks/2", "").want(200)
		at, _ := time.Parse(time.RFC3339, task.str("task", "next_process_at"))
		if d := time.Until(at); task.str("task", "last_error") != "later" || d < 50*time.Minute || d > 61*time.Minute {
			t.Errorf("task 2, in %v: %s", d, task.body)
		}
		_, ids = s.take("q", 1, "50s")
		if fmt.Sprint(ids) != "[4]" {
			t.Errorf("took %v after the release", ids)
		}
		x := s.call("POST", "/v1/leases/extend", `{"leases":["`+l[4]+`","x","`+l[0]+`"]}`).want(200)
		if x.get("results", 0, "problem") != nil || x.get("results", 1, "problem") == nil || x.str("results", 2, "problem", "type") != "urn:asynq:problem:lease-lost" {
			t.Errorf("extended: %s", x.body)
		}
	})
}

func TestTakeWaits(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		if l, _ := s.take("q", 1, "0s"); len(l) != 0 {
			t.Errorf("took %v from an empty queue", l)
		}
		got := make(chan *reply, 1)
		go func() {
			r, err := s.try(context.Background(), all, "POST", "/v1/take", `{"queues":["q","r"],"wait":"20s"}`)
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		proctest.Eventually(t, "a request to wait", func() bool { return s.service.Waiting() == 1 })
		s.enqueue("q", 1, "")
		if r := <-got; len(r.want(200).list("tasks")) != 1 {
			t.Errorf("response: %s", r.body)
		}
		s.enqueue("q2", 1, "")
		proctest.Eventually(t, "a take that does not wait to get a task", func() bool {
			l, _ := s.take("q2", 1, "0s")
			return len(l) == 1
		})
	})
}

// A client that disconnects receives no task: the next worker receives it, in order.
func TestDisconnectWhileWaiting(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		for round := range 5 {
			queue := fmt.Sprintf("q%d", round)
			var group sync.WaitGroup
			ctx, cancel := context.WithCancel(context.Background())
			for range 4 {
				group.Go(func() { _, _ = s.try(ctx, all, "POST", "/v1/take", `{"queues":["`+queue+`"],"n":3,"wait":"20s"}`) })
			}
			proctest.Eventually(t, "requests to wait", func() bool { return s.service.Waiting() == 4 })
			cancel()
			group.Wait()
			// A task that is written before the service detects the disconnect counts as delivered
			// and stays leased, so enqueue only afterwards.
			proctest.Eventually(t, "the service to detect the disconnect", func() bool { return s.service.Waiting() == 0 })
			s.enqueue(queue, 5, "")
			if _, ids := s.takeAll(queue, 5); fmt.Sprint(ids) != "[1 2 3 4 5]" {
				t.Fatalf("order: %v", ids)
			}
			proctest.Eventually(t, "no waiting requests", func() bool { return s.service.Waiting() == 0 })
		}
	})
}

// brokenWriter is a client whose connection fails on Write.
type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// silentWriter is a client whose connection fails on Flush.
type silentWriter struct{ http.ResponseWriter }

func (silentWriter) Write(p []byte) (int, error) { return len(p), nil }
func (silentWriter) FlushError() error           { return errors.New("broken pipe") }

// Undelivered tasks return to the front of their queue, in order, without counting an attempt.
func TestUndeliveredTasksReturn(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		for i, w := range []http.ResponseWriter{brokenWriter{httptest.NewRecorder()}, silentWriter{httptest.NewRecorder()}} {
			queue := fmt.Sprint("q", i)
			s.enqueue(queue, 5, "")
			req := httptest.NewRequest(http.MethodPost, "/v1/take", strings.NewReader(`{"queues":["`+queue+`"],"n":3,"worker":"fragile"}`))
			req.Header.Set("Authorization", "Bearer "+all)
			s.service.ServeHTTP(w, req)
			if _, ids := s.takeAll(queue, 5); fmt.Sprint(ids) != "[1 2 3 4 5]" {
				t.Errorf("order: %v", ids)
			}
		}
		if n := strings.Count(s.log.String(), "worker=fragile"); n != 2 {
			t.Errorf("%d log entries, want 2", n)
		}
	})
}

func TestMaxRun(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, func(c *service.Config) { c.Queues = map[string]service.QueueConfig{"q": {MaxRun: 1}} })
		s.enqueue("q", 3, "")
		for want := 1; want <= 3; want++ {
			l, ids := s.take("q", 3, "50s")
			if len(ids) != 1 || ids[0] != fmt.Sprint(want) {
				t.Fatalf("took %v, want only task %d", ids, want)
			}
			if _, more := s.take("q", 1, "60ms"); len(more) != 0 {
				t.Fatalf("took %v beside it", more)
			}
			s.call("POST", "/v1/leases/"+l[0]+"/done", "").want(200)
		}
		if got := s.call("GET", "/v1/queues/q", "").want(200).get("queue", "max_run"); got != 1.0 {
			t.Errorf("max_run %v", got)
		}
	})
}

// In a queue with in_order, no task overtakes one that waits for its retry.
func TestInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, func(c *service.Config) { c.Queues = map[string]service.QueueConfig{"q": {InOrder: true}} })
		s.enqueue("q", 2, "")
		l, ids := s.take("q", 2, "50s")
		if len(ids) != 1 || ids[0] != "1" {
			t.Fatalf("took %v, want only task 1", ids)
		}
		s.call("POST", "/v1/leases/"+l[0]+"/fail", `{"error":"x","retry_in":"1h"}`).want(200)
		if _, more := s.take("q", 2, "60ms"); len(more) != 0 {
			t.Fatalf("took %v before the retry of task 1", more)
		}
		s.call("POST", "/v1/queues/q/tasks/1/reschedule", `{"in":"0s"}`).want(204)
		for _, want := range []string{"1", "2"} {
			l, ids := s.take("q", 2, "50s")
			if len(ids) != 1 || ids[0] != want {
				t.Fatalf("took %v, want only task %s", ids, want)
			}
			s.call("POST", "/v1/leases/"+l[0]+"/done", "").want(200)
		}
		if got := s.call("GET", "/v1/queues/q", "").want(200).get("queue", "in_order"); got != true {
			t.Errorf("in_order %v", got)
		}
	})
}

// Each partition has its own limit, and a task that waits for it is held.
func TestPartitions(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, func(c *service.Config) {
			limits := &asynq.PartitionConfig{Concurrency: 1, Rate: asynq.RateLimit{Events: 1000, Per: time.Second, Burst: 1000}}
			c.Queues = map[string]service.QueueConfig{"hooks": {Partitions: limits}, "ordered": {Partitions: &asynq.PartitionConfig{Ordered: true}}}
		})
		for _, id := range []string{"a1", "a2", "b1"} {
			r := s.call("POST", "/v1/tasks", `{"type":"t","queue":"hooks","id":"`+id+`","partition_key":"customer `+id[:1]+`"}`).want(201)
			if got := r.str("task", "partition_key"); got != "customer "+id[:1] {
				t.Errorf("partition %q: %s", got, r.body)
			}
		}
		leases, ids := s.take("hooks", 10, "50s")
		if slices.Sort(ids); !slices.Equal(ids, []string{"a1", "b1"}) {
			t.Fatalf("took %v", ids)
		}
		if r := s.call("GET", "/v1/queues/hooks/tasks/a2", "").want(200); r.str("task", "state") != "held" || r.get("task", "next_process_at") != nil {
			t.Errorf("the task that waits: %s", r.body)
		}
		q := s.call("GET", "/v1/queues/hooks", "").want(200)
		if q.get("queue", "held") != 1.0 || q.get("queue", "scheduled") != 0.0 || q.get("queue", "partitions", "max_run") != 1.0 || q.str("queue", "partitions", "per") != "1s" {
			t.Errorf("the queue: %s", q.body)
		}
		for _, l := range leases {
			s.call("POST", "/v1/leases/"+l+"/done", "").want(200)
		}
		r := s.call("POST", "/v1/take", `{"queues":["hooks"],"n":10,"wait":"50s"}`).want(200)
		if r.str("tasks", 0, "id") != "a2" || r.str("tasks", 0, "partition_key") != "customer a" {
			t.Errorf("took %s", r.body)
		}

		// In order, the next task of a partition waits for the retry of the first one.
		for _, id := range []string{"c1", "c2", "d1"} {
			s.call("POST", "/v1/tasks", `{"type":"t","queue":"ordered","id":"`+id+`","partition_key":"`+id[:1]+`"}`).want(201)
		}
		var first string
		for n := 0; n < 2; {
			leases, ids := s.take("ordered", 10, "50s")
			for i, id := range ids {
				if n++; id == "c1" {
					first = leases[i]
				}
			}
		}
		s.call("POST", "/v1/leases/"+first+"/fail", `{"error":"x","retry_in":"1h"}`).want(200)
		if _, ids := s.take("ordered", 10, "60ms"); len(ids) != 0 {
			t.Errorf("took %v before the retry of c1", ids)
		}
		for _, key := range []string{`" "`, `""`, `"a\u0000b"`, `"` + strings.Repeat("x", 257) + `"`} {
			r := s.call("POST", "/v1/tasks", `{"type":"t","partition_key":`+key+`}`).problem(400, "invalid-request")
			if r.str("errors", 0, "pointer") != "/partition_key" || !strings.Contains(r.str("errors", 0, "detail"), "partition key") {
				t.Errorf("partition_key %s: %s", key, r.body)
			}
			r = s.call("POST", "/v1/tasks/batch", `{"tasks":[{"type":"t","id":"b`+fmt.Sprint(len(key))+`","partition_key":"k"},{"type":"t","partition_key":`+key+`}]}`).want(200)
			if r.str("results", 0, "task", "partition_key") != "k" || r.str("results", 1, "problem", "errors", 0, "pointer") != "/tasks/1/partition_key" {
				t.Errorf("batch with partition_key %s: %s", key, r.body)
			}
		}
	})
}

// Leases are not bound to an instance: another one can extend and settle them.
func TestLeaseOfAnotherInstance(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.enqueue("q/ü ", 1, `,"retention":"1h"`)
		l, _ := s.take("q/ü ", 1, "50s")
		s.shutdown()
		other := newEnv(t, opt, nil)
		other.call("POST", "/v1/leases/"+l[0]+"/extend", "").want(200).str("lease_expires_at")
		other.callAs(email, "POST", "/v1/leases/"+l[0]+"/done", "").problem(403, "forbidden")
		other.call("POST", "/v1/leases/"+l[0]+"/done", `{"result_text":"x"}`).want(200)
		other.call("POST", "/v1/leases/"+l[0]+"/fail", `{"error":"x"}`).want(200)
		if got := other.state("q/ü ", "1"); got != "completed" {
			t.Errorf("state %s", got)
		}
	})
}

// A worker that stops extending loses its task, also in a queue that is not configured; delayed
// tasks there are forwarded as well.
func TestLeaseExpires(t *testing.T) {
	t.Parallel()
	opt := realRedis(t)
	s := newEnv(t, opt, func(c *service.Config) { c.Limits.LeaseDuration = time.Second })
	s.enqueue("q", 1, `,"max_retry":0`)
	s.call("POST", "/v1/tasks", `{"type":"later","process_in":"1s"}`).want(201)
	l, _ := s.take("q", 1, "50s")
	if _, ids := s.take("later", 1, "50s"); len(ids) != 1 {
		t.Error("the scheduled task was not delivered")
	}
	proctest.Eventually(t, "the task to fail", func() bool { return s.state("q", "1") == "archived" })
	s.call("POST", "/v1/leases/"+l[0]+"/done", "").problem(409, "lease-lost")
}

func TestCancel(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.enqueue("q", 1, "")
		s.call("POST", "/v1/queues/q/tasks/1/cancel", "").problem(409, "wrong-state")
		s.call("POST", "/v1/queues/q/tasks/2/cancel", "").problem(404, "task-not-found")
		l, _ := s.take("q", 1, "50s")
		proctest.Eventually(t, "the cancellation to arrive", func() bool {
			s.call("POST", "/v1/queues/q/tasks/1/cancel", "").want(202) // the subscription may not be active yet
			return s.call("POST", "/v1/leases/extend", `{"leases":["`+l[0]+`"]}`).want(200).get("results", 0, "canceled") == true
		})
		s.call("POST", "/v1/leases/"+l[0]+"/fail", `{"error":"canceled","skip_retry":true}`).want(200)
		if got := s.state("q", "1"); got != "archived" {
			t.Errorf("state %s", got)
		}
	})
}

// After the deadline of an attempt, its lease cannot be extended but can be settled.
func TestDeadlineOfAnAttempt(t *testing.T) {
	t.Parallel()
	s := newEnv(t, realRedis(t), nil)
	s.enqueue("q", 1, `,"timeout":"1s","retention":"1h"`)
	l, _ := s.take("q", 1, "50s")
	var last *reply
	proctest.Eventually(t, "the deadline", func() bool {
		last = s.call("POST", "/v1/leases/"+l[0]+"/extend", "")
		return last.status != http.StatusOK
	})
	last.problem(409, "deadline-passed")
	s.call("POST", "/v1/leases/"+l[0]+"/done", "").want(200)
	if got := s.state("q", "1"); got != "completed" {
		t.Errorf("state %s", got)
	}
}

func TestMaxWaiting(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.Limits.MaxWaiting = 1 })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = s.try(ctx, all, "POST", "/v1/take", `{"queues":["q"],"wait":"20s"}`)
	}()
	proctest.Eventually(t, "a request to wait", func() bool { return s.service.Waiting() == 1 })
	if r := s.call("POST", "/v1/take", `{"queues":["q"],"wait":"20s"}`).problem(503, "unavailable"); r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	cancel()
	<-gone
	proctest.Eventually(t, "no waiting requests", func() bool { return s.service.Waiting() == 0 })
	s.take("q", 1, "0s")
}

func TestTakeRejectsInvalidRequests(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.Limits.MaxBatch = 2 })
	for _, c := range []struct{ body, pointer string }{
		{`{}`, "/queues"},
		{`{"queues":["q"],"n":0}`, "/n"},
		{`{"queues":["q"],"n":101}`, "/n"},
		{`{"queues":["q"],"wait":"long"}`, "/wait"},
		{`{"queues":["q"],"hurry":true}`, "/hurry"},
		{`{"queues":[""]}`, "/queues/0"},
	} {
		r := s.call("POST", "/v1/take", c.body).problem(400, "invalid-request")
		if got := r.str("errors", 0, "pointer"); got != c.pointer {
			t.Errorf("%s: pointer %q, want %q", c.body, got, c.pointer)
		}
	}
	s.call("POST", "/v1/take", `{"queues":["a","b","c"]}`).problem(413, "too-large")
	s.callAs(email, "POST", "/v1/take", `{"queues":["email:a","q"]}`).problem(403, "forbidden")
	for _, lease := range []string{"x", "%FF", "AQ", "AQFhAWJj%3D", "..%2Fx"} {
		s.call("POST", "/v1/leases/"+lease+"/done", "").problem(400, "invalid-request")
	}
	s.call("POST", "/v1/leases/settle", `{"outcomes":[{"lease":"x","outcome":"done","note":1}]}`).problem(400, "invalid-request")
	s.call("POST", "/v1/leases/extend", `{"leases":["a","b","c"]}`).problem(413, "too-large")
}
