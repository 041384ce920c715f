package service_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
)

// takeNode takes the only task of a node, and returns its lease.
func (s *env) takeNode(queue, workflow, node string) string {
	s.t.Helper()
	r := s.call("POST", "/v1/take", fmt.Sprintf(`{"queues":[%q],"wait":"50s"}`, queue)).want(200)
	if r.get("tasks", 0, "workflow") != workflow || r.get("tasks", 0, "node") != node {
		s.t.Fatalf("took %s, want a task of node %s of %s", r.body, node, workflow)
	}
	return r.str("tasks", 0, "lease")
}

func (s *env) settle(lease, outcome, body string) {
	s.t.Helper()
	s.call("POST", "/v1/leases/"+lease+"/"+outcome, body).want(200)
}

// nodeStatuses returns the status of a workflow and of its nodes.
func nodeStatuses(r *reply) string {
	text := r.str("workflow", "status") + ":"
	for i := range r.get("workflow", "nodes").([]any) {
		text += " " + r.str("workflow", "nodes", i, "name") + " " + r.str("workflow", "nodes", i, "status")
	}
	return text
}

const order = `{"id":"order/42","retention":"1h","nodes":[
	{"name":"charge","task":{"type":"charge","payload":{"order":42},"retention":"1h"}},
	{"name":"pack","tasks":[{"type":"pack","payload":1},{"type":"pack","payload":2}],"after":["charge"]},
	{"name":"ship","task":{"type":"ship"},"after":["pack"]},
	{"name":"refund","task":{"type":"refund"},"after_failure":["pack"]},
	{"name":"rate","task":{"type":"rate"},"after":["ship"],"on_dependency_failure":"cancel"},
	{"name":"report","task":{"type":"report","queue":"reports"},"after_end":["pack"]}]}`

// A workflow runs in the order of its dependencies, a failed task blocks it until it is run again,
// and repeated requests change nothing.
func TestWorkflow(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		const path = "/v1/workflows/order%2F42"
		r := s.call("POST", "/v1/workflows", order).want(201)
		if r.header.Get("Location") != path || r.get("workflow", "total") != 7.0 || r.get("workflow", "unfinished") != 7.0 {
			t.Errorf("created %v %s", r.header, r.body)
		}
		if want := "running: charge running pack waiting ship waiting refund waiting rate waiting report waiting"; nodeStatuses(r) != want {
			t.Errorf("created %s", nodeStatuses(r))
		}
		queue, id := r.str("workflow", "nodes", 0, "queues", 0), r.str("workflow", "nodes", 0, "task_id")
		if r = s.call("POST", "/v1/workflows", order).want(200); r.str("workflow", "nodes", 0, "task_id") != id {
			t.Errorf("repeated: %s", r.body)
		}
		s.call("POST", "/v1/workflows", strings.Replace(order, `"after":["pack"]`, `"after":["charge"]`, 1)).problem(409, "workflow-id-conflict")
		s.call("GET", path+"/nodes/charge/result", "").problem(404, "no-result")
		s.call("GET", path+"/nodes/nothing/result", "").problem(404, "node-not-found")

		var group sync.WaitGroup
		group.Go(func() { // the result of a node, at its task
			if r := s.call("GET", "/v1/queues/"+queue+"/tasks/"+id+"?wait=50s", "").want(200); r.get("task", "result", "paid") != 7.0 {
				t.Errorf("response: %s", r.body)
			}
		})
		proctest.Eventually(t, "a request to wait", func() bool { return s.service.Waiting() == 1 })
		s.settle(s.takeNode("charge", "order/42", "charge"), "done", `{"result":{"paid":7}}`)
		group.Wait()
		s.settle(s.takeNode("pack", "order/42", "pack"), "done", "")
		if r := s.call("GET", path+"/nodes/charge/result", "").want(200); r.get("result", "paid") != 7.0 {
			t.Errorf("result: %s", r.body)
		}
		s.settle(s.takeNode("pack", "order/42", "pack"), "fail", `{"error":"no box","skip_retry":true}`)
		s.settle(s.takeNode("refund", "order/42", "refund"), "done", "")
		s.settle(s.takeNode("reports", "order/42", "report"), "done", "")
		r = s.call("GET", path+"?wait=50s", "").want(200)
		if want := "blocked: charge succeeded pack failed ship waiting refund succeeded rate waiting report succeeded"; nodeStatuses(r) != want {
			t.Errorf("a failed task: %s", nodeStatuses(r))
		}
		if r.get("workflow", "succeeded") != 4.0 || r.get("workflow", "failed") != 1.0 || r.get("workflow", "nodes", 4, "on_dependency_failure") != "cancel" {
			t.Errorf("progress: %s", r.body)
		}
		s.call("POST", path+"/nodes/charge/skip", "").problem(409, "wrong-state")
		s.call("POST", path+"/nodes/nothing/skip", "").problem(404, "node-not-found")

		if r = s.call("POST", path+"/retry", "").want(200); r.get("tasks") != 1.0 {
			t.Errorf("retry: %s", r.body)
		}
		s.settle(s.takeNode("pack", "order/42", "pack"), "done", "")
		s.settle(s.takeNode("ship", "order/42", "ship"), "done", "")
		group.Go(func() {
			if r := s.call("GET", path+"?wait=50s", "").want(200); r.str("workflow", "status") != "succeeded" || r.str("workflow", "ended_at") == "" {
				t.Errorf("the end: %s", r.body)
			}
		})
		s.settle(s.takeNode("rate", "order/42", "rate"), "done", "")
		group.Wait()
		s.call("POST", path+"/cancel", "").problem(409, "wrong-state")
		for action, line := range map[string]string{"create": "DEBUG", "retry": "INFO"} {
			if !strings.Contains(s.log.String(), "level="+line+" msg=audit action=workflow."+action+" token=all workflow=order/42") {
				t.Errorf("the log lacks the %s:\n%s", action, s.log.String())
			}
		}
	})
}

