package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
)

// variables is the environment of the tests.
var variables = map[string]string{
	"REDIS_PASSWORD": "hunter2-redis", "SHOP_TOKEN": "shop-0123456789abcdef", "OPERATIONS_TOKEN": "ops-0123456789abcdef", "EMPTY": "",
	"PARTNER_SECRET": "partner-0123456789abcdef", "PARTNER_SECRET_NEXT": "partner-fedcba9876543210", "PARTNER_TOKEN": "t", "UI_PASSWORD": "correct horse",
}

func env(name string) (string, bool) {
	value, ok := variables[name]
	return value, ok
}

// write writes a file that only its owner can read, and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// minimal is a configuration with only the required keys.
const minimal = "redis: {uri: 'redis://localhost'}\ntokens: [{name: a, secret: '${SHOP_TOKEN}', scopes: [read], queues: ['*']}]\n"

func TestExample(t *testing.T) {
	t.Parallel()
	noEnv := func(string) (string, bool) { return "", false }
	f, err := load("../../../../docs/service.example.yaml", noEnv)
	if err != nil {
		t.Fatal(err)
	}
	c, h := f.Service(), f.Hosted()
	documented := 0
	for _, w := range f.Warnings() {
		if strings.Contains(w.Text, "a secret from the documentation: replace it") {
			documented++
		}
	}
	if documented != 2 {
		t.Errorf("%d warnings about documented secrets, want 2: %v", documented, f.Warnings())
	}
	if q := c.Queues["email:welcome"]; q.Weight != 3 || *q.MaxRetry != 5 || *q.Timeout != 30*time.Second || *q.Retention != 24*time.Hour || q.Archive != (asynq.ArchiveConfig{MaxTasks: 1000}) {
		t.Errorf("queue: %+v", q)
	}
	if c.Archive != (asynq.ArchiveConfig{MaxTasks: 10000, MaxAge: 90 * 24 * time.Hour}) {
		t.Errorf("archive: %+v", c.Archive)
	}
	if p := c.Queues["hooks"].Partitions; p == nil || *p != (asynq.PartitionConfig{Concurrency: 3, Rate: asynq.RateLimit{Events: 100, Per: time.Minute, Burst: 10}}) {
		t.Errorf("partitions: %+v", p)
	}
	if !c.Queues["orders"].InOrder || *c.Queues["orders"].MaxRetry != 5 || !c.OnlyQueues {
		t.Errorf("queues: %+v", c.Queues)
	}
	if c.TaskQueues["order:*"] != "orders" || c.TaskQueues["partner:order"] != "partner" || c.TaskQueues["command:report"] != "commands" {
		t.Errorf("task queues: %v", c.TaskQueues)
	}
	if c.Tokens[0].Secret == "" || len(c.Tokens[1].SHA256) != 64 || len(c.Tokens[2].Scopes) != 4 || c.Tokens[1].Scopes[0] != service.Work || c.Tokens[1].Rate != 100 {
		t.Errorf("tokens: %v", c.Tokens)
	}
	want := service.Limits{
		MaxBody: 8 << 20, MaxBatch: 1000, MaxTake: 100, MaxWait: time.Minute, MaxWaiting: 10000, RatePerToken: 1000, Burst: 2000,
		LeaseDuration: 30 * time.Second, AttemptLog: 20, ShutdownTimeout: 10 * time.Second,
	}
	if c.Limits != want {
		t.Errorf("limits: %+v", c.Limits)
	}
	if c.UI == nil || c.UI.RootPath != "/ui" || c.UI.Users[0].Password == "" || c.NoMetrics {
		t.Errorf("UI: %+v", c.UI)
	}
	e := h.Endpoints["partner:order"]
	if len(e.Secrets) != 2 || e.Headers["Authorization"] != "Bearer replace-this-token" || e.MaxResponse != 64<<10 || !e.SnoozeWhenBusy || e.RetryClientErrors || e.MaxRedirects != 2 {
		t.Errorf("endpoint: %+v", e)
	}
	if h.Concurrency != 10 || h.AttemptLog != 20 {
		t.Errorf("hosted: %+v", h)
	}
	cmd := h.Commands["command:report"]
	if len(cmd.Params) != 2 || cmd.Params[0].Flag != "--format=" || !cmd.Params[1].Required || !cmd.Separator || !slices.Equal(cmd.Exit.Archive, []int{64, 65}) || cmd.Args[0] != `%s\n` {
		t.Errorf("command: %+v", cmd)
	}
	if h.Commands["command:sum"].List.Max != 10 {
		t.Errorf("list: %+v", h.Commands["command:sum"].List)
	}
}

