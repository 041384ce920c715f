package service_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
)

func TestEnqueueWithAllOptions(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		r := s.call("POST", "/v1/tasks", `{"type":"report","queue":"q/1","id":"a b","payload": {"n": 1.0,  "s":"<&>"},"headers":{"trace":"x"},
			"max_retry":3,"timeout":"1m","deadline":"2100-01-02T03:04:05Z","process_at":"2099-01-02T03:04:05+01:00","retention":"1h","unique_for":"10s"}`).want(201)
		if got, want := r.header.Get("Location"), "/v1/queues/q%2F1/tasks/a%20b"; got != want {
			t.Errorf("location %q, want %q", got, want)
		}
		if r.str("task", "state") != "scheduled" || strings.Contains(string(r.body), "payload") {
			t.Errorf("response: %s", r.body)
		}
		info, err := s.inspector().GetTaskInfo("q/1", "a b")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(info.Payload), `{"n": 1.0,  "s":"<&>"}`; got != want {
			t.Errorf("payload %q, want %q", got, want)
		}
		if info.Type != "report" || info.Headers["trace"] != "x" || info.MaxRetry != 3 || info.Timeout != time.Minute || info.Retention != time.Hour ||
			!info.Deadline.Equal(time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)) || !info.NextProcessAt.Equal(time.Date(2099, 1, 2, 2, 4, 5, 0, time.UTC)) {
			t.Errorf("task: %+v", info)
		}
		got := s.call("GET", r.header.Get("Location"), "").want(200)
		for field, want := range map[string]any{
			"id": "a b", "queue": "q/1", "type": "report", "state": "scheduled", "timeout": "1m0s", "retention": "1h0m0s", "deadline": "2100-01-02T03:04:05Z",
			"next_process_at": "2099-01-02T02:04:05Z", "max_retry": 3.0, "retried": 0.0,
		} {
			if got := got.get("task", field); got != want {
				t.Errorf("%s is %v, want %v", field, got, want)
			}
		}
		if !strings.Contains(string(got.body), `"payload":{"n": 1.0,  "s":"<&>"}`) {
			t.Errorf("the text of the payload changed: %s", got.body)
		}
		s.call("POST", "/v1/tasks", `{"type":"report","queue":"q/1","payload": {"n": 1.0,  "s":"<&>"},"unique_for":"1s"}`).problem(409, "duplicate-task")
	})
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestPayloadForms(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	for _, c := range []struct{ sent, kept, back string }{
		{`"payload":null`, `null`, `"payload":null`},
		{`"payload":"é"`, `"é"`, `"payload":"é"`},
		{`"payload_text":"no json"`, `no json`, `"payload_text":"no json"`},
		{`"payload_text":"[1]"`, `[1]`, `"payload":[1]`},
		{`"payload_text":""`, ``, `"payload_text":""`},
		{`"payload_base64":"/wD/"`, "\xff\x00\xff", `"payload_base64":"/wD/"`},
		{`"payload_base64":"IsOpIg=="`, `"é"`, `"payload":"é"`},
		{`"retention":"1s"`, ``, `"payload_text":""`},
		// JSON that some parsers reject must not make the whole response unreadable.
		{`"payload":` + nested(200), nested(200), `"payload":` + nested(200)},
		{`"payload":` + nested(201), nested(201), `"payload_text":"` + nested(201) + `"`},
		{`"payload":` + nested(9999), nested(9999), `"payload_text":"` + nested(9999) + `"`},
		{`"payload":["` + strings.Repeat("[", 300) + `\"["]`, `["` + strings.Repeat("[", 300) + `\"["]`, `"payload":["` + strings.Repeat("[", 300) + `\"["]`},
		{`"payload":"\ud83d\ude00 \\ud800"`, `"\ud83d\ude00 \\ud800"`, `"payload":"\ud83d\ude00 \\ud800"`},
		{`"payload":"\ud83d"`, `"\ud83d"`, `"payload_text":"\"\\ud83d\""`},
		{`"payload":"\ud83d\n"`, `"\ud83d\n"`, `"payload_text":"\"\\ud83d\\n\""`},
		{`"payload":{"\ude00":1}`, `{"\ude00":1}`, `"payload_text":"{\"\\ude00\":1}"`},
		{`"payload":["\u0000x"]`, `["\u0000x"]`, `"payload":["\u0000x"]`},
		{`"payload":{"x\u0000":1}`, `{"x\u0000":1}`, `"payload":{"x\u0000":1}`},
		{`"payload":{"\u0000x" :1}`, `{"\u0000x" :1}`, `"payload_text":"{\"\\u0000x\" :1}"`},
	} {
		r := s.call("POST", "/v1/tasks", `{"type":"t",`+c.sent+`}`).want(201)
		info, err := s.inspector().GetTaskInfo("t", r.str("task", "id"))
		if err != nil {
			t.Fatal(err)
		}
		if string(info.Payload) != c.kept {
			t.Errorf("%s: kept %q, want %q", c.sent, info.Payload, c.kept)
		}
		if got := string(s.call("GET", r.header.Get("Location"), "").want(200).body); !strings.Contains(got, c.back) {
			t.Errorf("%s: came back as %s, want %s", c.sent, got, c.back)
		}
	}
}

