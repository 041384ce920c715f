package service_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/web"
)

// operations returns all operations of the OpenAPI document with their required scopes; empty if
// none is required.
func operations(t *testing.T, s *env) map[string]string {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Summary  string    `json:"summary"`
			Security *[]any    `json:"security"`
			Body     *struct{} `json:"requestBody"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(s.callAs("", "GET", "/openapi.json", "").want(200).body, &doc); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for path, item := range doc.Paths {
		for method, op := range item {
			_, scope, _ := strings.Cut(op.Summary, "Scope: ")
			if (scope == "") != (op.Security != nil) {
				t.Errorf("%s %s: the summary and the security differ", method, path)
			}
			found[strings.ToUpper(method)+" "+path] = strings.TrimSuffix(scope, ".")
		}
	}
	return found
}

// Every documented operation exists and requires exactly its documented scope; every route is
// documented.
func TestScopes(t *testing.T) {
	t.Parallel()
	scopes := []service.Scope{service.Enqueue, service.Work, service.Read, service.Manage}
	s := newEnv(t, fakeRedis(t), func(c *service.Config) {
		for _, scope := range scopes {
			c.Tokens = append(c.Tokens, service.Token{Name: string(scope), Secret: strings.Repeat(string(scope), 4), Scopes: []service.Scope{scope}, Queues: []string{"*"}})
		}
	})
	found := operations(t, s)
	if len(found) < 36 {
		t.Fatalf("only %d operations", len(found))
	}
	for op, needs := range found {
		method, path, _ := strings.Cut(op, " ")
		path = strings.NewReplacer("{queue}", "q", "{id}", "1", "{lease}", "x", "{node}", "n").Replace(path)
		if needs == "" {
			s.callAs("", method, path, "").want(200)
			continue
		}
		s.callAs("", method, path, "").problem(401, "unauthorized")
		r := s.callAs(strings.Repeat("wrong", 5), method, path, "").problem(401, "unauthorized")
		if r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", op)
		}
		for _, scope := range scopes {
			r := s.callAs(strings.Repeat(string(scope), 4), method, path, "")
			if refused := r.status == http.StatusForbidden; refused == (string(scope) == needs) {
				t.Errorf("%s with scope %s: status %d: %s", op, scope, r.status, r.body)
			}
		}
		other := map[string]string{"GET": "DELETE", "POST": "DELETE", "DELETE": "PATCH"}[method]
		if r := s.call(other, path, ""); r.status == http.StatusMethodNotAllowed {
			if r.problem(405, "method-not-allowed"); !strings.Contains(r.header.Get("Allow"), method) {
				t.Errorf("%s: allowed %q", path, r.header.Get("Allow"))
			}
		}
	}
	for _, pattern := range s.service.Patterns() {
		if _, ok := found[pattern]; !ok {
			t.Errorf("the document lacks %s", pattern)
		}
	}
	if len(s.service.Patterns()) != len(found) {
		t.Errorf("%d routes, %d operations", len(s.service.Patterns()), len(found))
	}
	s.call("GET", "/v2/tasks", "").problem(404, "not-found")
}

func TestTokenQueues(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	s.enqueue("email:a", 1, "")
	s.enqueue("sms", 1, "")
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/tasks", `{"type":"sms"}`},
		{"POST", "/v1/tasks", `{"type":"email:a","queue":"email"}`},
		{"GET", "/v1/queues/sms", ""},
		{"POST", "/v1/queues/sms/pause", ""},
		{"POST", "/v1/queues/sms/resume", ""},
		{"GET", "/v1/queues/sms/tasks/1", ""},
		{"DELETE", "/v1/queues/sms/tasks/1", ""},
		{"POST", "/v1/queues/sms/tasks/1/run", ""},
		{"POST", "/v1/queues/sms/tasks/1/archive", ""},
		{"POST", "/v1/queues/sms/tasks/1/cancel", ""},
		{"POST", "/v1/queues/sms/tasks/1/reschedule", `{"in":"1s"}`},
		{"POST", "/v1/take", `{"queues":["sms"]}`},
		{"GET", "/metrics", ""},
	} {
		s.callAs(email, c.method, c.path, c.body).problem(403, "forbidden")
	}
	if r := s.callAs(email, "GET", "/v1/queues", "").want(200); len(r.list("queues")) != 1 || r.str("queues", 0, "name") != "email:a" {
		t.Errorf("queues: %s", r.body)
	}
	l, _ := s.take("sms", 1, "50s")
	for _, path := range []string{"extend", "done", "fail", "release"} {
		s.callAs(email, "POST", "/v1/leases/"+l[0]+"/"+path, "").problem(403, "forbidden")
	}
	if r := s.callAs(email, "POST", "/v1/leases/settle", `{"outcomes":[{"lease":"`+l[0]+`","outcome":"done"}]}`).want(200); r.str("results", 0, "problem", "type") != "urn:asynq:problem:forbidden" {
		t.Errorf("settled: %s", r.body)
	}
	if got := s.state("sms", "1"); got != "active" {
		t.Errorf("state %s", got)
	}
}

func TestHashedSecretAndRateLimit(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("a secret that is hashed"))
	change := func(c *service.Config) {
		c.Limits.RatePerToken, c.Limits.Burst = 0.01, 2
		c.Tokens = append(c.Tokens, service.Token{Name: "hashed", SHA256: strings.ToUpper(hex.EncodeToString(sum[:])), Scopes: []service.Scope{service.Read}, Queues: []string{"*"}, Rate: 1000})
	}
	s := newEnv(t, fakeRedis(t), change)
	for range 2 {
		s.call("GET", "/v1/queues", "").want(200)
	}
	r := s.call("GET", "/v1/queues", "").problem(429, "too-many-requests")
	if after, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || after < 90 || after > 101 {
		t.Errorf("retry after %q", r.header.Get("Retry-After"))
	}
	for range 10 {
		s.callAs("a secret that is hashed", "GET", "/v1/queues", "").want(200)
	}
	// A reload does not reset the rate limit.
	cfg := service.Config{Tokens: tokens()}
	change(&cfg)
	if err := s.service.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	s.call("GET", "/v1/queues", "").problem(429, "too-many-requests")
}

// Payloads, secrets and leases are never logged.
func TestLogContainsNoSecrets(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	s.call("POST", "/v1/tasks", `{"type":"q","id":"1","payload":"sesame","headers":{"h":"sesame"}}`).want(201)
	s.call("POST", "/v1/tasks", `{"type":"q","id":"1","payload":"sesame2"}`).problem(409, "task-id-conflict")
	s.callAs("sesame-sesame-sesame", "GET", "/v1/queues", "").want(401)
	l, _ := s.take("q", 1, "50s")
	s.call("POST", "/v1/leases/"+l[0]+"/done", `{"result":"sesame"}`).want(200)
	s.call("POST", "/v1/tasks", `{"type":"q","id":"2","process_in":"1h"}`).want(201)
	s.call("DELETE", "/v1/queues/q/tasks/2", "").want(204)
	log := s.log.String()
	for _, secret := range []string{"sesame", all, l[0]} {
		if strings.Contains(log, secret) {
			t.Errorf("the log contains %q:\n%s", secret, log)
		}
	}
	for _, line := range []string{
		"level=DEBUG msg=audit action=task.enqueue token=all queue=q task=1", "level=INFO msg=audit action=task.delete token=all queue=q task=2",
		`level=WARN msg="unknown token"`,
	} {
		if !strings.Contains(log, line) {
			t.Errorf("the log lacks %s:\n%s", line, log)
		}
	}
}

func TestMetricsHealthAndUI(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), func(c *service.Config) { c.UI = &web.Options{Anonymous: web.Viewer} })
	s.enqueue("q", 3, "")
	if r := s.call("GET", "/metrics", "").want(200); !strings.Contains(string(r.body), `asynq_queue_size{queue="q"} 3`) {
		t.Errorf("metrics: %s", r.body)
	}
	s.callAs("", "GET", "/readyz", "").want(200)
	s.callAs("", "GET", "/ui/", "").want(200)
	s.shutdown()
	s.callAs("", "GET", "/readyz", "").want(503)
	s.callAs("", "GET", "/healthz", "").want(200)
	s.call("GET", "/v1/queues", "").problem(503, "unavailable")
}

func TestNotReadyWithoutRedis(t *testing.T) {
	t.Parallel()
	s := newEnv(t, asynq.RedisClientOpt{Addr: "127.0.0.1:1", Params: "max_retries=-1"}, nil)
	s.callAs("", "GET", "/readyz", "").want(503)
	s.callAs("", "GET", "/healthz", "").want(200)
	r := s.call("POST", "/v1/tasks", `{"type":"t"}`).problem(503, "redis")
	if r.header.Get("Retry-After") == "" || strings.Contains(string(r.body), "127.0.0.1") {
		t.Errorf("response: %v %s", r.header, r.body)
	}
}

// /readyz must not wait for the timeout of an unresponsive connection.
func TestNotReadyWithUnresponsiveRedis(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newEnv(t, asynq.RedisClientOpt{Addr: l.Addr().String(), ReadTimeout: time.Minute, Params: "max_retries=-1"}, nil)
	began := time.Now()
	s.callAs("", "GET", "/readyz", "").want(503)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// docs/SERVICE_API.md documents every kind of problem.
func TestDocumentedProblems(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/SERVICE_API.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("internal/api/problem.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && strings.HasPrefix(name, "Kind") && !strings.Contains(string(page), "`"+strings.Trim(strings.TrimSpace(value), `"`)+"`") {
			t.Errorf("docs/SERVICE_API.md lacks %s", value)
		}
	}
}