func TestMinimalFile(t *testing.T) {
	t.Parallel()
	f, err := load(write(t, minimal), env)
	if err != nil {
		t.Fatal(err)
	}
	if h := f.Hosted(); len(f.Warnings()) > 0 || f.Service().UI != nil || len(h.Queues()) > 0 {
		t.Errorf("got %v, %v", f, err)
	}
}

// All errors are reported at once, each with its position.
func TestErrors(t *testing.T) {
	t.Parallel()
	name := write(t, `redis: {uri: "http://x", pasword: "secret-secret"}
listen: 8600
tls: {cert: none.pem}
queues:
  a: {max_run: x, weight: -1}
  b: {max_run: -1}
  b: {}
  c: 5
  "}": {}
only_queues: true
task_queues: {"x*y": a, "m:*": nowhere}
tokens:
  - {name: a, secret: short-secret, scopes: [read], queues: ["*"]}
  - {name: b, secret: "${NONE}", scopes: [read], queues: ["*"]}
  - {name: c, scopes: [read], queues: ["*"]}
  - {name: d, env: EMPTY, scopes: [read], queues: ["*"]}
  - {name: e, file: none, scopes: [read], queues: ["*"]}
  - {name: f, secret: "${SHOP_TOKEN}", sha256: x, scopes: [read], queues: ["*"]}
  - {name: g, secret: "${SHOP_TOKEN}", scopes: [reed], queues: ["*"]}
  - {name: h, secret: "${OPERATIONS_TOKEN}", scopes: [read], queues: ["a*b"]}
limits: {max_body: 8 apples, max_wait: 30, max_take: 501, burst: -1, max_batch: 1.5}
hosted:
  concurrency: 0
  http:
    allow_hosts: ["http://x"]
    allow_networks: [10.0.0.1/99]
    endpoints:
      hook:
        url: ftp://x
        secret: short
        client_errors: explode
      other: {url: "https://other.example", secret: "${PARTNER_SECRET}", queue: lost}
  cmd:
    commands:
      run:
        queue: a
        path: bin/run
        list: {pattern: "("}
        output: loud
        exit: {done: [300], others: die}
      hook: {path: /bin/true, queue: a}
ui: {anonymous: king}
metrics: maybe
extra: 1
`)
	_, err := load(name, env)
	var got Errors
	if !errors.As(err, &got) {
		t.Fatalf("got %v", err)
	}
	want := []struct {
		at, text string
	}{
		{"1:", `unknown key "pasword": did you mean "password"?`},
		{"2:9", "not an address"},
		{"3:6", "both cert and key"},
		{"1:14", "URI"},
		{"5:6", "weight -1 is negative"},
		{"5:16", "not an integer"},
		{"6:6", "max_run -1 is negative"},
		{"7:3", "also in line 6"},
		{"8:6", "must be a mapping"},
		{"9:3", "must not begin with }"},
		{"11:15", "not a type pattern"},
		{"11:32", `"nowhere" is not under queues`},
		{"13:5", "shorter than 16"},
		{"14:23", `"NONE" is not set`},
		{"15:5", "secret is missing"},
		{"16:20", `"EMPTY" is not set or empty`},
		{"17:21", "cannot read the secret"},
		{"18:5", "more than one of"},
		{"19:5", `unknown scope "reed"`},
		{"20:5", "not a queue pattern"},
		{"21:20", "not a size"},
		{"21:40", "use a unit"},
		{"21:54", "must be at most 500"},
		{"21:66", "must not be negative"},
		{"21:81", "not an integer"},
		{"23:16", "from 1 to 10000"},
		{"25:19", "is not a host"},
		{"26:22", "not a network"},
		{"29:14", "scheme"},
		{"30:17", "shorter than 16"},
		{"31:24", "archive or retry"},
		{"32:20", "not in allow_hosts"},
		{"32:7", `"lost" is not under queues`},
		{"34:5", "under http as well"},
		{"37:15", "not absolute"},
		{"38:25", "not a regular expression"},
		{"39:17", "use stdout or all"},
		{"40:23", "not an exit code"},
		{"40:37", "use retry or archive"},
		{"42:17", "unknown role"},
		{"43:10", "not a boolean"},
		{"44:1", "unknown key"},
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(i Issue) bool {
			return strings.HasPrefix(i.String(), name+":"+w.at) && strings.Contains(i.Text, w.text)
		}) {
			t.Errorf("no error %q at %s", w.text, w.at)
		}
	}
	if t.Failed() || len(got) != len(want) {
		t.Errorf("%d errors, want %d:\n%v", len(got), len(want), err)
	}
	for _, hidden := range []string{"secret-secret", "short-secret", "shop-0123"} {
		if strings.Contains(err.Error(), hidden) {
			t.Errorf("the errors contain %q", hidden)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   ":1:1: redis is missing",
		"redis: [":                           "invalid YAML",
		"a: b: c":                            ":1:1: invalid YAML",
		"- a":                                ":1:1: must be a mapping, not a list",
		minimal + "---\n" + minimal:          "unexpected second YAML document",
		minimal + "queues: {<<: {a: {}}}":    "merge keys (<<) are not supported",
		minimal + "queues: &a {x: *a}":       ``,
		minimal + "queues: {x: *nothing}":    "unknown anchor",
		minimal + "limits: {max_wait: }":     "the value is missing",
		minimal + "queues: {? [a, b] : {}}":  "a key must be a string",
		minimal + strings.Repeat("#", 1<<20): "longer than 1 MiB",
		strings.Replace(minimal, "[read]", "[read]\n", 1) + "tokens: []": "also in line 2",
	} {
		_, err := load(write(t, text), env)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100q: got %v, want %q", text, err, want)
		}
	}
	if _, err := load(filepath.Join(t.TempDir(), "none"), env); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// Each error is reported once, at its position: the default of a value that cannot be read is not