func TestEnqueueRejectsInvalidTasks(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.Limits.MaxBody = 10_000; c.Limits.MaxBatch = 3 })
	for _, c := range []struct{ body, pointer string }{
		{`{`, ""},
		{`[]`, ""},
		{`{"type":"t"} x`, ""},
		{"{\"type\":\"\xff\"}", ""},
		{`{}`, "/type"},
		{`{"type":" "}`, "/type"},
		{`{"type":"t","surprise/~":1}`, "/surprise~1~0"},
		{`{"type":7}`, "/type"},
		{`{"type":"t","headers":{"a":1}}`, "/headers"},
		{`{"type":"t","queue":"  "}`, "/queue"},
		{`{"type":"t","queue":"}x"}`, "/queue"},
		{`{"type":"}x"}`, "/queue"},
		{`{"type":"t","id":""}`, "/id"},
		{`{"type":"t","group":""}`, "/group"},
		{`{"type":"t","max_retry":-1}`, "/max_retry"},
		{`{"type":"t","timeout":5}`, "/timeout"},
		{`{"type":"t","timeout":"-5s"}`, "/timeout"},
		{`{"type":"t","timeout":"5 s"}`, "/timeout"},
		{`{"type":"t","deadline":"tomorrow"}`, "/deadline"},
		{`{"type":"t","unique_for":"0s"}`, "/unique_for"},
		{`{"type":"t","process_in":"1s","process_at":"2099-01-02T03:04:05Z"}`, "/process_in"},
		{`{"type":"t","payload":1,"payload_text":"1"}`, "/payload"},
		{`{"type":"t","payload_base64":"_"}`, "/payload_base64"},
	} {
		r := s.call("POST", "/v1/tasks", c.body).problem(400, "invalid-request")
		if got := r.str("errors", 0, "pointer"); !strings.HasPrefix(got, c.pointer) || r.str("errors", 0, "detail") == "" {
			t.Errorf("%s: pointer %q, want %q: %s", c.body, got, c.pointer, r.body)
		}
	}
	s.call("POST", "/v1/tasks", `{"type":"t","payload":"`+strings.Repeat("x", 10_000)+`"}`).problem(413, "too-large")
	s.call("POST", "/v1/tasks/batch", `{"tasks":[{},{},{},{}]}`).problem(413, "too-large")
	if queues, err := s.inspector().Queues(); err != nil || len(queues) > 0 && queues[0] != "default" {
		t.Errorf("queues: %q, %v", queues, err)
	}
}

func TestEnqueueIsIdempotent(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		const task = `{"type":"t","id":"1","payload":[1],"unique_for":"1h"}`
		s.call("POST", "/v1/tasks", task).want(201)
		r := s.call("POST", "/v1/tasks", task).want(200)
		if r.str("task", "id") != "1" || r.header.Get("Location") != "" {
			t.Errorf("response: %s", r.body)
		}
		s.call("POST", "/v1/tasks", `{"type":"t","id":"1","payload":[2]}`).problem(409, "task-id-conflict")
		s.call("POST", "/v1/tasks", `{"type":"u","queue":"t","id":"1","payload":[1]}`).problem(409, "task-id-conflict")
		s.call("POST", "/v1/tasks", `{"type":"t","id":"2","payload":[1],"unique_for":"1h"}`).problem(409, "duplicate-task")
	})
}