func TestCancelAndSkip(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		const nodes = `"nodes":[{"name":"a","task":{"type":"a"}},{"name":"b","task":{"type":"b"},"after":["a"]}]}`
		s.call("POST", "/v1/workflows", `{"id":"1",`+nodes).want(201)
		for range 2 { // the second changes nothing
			if r := s.call("POST", "/v1/workflows/1/cancel", "").want(200); nodeStatuses(r) != "canceled: a canceled b canceled" {
				t.Errorf("canceled: %s", r.body)
			}
		}
		s.call("POST", "/v1/workflows/1/retry", "").problem(409, "wrong-state")
		if info, err := s.inspector().GetQueueInfo("a"); err != nil || info.Size != 0 {
			t.Errorf("the queue is %+v, %v", info, err)
		}

		s.call("POST", "/v1/workflows", `{"id":"2",`+nodes).want(201)
		s.settle(s.takeNode("a", "2", "a"), "fail", `{"error":"no","skip_retry":true}`)
		if r := s.call("GET", "/v1/workflows/2?wait=50s", "").want(200); r.str("workflow", "status") != "blocked" {
			t.Errorf("failed: %s", r.body)
		}
		for range 2 {
			s.call("POST", "/v1/workflows/2/nodes/a/skip", "").want(200)
		}
		s.settle(s.takeNode("b", "2", "b"), "done", "")
		if r := s.call("GET", "/v1/workflows/2?wait=50s", "").want(200); nodeStatuses(r) != "succeeded: a skipped b succeeded" {
			t.Errorf("skipped: %s", r.body)
		}
		s.call("GET", "/v1/workflows/3", "").problem(404, "workflow-not-found")
		s.call("GET", "/v1/workflows/2?wait=x", "").problem(400, "invalid-request")
	})
}