// validated.
func TestErrorsAreReportedOnce(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"queues: {a: {timeout: -5s}}":                                                 {"3:23: -5s is negative"},
		"queues: {a: {max_retry: 2147483648}}":                                        {`3:13: queue "a": max_retry 2147483648 exceeds`},
		"queues: {a: {weight: 0}}":                                                    {"3:22: must be greater than zero"},
		"archive: {max_tasks: -1}":                                                    {"3:10: archive: max_tasks -1 is negative"},
		"archive: {max_age: 0s, max_tasks: 0}":                                        {"3:20: must be greater", "3:35: must be greater"},
		"queues: {a: {archive: {max_tasks: -1}}}":                                     {`3:13: queue "a": archive: max_tasks -1`},
		"queues: {a: {partitions: {max_run: 2000}}}":                                  {`3:13: queue "a": partitions: the Concurrency of a partition must be at most 1,000, not 2000`},
		"queues: {a: {partitions: {burst: 5}}}":                                       {"3:26: per and burst need rate"},
		"queues: {a: {in_order: true, partitions: {}}}":                               {`3:13: queue "a": in_order orders the whole queue and excludes partitions`},
		"queues: {a: {partitions: {weight: 0}}}":                                      {"3:35: must be greater than zero"},
		"hosted: {attempt_log: -1}":                                                   {"3:23: must not be negative"},
		"hosted: {concurrency: many}":                                                 {`3:23: "many" is not an integer`},
		"listen: [a]":                                                                 {"3:9: must be a scalar"},
		"ui: {anonymous: [a]}":                                                        {"3:17: must be a scalar"},
		"ui: {path: /v1, anonymous: viewer}":                                          {"3:12: the service itself uses the path /v1"},
		"ui: {path: /v1/x, anonymous: viewer}":                                        {"3:12: the service itself uses the path /v1/x"},
		"ui: {path: /metrics, anonymous: viewer}":                                     {"3:12: the service itself uses the path /metrics"},
		"tls: {cert: [a], key: b}":                                                    {"3:13: must be a scalar"},
		"limits: {lease_duration: 1ms}":                                               {"3:26: 1ms is too short"},
		"limits: {lease_duration: 999ms}":                                             {"3:26: 999ms is too short"},
		"limits: {max_wait: 0s, max_body: 0, burst: 0}":                               {"3:20: must be greater", "3:34: must be greater", "3:44: must be greater"},
		"limits: {rate_per_token: 0.0, max_take: 0}":                                  {"3:26: must be greater", "3:41: must be greater"},
		"hosted: {http: {allow_networks: [[a]]}}":                                     {"3:34: must be a scalar"},
		"hosted: {cmd: {commands: {a: {path: [b]}}}}":                                 {"3:37: must be a scalar"},
		"hosted: {cmd: {commands: {a: {path: /bin/true, grace: -1s}}}}":               {"3:55: -1s is negative"},
		"hosted: {cmd: {commands: {a: {path: /bin/true, grace: 0s, max_output: 0}}}}": {"3:55: must be greater", "3:71: must be greater"},
		"hosted: {http: {endpoints: {a: {url: 'https://x', secret: '${NONE}'}}}}":     {`3:59: the environment variable "NONE"`},
		"hosted: {http: {endpoints: {a: {url: 'https://x', secret: '${SHOP_TOKEN}', timeout: [1s]}}}}": {"3:85: must be a scalar"},
		"listen: \"*x\" # *x\nqueues:\n  a: *x\n":                                                      {"5:6: invalid YAML: unknown anchor 'x'"},
		"queues: {a: { timeout: *xx, weight: *x }}\n":                                                  {"3:24: invalid YAML: unknown anchor 'xx'"},
	} {
		_, err := load(write(t, minimal+name), env)
		var got Errors
		_ = errors.As(err, &got)
		if len(got) != len(want) {
			t.Errorf("%s: %d errors, want %d: %v", name, len(got), len(want), err)
			continue
		}
		for i, issue := range got {
			if text := strings.TrimPrefix(issue.String(), issue.File+":"); !strings.HasPrefix(text, want[i]) {
				t.Errorf("%s: got %s, want %s", name, text, want[i])
			}
		}
	}
	_, err := load(write(t, "redis: 5\ntokens: 5\n"), env)
	if got := strings.Count(err.Error(), "\n") + 1; got != 2 {
		t.Errorf("%d errors: %v", got, err)
	}
	if _, err := load(write(t, minimal+"limits: {lease_duration: 1s}\nqueues: {a: {max_run: 0, timeout: 0s, max_retry: 0}}\nui: {path: /v1x, anonymous: viewer}\n"), env); err != nil {
		t.Error(err)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	name := write(t, "")
	dir := filepath.Dir(name)
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("from-a-file-0123456789\n"), 0o604); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "token"), 0o604); err != nil { // regardless of the umask
		t.Fatal(err)
	}
	text := `redis: {uri: 'redis://localhost'}
tokens:
  - {name: a, secret: "x-${SHOP_TOKEN}-$${SHOP_TOKEN}-$x", scopes: [read], queues: [a]}
  - {name: b, secret: file:token, scopes: [read], queues: [a]}
  - {name: c, secret: literal-0123456789, scopes: [read], queues: [a]}
  - {name: d, file: token, scopes: [read], queues: [a]}
`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := load(name, env)
	if err == nil || !strings.Contains(err.Error(), `:6:5: the token "b" has the same secret`) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(text, "  - {name: d, file: token, scopes: [read], queues: [a]}\n", "", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := load(name, env)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"x-shop-0123456789abcdef-${SHOP_TOKEN}-$x", "from-a-file-0123456789", "literal-0123456789"} {
		if got := f.Service().Tokens[i].Secret; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var warnings []string
	for _, w := range f.Warnings() {
		warnings = append(warnings, w.String())
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], ":4:23: ") || !strings.Contains(warnings[1], ":5:23: this file contains a secret") {
		t.Errorf("warnings: %q", warnings)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	f, err := load(write(t, `redis: {uri: "redis://localhost"}
listen: 0.0.0.0:8600
queues: {hook: {}}
only_queues: true
tokens:
  - {name: a, secret: "${SHOP_TOKEN}", scopes: [work], queues: ["h*", "nothing"]}
hosted:
  http:
    endpoints:
      hook: {url: "http://other.example"}
  cmd:
    commands:
      run: {path: /no/such/program, queue: hook}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range f.Warnings() {
		got = append(got, w.String())
	}
	for i, want := range []string{
		":2:9: tokens and tasks are sent without TLS", `:6:5: the token "a" may take tasks from the queue "hook"`,
		`:6:71: no queue under queues matches "nothing"`, ":10:13: requests are not signed", ":10:19: requests are sent without TLS", ":13:19: program not found on this machine",
	} {
		if i >= len(got) || !strings.Contains(got[i], want) {
			t.Errorf("warning %d: want %s", i, want)
		}
	}
	if t.Failed() || len(got) != 6 {
		t.Errorf("got %d:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile("../../../../docs/service.example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add(minimal)
	f.Add("a: &a [*a]")
	f.Add("queues: &q\n  q: *q\n")
	f.Fuzz(func(_ *testing.T, text string) {
		n, err := parse([]byte(text))
		if err != nil {
			return
		}
		d := &decoder{file: "f", dir: "/nonexistent", env: env}
		d.root(new(File), n)
	})
}

// Endpoints whose tasks would always fail are reported as warnings.
func TestUnreachableEndpointsAreReported(t *testing.T) {
	t.Parallel()
	f, err := load(write(t, `redis: {uri: "redis://localhost"}
tokens:
  - {name: a, secret: "${SHOP_TOKEN}", scopes: [read], queues: ["*"]}
hosted:
  http:
    allow_networks: [10.1.0.0/16]
    endpoints:
      a: {secret: "${SHOP_TOKEN}", url: "https://127.0.0.1:8443/x"}
      b: {secret: "${SHOP_TOKEN}", url: "http://localhost/x"}
      c: {secret: "${SHOP_TOKEN}", url: "https://[::ffff:10.2.0.1]/x"}
      d: {secret: "${SHOP_TOKEN}", url: "https://10.1.0.1/x"}
      e: {secret: "${SHOP_TOKEN}", url: "https://8.8.8.8/x"}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range f.Warnings() {
		if strings.Contains(w.String(), "not a public address") {
			got = append(got, strings.TrimPrefix(w.String(), w.File))
		}
	}
	if len(got) != 3 || !strings.Contains(got[0], ":8:41: ") || !strings.Contains(got[1], ":9:41: ") || !strings.Contains(got[2], ":10:41: ") {
		t.Errorf("got %q", got)
	}
}

func TestUnknownUser(t *testing.T) {
	t.Parallel()
	_, err := load(write(t, `redis: {uri: "redis://localhost"}
tokens:
  - {name: a, secret: "${SHOP_TOKEN}", scopes: [read], queues: ["*"]}
hosted:
  cmd:
    commands:
      a: {path: /bin/echo, user: no-such-user}
      b: {path: echo}
`), env)
	if err == nil || !strings.Contains(err.Error(), `:7:34: user "no-such-user" does not exist`) || !strings.Contains(err.Error(), ":8:17: ") {
		t.Errorf("got %v", err)
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]asynq.PartitionConfig{
		"{}":                               {},
		"{max_run: 3, weight: 2.5}":        {Concurrency: 3, Weight: 2.5},
		"{in_order: true}":                 {Ordered: true},
		"{by_type: true, rate: 5}":         {ByType: true, Rate: asynq.RateLimit{Events: 5, Per: time.Second}},
		"{rate: 5, per: 1500ms, burst: 4}": {Rate: asynq.RateLimit{Events: 5, Per: 1500 * time.Millisecond, Burst: 4}},
	} {
		f, err := load(write(t, minimal+"queues: {a: {partitions: "+text+"}, b: {}}\n"), env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		queues := f.Service().Queues
		if p := queues["a"].Partitions; p == nil || *p != want || queues["b"].Partitions != nil {
			t.Errorf("%s: got %+v, want %+v", text, p, want)
		}
	}
}
