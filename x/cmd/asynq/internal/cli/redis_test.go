package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

var update = flag.Bool("update", false, "update the golden files")

// redisAddr is the address of the redis-server of these tests, or "" if none is installed.
var redisAddr string

func TestMain(m *testing.M) {
	flag.Parse()
	QuietRedis()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	found, err := proctest.HasRedis()
	if found {
		var server *proctest.Redis
		if server, err = proctest.NewRedis(); err == nil {
			defer server.Close()
			redisAddr = server.Addr()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// pollEvery is the interval of polling for state changes.
const pollEvery = 5 * time.Millisecond

var namespaces atomic.Int64

// world is the environment of a test: a namespace in Redis, and methods that run commands in it.
type world struct {
	t         *testing.T
	namespace string
	opt       asynq.RedisConnOpt
	redis     *redis.Client
	client    *asynq.Client
	inspector *asynq.Inspector
	home      string

	// Options of the following commands.
	env         map[string]string
	in          string
	inTerminal  bool
	outTerminal bool
	link        string // printed by the last web UI
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if redisAddr == "" {
		t.Skip("no redis-server on this machine")
	}
	t.Parallel()
	w := &world{t: t, namespace: fmt.Sprintf("t%d", namespaces.Add(1)), home: t.TempDir(), env: map[string]string{}}
	w.redis = redis.NewClient(&redis.Options{Addr: redisAddr})
	w.opt = asynq.WithNamespace(asynq.SharedRedisClient(w.redis), w.namespace)
	w.client, w.inspector = asynq.NewClient(w.opt), asynq.NewInspector(w.opt)
	t.Cleanup(func() { _ = w.redis.Close() })
	return w
}

// result is the result of a command.
type result struct {
	out, err string
	code     int
}

// run runs a command in the namespace of the test.
func (w *world) run(args ...string) result {
	w.t.Helper()
	return w.raw(w.t.Context(), append([]string{"--uri", redisAddr, "--namespace", w.namespace}, args...)...)
}

// raw runs a command without default flags.
func (w *world) raw(ctx context.Context, args ...string) result {
	w.t.Helper()
	var out, err bytes.Buffer
	code := Run(ctx, args, Streams{
		In: strings.NewReader(w.in), Out: &out, Err: &err, InIsTerminal: w.inTerminal, OutIsTerminal: w.outTerminal,
		Env: func(name string) (string, bool) {
			if name == "HOME" {
				return w.home, true
			}
			v, ok := w.env[name]
			return v, ok
		},
	})
	return result{out: out.String(), err: err.String(), code: code}
}

// enqueue enqueues a task.
func (w *world) enqueue(typename, payload string, opts ...asynq.Option) *asynq.TaskInfo {
	w.t.Helper()
	info, err := w.client.Enqueue(asynq.NewTask(typename, []byte(payload)), opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

// variable matches text that differs between runs, with its replacement. Replacements in aligned
// table columns have a fixed width.
var variable = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uuid>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "<time>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "<date>"},
	{regexp.MustCompile(`(memory_usage_bytes"?: ?)\d+`), "${1}<n>"},
	{regexp.MustCompile(`(age_seconds"?: ?)-?[\d.]+`), "${1}<n>"},
	{regexp.MustCompile(`(latency_msec"?: ?)\d+`), "${1}<n>"},
	{regexp.MustCompile(`(display_latency"?: ?"?)[\dhm.µs]+`), "${1}<duration>"},
	{regexp.MustCompile(` +\d[\dhm.µ]*s\b`), "  <duration>"},
	{regexp.MustCompile(`\(\d+s ago\)`), "(<duration> ago)"},
	{regexp.MustCompile(` +\d[\d.]* (B|KiB|MiB|GiB)\b`), "  <size>"},
	{regexp.MustCompile(`("(?:memory_bytes|peak_memory_bytes|max_memory_bytes|uptime_days|connections|pid)": )\d+`), "${1}<n>"},
	{regexp.MustCompile(`((?:Uptime|Connections|Peak memory|Memory|Memory limit): +).*`), "${1}<n>"},
	{regexp.MustCompile(`(Version: +|"version": ")\d[\d.]*`), "${1}<version>"},
	{regexp.MustCompile(`("?pid"?: )\d+`), "${1}<n>"},
	{regexp.MustCompile(`(?m)^("?  host"?:|- host:) .*`), "$1 <host>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "<addr>"},
	{regexp.MustCompile(`namespace "t\d+"`), `namespace "<namespace>"`},
}

// golden compares the result of a command with a file in testdata.
func (w *world) golden(name string, r result) {
	w.t.Helper()
	text := fmt.Sprintf("exit %d\n--- stdout\n%s--- stderr\n%s", r.code, r.out, r.err)
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	text = strings.ReplaceAll(text, w.namespace+":{", "<namespace>:{")
	host, _ := os.Hostname()
	text = regexp.MustCompile(`(?m)^HOST +PID +`).ReplaceAllString(text, "HOST    PID  ")
	text = regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(host)+` +\d+ +`).ReplaceAllString(text, "<host>  <n>  ")
	text = strings.ReplaceAll(text, host, "<host>")
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatalf("%v: create it with go test -update", err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		w.t.Errorf("%s differs (-want +got), see go test -update:\n%s", path, diff)
	}
}