func TestListWorkflows(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	for i := range 5 {
		s.call("POST", "/v1/workflows", fmt.Sprintf(`{"id":"%d","nodes":[{"name":"n","task":{"type":%q}}]}`, i, []string{"sms", "email:a"}[i%2])).want(201)
	}
	got, offset := "", 0.0
	for pages := 0; ; pages++ {
		r := s.call("GET", fmt.Sprintf("/v1/workflows?limit=2&offset=%v", offset), "").want(200)
		for i := range r.list("workflows") {
			if r.get("workflows", i, "nodes") != nil || r.get("workflows", i, "status") != "running" || r.get("workflows", i, "total") != 1.0 {
				t.Errorf("listed %s", r.body)
			}
			got += r.str("workflows", i, "id")
		}
		next, more := r.get("next_offset").(float64)
		if !more {
			break
		}
		if offset = next; pages > 5 {
			t.Fatal("the list does not end")
		}
	}
	if len(got) != 5 || strings.Trim(got, "01234") != "" {
		t.Errorf("listed %s", got)
	}
	if r := s.callAs(email, "GET", "/v1/workflows", "").want(200); len(r.list("workflows")) != 2 {
		t.Errorf("a token for some queues: %s", r.body)
	}
	for query, pointer := range map[string]string{"limit=0": "?limit", "limit=201": "?limit", "limit=x": "?limit", "offset=-1": "?offset"} {
		if r := s.call("GET", "/v1/workflows?"+query, "").problem(400, "invalid-request"); r.str("errors", 0, "pointer") != pointer {
			t.Errorf("%s: %s", query, r.body)
		}
	}
}

// A batch ends with its tasks, and its callbacks run once.
func TestBatchWithCallbacks(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		const body = `{"id":"b","tasks":[{"type":"mail","payload":1},{"type":"mail","payload":2}],
			"on_success":{"type":"sent"},"on_failure":{"type":"broken"},"on_end":{"type":"report"}}`
		r := s.call("POST", "/v1/batches", body).want(201)
		if r.header.Get("Location") != "/v1/batches/b" || r.get("batch", "total") != 2.0 || r.get("batch", "open") != false {
			t.Errorf("created %v %s", r.header, r.body)
		}
		s.call("POST", "/v1/batches", body).want(200)
		s.call("POST", "/v1/batches", `{"id":"b","tasks":[]}`).problem(409, "workflow-id-conflict")
		s.settle(s.takeNode("mail", "b", "members"), "done", "")
		s.settle(s.takeNode("mail", "b", "members"), "fail", `{"error":"no","skip_retry":true}`)
		s.settle(s.takeNode("broken", "b", "on_failure"), "done", "")
		s.settle(s.takeNode("report", "b", "on_end"), "done", "")
		r = s.call("GET", "/v1/batches/b?wait=50s", "").want(200)
		if r.get("batch", "status") != "blocked" || r.get("batch", "members") != "failed" || r.get("batch", "succeeded") != 1.0 || r.get("batch", "failed") != 1.0 ||
			r.get("batch", "callbacks", "on_success", "status") != "waiting" || r.get("batch", "callbacks", "on_end", "status") != "succeeded" {
			t.Errorf("one task has failed: %s", r.body)
		}
		s.call("POST", "/v1/workflows/b/retry", "").want(200)
		s.settle(s.takeNode("mail", "b", "members"), "done", "")
		s.settle(s.takeNode("sent", "b", "on_success"), "done", "")
		if r = s.call("GET", "/v1/batches/b?wait=50s", "").want(200); r.get("batch", "status") != "succeeded" || r.get("batch", "succeeded") != 2.0 {
			t.Errorf("after the retry: %s", r.body)
		}
		s.call("POST", "/v1/batches/b/tasks", `{"tasks":[{"type":"mail"}]}`).problem(409, "wrong-state")
		s.call("POST", "/v1/workflows", `{"id":"w","nodes":[{"name":"n","task":{"type":"mail"}}]}`).want(201)
		s.call("GET", "/v1/batches/w", "").problem(404, "workflow-not-found")
		if r := s.call("POST", "/v1/batches", `{"id":"empty","tasks":[],"on_success":{"type":"none"}}`).want(201); r.get("batch", "members") != "succeeded" {
			t.Errorf("an empty batch: %s", r.body)
		}
		s.settle(s.takeNode("none", "empty", "on_success"), "done", "")
	})
}