func TestEnqueueWithIdempotencyKey(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		first := s.call("POST", "/v1/tasks", `{"type":"t","payload":[1],"idempotency_key":"k"}`).want(201)
		id := first.str("task", "id")
		r := s.call("POST", "/v1/tasks", `{"type":"u","queue":"t","id":"other","payload":[2],"idempotency_key":"k","idempotency_ttl":"1h"}`).want(200)
		if r.str("task", "id") != id || r.str("task", "type") != "t" || r.str("task", "state") != "pending" || r.header.Get("Location") != "" {
			t.Errorf("response: %s", r.body)
		}
		r = s.call("POST", "/v1/tasks/batch", `{"tasks":[{"type":"t","idempotency_key":"k"},{"type":"t","idempotency_key":"k2"},{"type":"t","idempotency_key":"k2"}]}`).want(200)
		if r.str("results", 0, "task", "id") != id || r.str("results", 1, "task", "id") != r.str("results", 2, "task", "id") ||
			r.get("results", 0, "created") != false || r.get("results", 1, "created") != true || r.get("results", 2, "created") != false {
			t.Errorf("results: %s", r.body)
		}
		s.call("DELETE", "/v1/queues/t/tasks/"+id, "").want(204)
		r = s.call("POST", "/v1/tasks", `{"type":"t","idempotency_key":"k"}`).want(200)
		if r.str("task", "id") != id || r.str("task", "type") != "t" || r.str("task", "state") != "gone" {
			t.Errorf("the task is gone: %s", r.body)
		}
		s.call("POST", "/v1/tasks", `{"type":"t","idempotency_key":" "}`).problem(400, "invalid-request")
		s.call("POST", "/v1/tasks", `{"type":"t","idempotency_key":"k","idempotency_ttl":"0s"}`).problem(400, "invalid-request")
		s.call("POST", "/v1/tasks", `{"type":"t","idempotency_ttl":"1h"}`).problem(400, "invalid-request")
	})
}

func TestEnqueueModes(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		enqueue := func(fields string, status int) *reply {
			t.Helper()
			return s.call("POST", "/v1/tasks", `{"type":"t",`+fields+`}`).want(status)
		}
		first := enqueue(`"payload":[1],"unique_key":"k","unique_for":"1h","expires_in":"1h"`, 201)
		id := first.str("task", "id")
		if first.str("task", "expires_at") == "" {
			t.Errorf("response: %s", first.body)
		}
		p := s.call("POST", "/v1/tasks", `{"type":"u","queue":"t","unique_key":"k","unique_for":"1h"}`).problem(409, "duplicate-task")
		if !strings.Contains(string(p.body), id) {
			t.Errorf("the problem does not name the task %q: %s", id, p.body)
		}
		for _, policy := range []string{"keep", "replace", "supersede"} {
			if got := enqueue(`"payload":[2],"unique_key":"k","unique_for":"1h","on_duplicate":"`+policy+`"`, 200).str("task", "id"); got != id {
				t.Errorf("%s returns %q, want %q", policy, got, id)
			}
		}
		if r := s.call("GET", "/v1/queues/t/tasks/"+id, "").want(200); fmt.Sprint(r.get("task", "payload")) != "[2]" {
			t.Errorf("the replaced task: %s", r.body)
		}
		debounced := enqueue(`"debounce":{"key":"d","quiet":"1m","max_wait":"5m"}`, 201)
		if again := enqueue(`"debounce":{"key":"d","quiet":"1m"}`, 200); again.str("task", "id") != debounced.str("task", "id") || again.str("task", "state") != "scheduled" {
			t.Errorf("a debounced task: %s", again.body)
		}
		throttled := enqueue(`"throttle":{"key":"k","window":"1m"}`, 201)
		if again := enqueue(`"throttle":{"key":"k","window":"1m"}`, 200); again.str("task", "id") != throttled.str("task", "id") {
			t.Errorf("a throttled task: %s", again.body)
		}
		for _, fields := range []string{
			`"unique_key":"k"`, `"unique_key":" ","unique_for":"1h"`, `"on_duplicate":"replace"`, `"unique_for":"1h","on_duplicate":"no"`, `"expires_in":"0s"`,
			`"debounce":{"key":"d"}`, `"debounce":{"quiet":"1s"}`, `"debounce":{"key":"d","quiet":"1s"},"process_in":"1h"`, `"throttle":{"key":"d"}`,
			`"throttle":{"window":"1s"}`, `"throttle":{"key":"k","window":"1s"},"idempotency_key":"k"`, `"process_in":"1h","expires_in":"1m"`,
		} {
			s.call("POST", "/v1/tasks", `{"type":"t",`+fields+`}`).problem(400, "invalid-request")
		}
	})
}

