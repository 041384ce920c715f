package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/service"
)

// variables of the tests' environment.
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

// least is a configuration of nothing but what is required.
const least = "redis: {uri: 'redis://localhost'}\ntokens: [{name: a, secret: '${SHOP_TOKEN}', scopes: [read], queues: ['*']}]\n"

func TestExample(t *testing.T) {
	t.Parallel()
	f, err := load("../../../../docs/service.example.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	c, h := f.Service(), f.Hosted()
	if q := c.Queues["mail"]; q.Weight != 3 || *q.MaxRetry != 5 || *q.Timeout != 30*time.Second || *q.Retention != 24*time.Hour {
		t.Errorf("queue: %+v", q)
	}
	if !c.Queues["orders"].InOrder || *c.Queues["orders"].MaxRetry != 5 || !c.OnlyQueues {
		t.Errorf("queues: %+v", c.Queues)
	}
	if c.TaskQueues["mail:*"] != "mail" || c.TaskQueues["partner:order"] != "partner" || c.TaskQueues["report"] != "reports" {
		t.Errorf("task queues: %v", c.TaskQueues)
	}
	if c.Tokens[0].Secret != variables["SHOP_TOKEN"] || c.Tokens[2].Secret != variables["OPERATIONS_TOKEN"] || c.Tokens[1].Scopes[0] != service.Work || c.Tokens[1].Rate != 100 {
		t.Errorf("tokens: %v", c.Tokens)
	}
	want := service.Limits{
		MaxBody: 8 << 20, MaxBatch: 1000, MaxTake: 100, MaxWait: time.Minute, MaxWaiting: 10000, RatePerToken: 1000, Burst: 2000,
		LeaseDuration: 30 * time.Second, ShutdownTimeout: 10 * time.Second,
	}
	if c.Limits != want {
		t.Errorf("limits: %+v", c.Limits)
	}
	if c.UI == nil || c.UI.RootPath != "/ui" || c.UI.Users[0].Password != variables["UI_PASSWORD"] || c.NoMetrics {
		t.Errorf("UI: %+v", c.UI)
	}
	e := h.Endpoints["partner:order"]
	if len(e.Secrets) != 2 || e.Headers["Authorization"] != "Bearer t" || e.MaxResponse != 64<<10 || !e.SnoozeWhenBusy || e.RetryClientErrors || e.MaxRedirects != 2 {
		t.Errorf("endpoint: %+v", e)
	}
	cmd := h.Commands["report"]
	if len(cmd.Params) != 2 || cmd.Params[0].Flag != "--format=" || !cmd.Params[1].Required || !cmd.Separator || !slices.Equal(cmd.Exit.Archive, []int{64, 65}) || cmd.Args[0] != `%s\n` {
		t.Errorf("command: %+v", cmd)
	}
	if h.Commands["report:sum"].List.Max != 10 {
		t.Errorf("list: %+v", h.Commands["report:sum"].List)
	}
}

func TestLeast(t *testing.T) {
	t.Parallel()
	f, err := load(write(t, least), env)
	if err != nil {
		t.Fatal(err)
	}
	if h := f.Hosted(); len(f.Warnings()) > 0 || f.Service().UI != nil || len(h.Queues()) > 0 {
		t.Errorf("got %v, %v", f, err)
	}
}

// Everything that is wrong is told at once, each where it is.
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
		{"1:", `"pasword" means nothing here: did you mean "password"?`},
		{"2:9", "no address"},
		{"3:6", "both a certificate and its key"},
		{"1:14", "URI"},
		{"5:6", "weight -1 is less than zero"},
		{"5:16", "no whole number"},
		{"6:6", "less than zero"},
		{"7:3", "in line 6 already"},
		{"8:6", "keys with values"},
		{"9:3", "must not begin with }"},
		{"11:15", "no pattern"},
		{"11:32", `"nowhere" is not under queues`},
		{"13:5", "shorter than 16"},
		{"14:23", `"NONE" is not set`},
		{"15:5", "secret is missing"},
		{"16:20", `"EMPTY" is not set, or empty`},
		{"17:21", "cannot be read"},
		{"18:5", "several places"},
		{"19:5", `no scope "reed"`},
		{"20:5", "no pattern of queues"},
		{"21:20", "no size"},
		{"21:40", "with a unit"},
		{"21:54", "at most 500"},
		{"21:66", "less than zero"},
		{"21:81", "no whole number"},
		{"23:16", "from 1 to 10000"},
		{"25:19", "is no host"},
		{"26:22", "no network"},
		{"29:14", "scheme"},
		{"30:17", "shorter than 16"},
		{"31:24", "archive or retry"},
		{"32:20", "not in allow_hosts"},
		{"32:7", `"lost" is not under queues`},
		{"34:5", "under http as well"},
		{"37:15", "not absolute"},
		{"38:25", "no regular expression"},
		{"39:17", "stdout or all"},
		{"40:23", "no exit code"},
		{"40:37", "retry or archive"},
		{"42:17", "no role"},
		{"43:10", "neither true nor false"},
		{"44:1", "means nothing here"},
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(i Issue) bool {
			return strings.HasPrefix(i.String(), name+":"+w.at) && strings.Contains(i.Text, w.text)
		}) {
			t.Errorf("there is no %q at %s", w.text, w.at)
		}
	}
	if t.Failed() || len(got) != len(want) {
		t.Errorf("%d errors, want %d:\n%v", len(got), len(want), err)
	}
	for _, hidden := range []string{"secret-secret", "short-secret", "shop-0123"} {
		if strings.Contains(err.Error(), hidden) {
			t.Errorf("the errors tell %q", hidden)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 ":1:1: redis is missing",
		"redis: [":                         "this is no YAML",
		"a: b: c":                          ":1:1: this is no YAML",
		"- a":                              ":1:1: here must be keys with values, not a list",
		least + "---\n" + least:            "a second document begins here",
		least + "queues: {<<: {a: {}}}":    "<< is not understood",
		least + "queues: &a {x: *a}":       ``,
		least + "queues: {x: *nothing}":    "unknown anchor",
		least + "limits: {max_wait: }":     "the value is missing",
		least + "queues: {? [a, b] : {}}":  "a key must be text",
		least + strings.Repeat("#", 1<<20): "longer than 1 MiB",
		strings.Replace(least, "[read]", "[read]\n", 1) + "tokens: []": "in line 2 already",
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

// What is wrong is told once, at its place: what stands in for a value that cannot be read is not judged as well.
func TestErrorsAreToldOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"queues: {a: {timeout: -5s}}":                                                 {"3:23: -5s is less than zero"},
		"queues: {a: {max_retry: 2147483648}}":                                        {`3:13: queue "a": max_retry 2147483648 is more than`},
		"queues: {a: {weight: 0}}":                                                    {"3:22: 0 would mean the default"},
		"hosted: {concurrency: many}":                                                 {`3:23: "many" is no whole number`},
		"listen: [a]":                                                                 {"3:9: here must be a single value"},
		"ui: {anonymous: [a]}":                                                        {"3:17: here must be a single value"},
		"ui: {path: /v1, anonymous: viewer}":                                          {"3:12: the service itself answers at /v1"},
		"ui: {path: /v1/x, anonymous: viewer}":                                        {"3:12: the service itself answers at /v1/x"},
		"ui: {path: /metrics, anonymous: viewer}":                                     {"3:12: the service itself answers at /metrics"},
		"tls: {cert: [a], key: b}":                                                    {"3:13: here must be a single value"},
		"limits: {lease_duration: 1ms}":                                               {"3:26: 1ms is too short"},
		"limits: {lease_duration: 999ms}":                                             {"3:26: 999ms is too short"},
		"limits: {max_wait: 0s, max_body: 0, burst: 0}":                               {"3:20: 0s would mean the default", "3:34: 0 would", "3:44: 0 would"},
		"limits: {rate_per_token: 0.0, max_take: 0}":                                  {"3:26: 0.0 would", "3:41: 0 would"},
		"hosted: {http: {allow_networks: [[a]]}}":                                     {"3:34: here must be a single value"},
		"hosted: {cmd: {commands: {a: {path: [b]}}}}":                                 {"3:37: here must be a single value"},
		"hosted: {cmd: {commands: {a: {path: /bin/true, grace: -1s}}}}":               {"3:55: -1s is less than zero"},
		"hosted: {cmd: {commands: {a: {path: /bin/true, grace: 0s, max_output: 0}}}}": {"3:55: 0s would", "3:71: 0 would"},
		"hosted: {http: {endpoints: {a: {url: 'https://x', secret: '${NONE}'}}}}":     {`3:59: the environment variable "NONE"`},
		"hosted: {http: {endpoints: {a: {url: 'https://x', secret: '${SHOP_TOKEN}', timeout: [1s]}}}}": {"3:85: here must be a single value"},
		"listen: \"*x\" # *x\nqueues:\n  a: *x\n":                                                      {"5:6: this is no YAML: unknown anchor 'x'"},
		"queues: {a: { timeout: *xx, weight: *x }}\n":                                                  {"3:24: this is no YAML: unknown anchor 'xx'"},
	} {
		_, err := load(write(t, least+text), env)
		var got Errors
		_ = errors.As(err, &got)
		if len(got) != len(want) {
			t.Errorf("%s: %d errors, want %d: %v", text, len(got), len(want), err)
			continue
		}
		for i, issue := range got {
			if told := strings.TrimPrefix(issue.String(), issue.File+":"); !strings.HasPrefix(told, want[i]) {
				t.Errorf("%s: got %s, want %s", text, told, want[i])
			}
		}
	}
	_, err := load(write(t, "redis: 5\ntokens: 5\n"), env)
	if got := strings.Count(err.Error(), "\n") + 1; got != 2 {
		t.Errorf("%d errors: %v", got, err)
	}
	if _, err := load(write(t, least+"limits: {lease_duration: 1s}\nqueues: {a: {max_run: 0, timeout: 0s, max_retry: 0}}\nui: {path: /v1x, anonymous: viewer}\n"), env); err != nil {
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
	if err := os.Chmod(filepath.Join(dir, "token"), 0o604); err != nil { // whatever the umask
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
	if len(warnings) != 2 || !strings.Contains(warnings[0], ":4:23: ") || !strings.Contains(warnings[1], ":5:23: a secret stands in a file") {
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
		":2:9: tokens and tasks go over the network without TLS", `:6:5: the token "a" may take tasks from the queue "hook"`,
		`:6:71: no queue under queues is "nothing"`, ":10:13: requests are not signed", ":10:19: requests go over the network", ":13:19: the program is not on this machine",
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
	f.Add(least)
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

// What would be refused for each task is told before there are tasks.
func TestWarnsOfEndpointsOutOfReach(t *testing.T) {
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
		if strings.Contains(w.String(), "no public address") {
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
	if err == nil || !strings.Contains(err.Error(), `:7:34: there is no user "no-such-user"`) || !strings.Contains(err.Error(), ":8:17: ") {
		t.Errorf("got %v", err)
	}
}