// Tasks can be added to an open batch until it is closed.
func TestOpenBatch(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		s.call("POST", "/v1/batches", `{"id":"b","open":true,"on_end":{"type":"report"}}`).want(201)
		const tasks = `{"tasks":[{"type":"mail","id":"1","payload":1,"retention":"1h"},{"type":"mail","id":"2","retention":"1h"},{"type":" "},{"type":"mail","group":"g"}]}`
		for _, created := range []bool{true, false} { // the second changes nothing
			r := s.call("POST", "/v1/batches/b/tasks", tasks).want(200)
			if r.get("results", 0, "created") != created || r.get("results", 1, "task", "id") != "2" {
				t.Errorf("added: %s", r.body)
			}
			for i, pointer := range map[int]string{2: "/tasks/2/type", 3: "/tasks/3/group"} {
				if r.get("results", i, "problem", "errors", 0, "pointer") != pointer {
					t.Errorf("task %d: %s", i, r.body)
				}
			}
		}
		r := s.call("POST", "/v1/batches/b/tasks", `{"tasks":[{"type":"mail","id":"1","payload":"other"}]}`).want(200)
		if r.get("results", 0, "problem", "type") != "urn:asynq:problem:task-id-conflict" {
			t.Errorf("another task with the ID: %s", r.body)
		}
		for range 2 {
			s.settle(s.takeNode("mail", "b", "members"), "done", "")
		}
		if r := s.call("GET", "/v1/batches/b?wait=1s", "").want(200); r.get("batch", "open") != true || r.get("batch", "total") != 2.0 || r.get("batch", "status") != "running" {
			t.Errorf("open: %s", r.body)
		}
		for range 2 {
			if r := s.call("POST", "/v1/batches/b/close", "").want(200); r.get("batch", "open") != false {
				t.Errorf("closed: %s", r.body)
			}
		}
		s.settle(s.takeNode("report", "b", "on_end"), "done", "")
		s.call("POST", "/v1/batches/none/tasks", `{"tasks":[]}`).problem(404, "workflow-not-found")
		s.call("POST", "/v1/batches/none/close", "").problem(404, "workflow-not-found")
	})
}

// A token that has no access to one of the queues can neither create nor read a workflow.
func TestWorkflowQueues(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	const nodes = `"nodes":[{"name":"a","task":{"type":"email:a"}},{"name":"b","tasks":[{"type":"email:b"},{"type":"sms"}],"after":["a"]}]}`
	s.callAs(email, "POST", "/v1/workflows", `{"id":"w",`+nodes).problem(403, "forbidden")
	for _, batch := range []string{
		`{"id":"w","tasks":[{"type":"sms"}]}`, `{"id":"w","tasks":[],"on_end":{"type":"sms"}}`, `{"id":"w","open":true,"on_success":{"type":"x","queue":"sms"}}`,
	} {
		s.callAs(email, "POST", "/v1/batches", batch).problem(403, "forbidden")
	}
	s.call("GET", "/v1/workflows/w", "").problem(404, "workflow-not-found") // nothing was created
	s.call("POST", "/v1/workflows", `{"id":"w",`+nodes).want(201)
	s.call("POST", "/v1/batches", `{"id":"b","open":true,"on_end":{"type":"sms"}}`).want(201)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/workflows/w", ""},
		{"POST", "/v1/workflows", `{"id":"w","nodes":[{"name":"a","task":{"type":"email:a"}}]}`},
		{"POST", "/v1/workflows/w/cancel", ""},
		{"POST", "/v1/workflows/w/retry", ""},
		{"POST", "/v1/workflows/w/nodes/a/skip", ""},
		{"GET", "/v1/workflows/w/nodes/a/result", ""},
		{"GET", "/v1/batches/b", ""},
		{"POST", "/v1/batches/b/tasks", `{"tasks":[]}`},
		{"POST", "/v1/batches/b/close", ""},
	} {
		s.callAs(email, c.method, c.path, c.body).problem(403, "forbidden")
	}
	s.callAs(email, "POST", "/v1/batches", `{"id":"mine","open":true}`).want(201)
	r := s.callAs(email, "POST", "/v1/batches/mine/tasks", `{"tasks":[{"type":"sms"},{"type":"email:a"}]}`).want(200)
	if r.get("results", 0, "problem", "type") != "urn:asynq:problem:forbidden" || r.get("results", 1, "created") != true {
		t.Errorf("added: %s", r.body)
	}

	only := newEnv(t, s.redis, func(c *service.Config) {
		c.OnlyQueues, c.Queues = true, map[string]service.QueueConfig{"email:a": {}, "email:b": {}}
	})
	only.call("POST", "/v1/workflows", `{"id":"x",`+nodes).problem(404, "queue-not-found")
	only.call("GET", "/v1/workflows/w", "").problem(404, "workflow-not-found")
	only.call("GET", "/v1/batches/mine", "").want(200)
}