func TestIdempotencyKeyHeader(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		for _, c := range []struct {
			body   string
			keys   []string
			status int
		}{
			{`{"type":"t"}`, []string{"k"}, http.StatusCreated},
			{`{"type":"t"}`, []string{"k"}, http.StatusOK},
			{`{"type":"t","idempotency_key":"k","idempotency_ttl":"1h"}`, []string{"k"}, http.StatusOK},
			{`{"type":"t","idempotency_key":"other"}`, []string{"k"}, http.StatusBadRequest},
			{`{"type":"t"}`, []string{"k", "k"}, http.StatusBadRequest},
			{`{"type":"t"}`, []string{""}, http.StatusBadRequest},
		} {
			req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.server.URL+"/v1/tasks", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+all)
			req.Header["Idempotency-Key"] = c.keys
			res, err := s.server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != c.status {
				t.Errorf("%s with %q: status %d, want %d", c.body, c.keys, res.StatusCode, c.status)
			}
		}
	})
}

// If many clients enqueue the same ID concurrently, one creates the task and all receive it.
func TestConcurrentEnqueueOfSameID(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		for round := range 10 {
			var made, found atomic.Int32
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					path, body := "/v1/tasks", fmt.Sprintf(`{"type":"t","id":"%d","payload":%d}`, round, round)
					if i%2 == 0 {
						path, body = path+"/batch", `{"tasks":[`+body+`]}`
					}
					r, err := s.try(context.Background(), all, "POST", path, body)
					switch {
					case err != nil:
						t.Error(err)
					case r.status == http.StatusCreated, strings.Contains(string(r.body), `"created":true`):
						made.Add(1)
					case strings.Contains(string(r.body), `"task":`):
						found.Add(1)
					default:
						t.Errorf("%d %s", r.status, r.body)
					}
				})
			}
			group.Wait()
			if made.Load() != 1 || found.Load() != 7 {
				t.Fatalf("made %d times, found %d times", made.Load(), found.Load())
			}
		}
	})
}

func TestBatch(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		r := s.callAs(email, "POST", "/v1/tasks/batch", `{"tasks":[
			{"type":"email:a","id":"1"},
			{"type":"email:a","id":"1"},
			{"type":"sms","id":"2"},
			{"type":"email:a","id":"1","payload":7},
			{"type":"email:a","colour":"red"},
			{"type":"email:a","id":""},
			{"type":"x","queue":"email:b"},
			null]}`).want(200)
		if n := len(r.list("results")); n != 8 {
			t.Fatalf("%d results: %s", n, r.body)
		}
		for i, want := range []string{"made", "found", "forbidden", "task-id-conflict", "invalid-request", "invalid-request", "made", "invalid-request"} {
			got := "made"
			if r.get("results", i, "problem") != nil {
				got = strings.TrimPrefix(r.str("results", i, "problem", "type"), "urn:asynq:problem:")
			} else if r.get("results", i, "created") != true {
				got = "found"
			}
			if got != want {
				t.Errorf("task %d: %s, want %s", i, got, want)
			}
		}
		if got := r.str("results", 4, "problem", "errors", 0, "pointer"); got != "/tasks/4/colour" {
			t.Errorf("pointer %q", got)
		}
		s.call("POST", "/v1/tasks/batch", `{"tasks":[]}`).want(200)
	})
}

func TestTaskQueuesAndDefaults(t *testing.T) {
	t.Parallel()
	retries, hour := 2, time.Hour
	s := newEnv(t, fakeRedis(t), func(c *service.Config) {
		c.OnlyQueues = true
		c.Queues = map[string]service.QueueConfig{"mail": {MaxRetry: &retries, Timeout: &hour, Retention: &hour}, "fax": {}, "plain": {}}
		c.TaskQueues = map[string]string{"mail:*": "mail", "mail:by:fax*": "fax"}
	})
	for typename, want := range map[string]string{"mail:x": "mail", "mail:by:fax:1": "fax", "plain": "plain"} {
		if got := s.call("POST", "/v1/tasks", `{"type":"`+typename+`"}`).want(201).str("task", "queue"); got != want {
			t.Errorf("%s went to %q, want %q", typename, got, want)
		}
	}
	r := s.call("POST", "/v1/tasks", `{"type":"mail:x","retention":"0s"}`).want(201)
	info, err := s.inspector().GetTaskInfo("mail", r.str("task", "id"))
	if err != nil || info.MaxRetry != 2 || info.Timeout != hour || info.Retention != 0 {
		t.Errorf("task: %+v, %v", info, err)
	}
	s.call("POST", "/v1/tasks", `{"type":"other"}`).problem(404, "queue-not-found")
	s.call("POST", "/v1/take", `{"queues":["other"]}`).problem(404, "queue-not-found")
	s.call("GET", "/v1/queues/other", "").problem(404, "queue-not-found")
	if _, err := s.inspector().GetQueueInfo("other"); !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Errorf("queue other: %v", err)
	}
}