// A request that waits for a workflow gets nothing after its token has lost its access.
func TestReloadRevokesTokenOfWaitForWorkflow(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	s.call("POST", "/v1/workflows", `{"id":"w","nodes":[{"name":"a","task":{"type":"email:a"}}]}`).want(201)
	var group sync.WaitGroup
	group.Go(func() { s.callAs(email, "GET", "/v1/workflows/w?wait=50s", "").problem(401, "unauthorized") })
	proctest.Eventually(t, "a request to wait", func() bool { return s.service.Waiting() == 1 })
	if err := s.service.Reload(service.Config{Tokens: tokens()[:1]}); err != nil {
		t.Fatal(err)
	}
	s.call("POST", "/v1/workflows/w/cancel", "").want(200)
	group.Wait()
	s.call("POST", "/v1/workflows", `{"id":"w3","nodes":[{"name":"a","task":{"type":"email:a"}}]}`).want(201)
	if r := s.call("GET", "/v1/workflows/w3?wait=100ms", "").want(200); r.str("workflow", "status") != "running" {
		t.Errorf("after the wait: %s", r.body)
	}
}

// Problems name the invalid field.
func TestInvalidWorkflows(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.Limits.MaxBatch = 50 })
	const task = `"task":{"type":"t"}`
	node := func(more string) string { return `{"id":"x","nodes":[{"name":"a",` + task + `},{` + more + `}]}` }
	for _, c := range []struct{ path, body, pointer, detail string }{
		{"workflows", `{"nodes":[{"name":"a",` + task + `}]}`, "/id", "blank"},
		{"workflows", `{"id":"}","nodes":[{"name":"a",` + task + `}]}`, "/id", "brace"},
		{"workflows", `{"id":"` + strings.Repeat("x", 201) + `","nodes":[{"name":"a",` + task + `}]}`, "/id", "200 bytes"},
		{"workflows", `{"id":"x"}`, "/nodes", "at least one node"},
		{"workflows", `{"id":"x","retention":"0s","nodes":[{"name":"a",` + task + `}]}`, "/retention", "greater than zero"},
		{"workflows", node(task), "/nodes/1/name", "blank"},
		{"workflows", node(`"name":"a:b",` + task), "/nodes/1/name", "colon"},
		{"workflows", node(`"name":"a",` + task), "/nodes/1/name", `another node has the name "a"`},
		{"workflows", node(`"name":"b"`), "/nodes/1/task", "either task or tasks"},
		{"workflows", node(`"name":"b","tasks":[],` + task), "/nodes/1/task", "either task or tasks"},
		{"workflows", node(`"name":"b","after":["a","c"],` + task), "/nodes/1/after/1", "a node before this one"},
		{"workflows", node(`"name":"b","after":["b"],` + task), "/nodes/1/after/0", "a node before this one"},
		{"workflows", node(`"name":"b","after_end":["a","a"],` + task), "/nodes/1/after_end/1", "duplicate"},
		{"workflows", node(`"name":"b","after_failure":[""],` + task), "/nodes/1/after_failure/0", "a node before this one"},
		{"workflows", node(`"name":"b","on_dependency_failure":"stop",` + task), "/nodes/1/on_dependency_failure", "block, cancel or ignore"},
		{"workflows", node(`"name":"b","task":{"type":""}`), "/nodes/1/task/type", "blank"},
		{"workflows", node(`"name":"b","task":{"type":"t","queue":"}"}`), "/nodes/1/task/queue", "}"},
		{"workflows", node(`"name":"b","task":{"type":"t","max_retry":-1}`), "/nodes/1/task/max_retry", "negative"},
		{"workflows", node(`"name":"b","task":{"type":"t","id":"1"}`), "/nodes/1/task/id", "not supported"},
		{"workflows", node(`"name":"b","task":{"type":"t","idempotency_key":"1"}`), "/nodes/1/task/idempotency_key", "not supported"},
		{"workflows", node(`"name":"b","tasks":[{"type":"t"},{"type":"t","unique_for":"1h"}]`), "/nodes/1/tasks/1/unique_for", "not supported"},
		{"workflows", node(`"name":"b","task":{"type":"t","process_in":"2h","expires_in":"1h"}`), "/nodes/1/task", "expires"},
		{"batches", `{"tasks":[]}`, "/id", "blank"},
		{"batches", `{"id":"x"}`, "/tasks", "required"},
		{"batches", `{"id":"x","open":true,"tasks":[]}`, "/tasks", "not allowed with open"},
		{"batches", `{"id":"x","tasks":[{"type":"t"},{"type":"t","group":"g"}]}`, "/tasks/1/group", "not supported"},
		{"batches", `{"id":"x","tasks":[],"on_end":{"type":"t","debounce":{"key":"a","quiet":"1s"}}}`, "/on_end/debounce", "not supported"},
		{"batches", `{"id":"x","open":true,"on_success":{}}`, "/on_success/type", "blank"},
		{"batches", `{"id":"x","open":true,"retention":"0s"}`, "/retention", "greater than zero"},
	} {
		r := s.call("POST", "/v1/"+c.path, c.body).problem(400, "invalid-request")
		if len(r.list("errors")) != 1 || r.str("errors", 0, "pointer") != c.pointer || !strings.Contains(r.str("errors", 0, "detail"), c.detail) {
			t.Errorf("%s %s: %s", c.path, c.body, r.body)
		}
		for _, prefix := range []string{"asynq: ", "flow: "} {
			if strings.Contains(string(r.body), prefix) {
				t.Errorf("the problem contains %q: %s", prefix, r.body)
			}
		}
	}
	many := strings.Repeat(`{"type":"t"},`, 50) + `{"type":"t"}`
	s.call("POST", "/v1/workflows", `{"id":"x","nodes":[{"name":"a","tasks":[`+many+`]}]}`).problem(413, "too-large")
	s.call("POST", "/v1/batches", `{"id":"x","tasks":[`+many+`]}`).problem(413, "too-large")
	s.call("POST", "/v1/workflows", `{"id":"x","nodes":[`+strings.Repeat(`{},`, 2000)+`{}]}`).problem(413, "too-large")
	wrong := s.call("POST", "/v1/workflows", `{"id":"x","nodes":[`+strings.Repeat(`{},`, 40)+`{}]}`).problem(400, "invalid-request")
	if n := len(wrong.list("errors")); n != 20 {
		t.Errorf("%d errors, want 20", n)
	}
	s.call("GET", "/v1/workflows/x", "").problem(404, "workflow-not-found")
}
