package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
)

// guardedContexts writes a configuration file with a protected and a read-only context.
func (w *world) guardedContexts() {
	w.t.Helper()
	text := fmt.Sprintf("contexts:\n  prod: {uri: %q, namespace: %s, protected: true}\n  frozen: {uri: %q, namespace: %s, read_only: true}\n",
		redisAddr, w.namespace, redisAddr, w.namespace)
	if err := os.WriteFile(filepath.Join(w.home, ".asynq.yaml"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// dump returns all keys of the namespace with their values.
func (w *world) dump() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	keys := w.redis.Scan(w.t.Context(), 0, w.namespace+":*", 1000).Iterator()
	for keys.Next(w.t.Context()) {
		all[keys.Val()] = w.redis.Dump(w.t.Context(), keys.Val()).Val()
		if members, err := w.redis.SMembers(w.t.Context(), keys.Val()).Result(); err == nil { // without a fixed order
			slices.Sort(members)
			all[keys.Val()] = fmt.Sprintf("%q", members)
		}
	}
	if err := keys.Err(); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// seedServer lists a server that does not run, so that its keys stay as they are.
func (w *world) seedServer() (id string) {
	w.t.Helper()
	stop := w.serve("unused", func(context.Context, *asynq.Task) error { return nil })
	proctest.Eventually(w.t, "the server to be listed", func() bool {
		servers, err := w.inspector.Servers()
		if err != nil {
			w.t.Fatal(err)
		}
		if len(servers) == 1 {
			id = servers[0].ID
		}
		return len(servers) == 1
	})
	keys, err := w.redis.Keys(w.t.Context(), w.namespace+":servers*").Result()
	if err != nil {
		w.t.Fatal(err)
	}
	kept := map[string]string{}
	for _, key := range keys {
		kept[key] = w.redis.Dump(w.t.Context(), key).Val()
	}
	stop()
	for key, value := range kept {
		if err := w.redis.RestoreReplace(w.t.Context(), key, 0, value).Err(); err != nil {
			w.t.Fatal(err)
		}
	}
	return id
}

// changingCommands are command lines of all commands that change Redis. They would change the data
// of seedGuarded.
var changingCommands = []string{
	"queue pause mail", "queue resume reports", "queue remove idle", "queue remove mail --force --yes",
	"partition set -q mail key --weight 2", "partition pause -q mail key", "partition resume -q mail paused",
	"partition cancel -q mail key --yes", "partition remove -q mail key --yes",
	"flow cancel order --yes", "flow retry order --yes", "flow skip order 2 --yes",
	"task enqueue -t x", "task run -q default archived", "task archive -q mail pending", "task delete -q mail pending",
	"task cancel pending", "task reschedule -q mail scheduled --process-in 2h", "task update-payload -q mail scheduled -l x",
	"task update -q mail scheduled -l x", "task edit -q mail scheduled", "task move -q mail pending --to low", "task copy -q mail pending",
	"task runall -q default -s archived --yes", "task archiveall -q mail -s pending --yes", "task deleteall -q mail -s pending --yes",
	"errors run KIND --yes", "errors archive KIND --yes", "errors delete KIND --yes",
	"cron run entry", "cron pause entry --yes", "cron resume entry", "server quiet SERVER --yes", "server stop SERVER --yes",
	"server pause-queue SERVER mail --yes", "server resume-queue SERVER mail --yes", "server set-concurrency SERVER 5 --yes", "import FILE", "import FILE --replace --yes", "doctor --repair --yes", "export mail --pause", "outbox relay -d sqlite:none",
	"web --listen 127.0.0.1:0", "status mute x", "status unmute x",
}

// In a read-only context and in a protected one without its name, no command changes Redis,
// whatever other confirmation it gets.
func TestGuardedContexts(t *testing.T) {
	w := newWorld(t)
	w.guardedContexts()
	w.env["EDITOR"] = "true"
	w.enqueue("a", "", asynq.Queue("mail"), asynq.TaskID("pending"))
	w.enqueue("a", "", asynq.Queue("mail"), asynq.TaskID("scheduled"), asynq.ProcessIn(1<<40))
	seedQueues(w)
	w.enqueue("a", "", asynq.Queue("idle"), asynq.TaskID("idle"))
	info := w.enqueue("a", "", asynq.TaskID("archived"))
	for _, err := range []error{w.inspector.DeleteTask("idle", "idle"), w.inspector.ArchiveTask("default", info.ID)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "export")
	if r := w.run("export", "mail", file); r.code != ExitDone {
		t.Fatal(r)
	}
	w.startFlow(flow.Chain("order", asynq.NewTask("a", nil, asynq.Queue("mail")), asynq.NewTask("b", nil)))
	kind, server := w.seedErrors(), w.seedServer()
	before := w.dump()
	covered := map[string]bool{}
	for _, line := range changingCommands {
		args := strings.Fields(strings.NewReplacer("FILE", file, "KIND", kind, "SERVER", server).Replace(line))
		found, _, err := newRoot(&app{}).Find(args)
		if err != nil {
			t.Fatal(err)
		}
		covered[strings.TrimPrefix(found.CommandPath(), "asynq ")] = true
		for _, terminal := range []bool{false, true} {
			w.inTerminal, w.in = terminal, "y\nyes\nprodx\n"
			if args[0] != "web" {
				r := w.raw(t.Context(), append([]string{"--context", "frozen"}, args...)...)
				if r.code != ExitUsage || !strings.Contains(r.err, `context "frozen" is read-only`) {
					t.Errorf("%s in a read-only context: %+v", line, r)
				}
			}
			r := w.raw(t.Context(), append([]string{"--context", "prod"}, args...)...)
			if want := map[bool]string{false: "--context-confirm prod", true: "Type prod to confirm: "}[terminal]; r.code == ExitDone || !strings.Contains(r.err, want) {
				t.Errorf("%s in a protected context, terminal %v: %+v, want %q", line, terminal, r, want)
			}
			r = w.raw(t.Context(), append([]string{"--context", "prod", "--context-confirm", "other"}, args...)...)
			if r.code != ExitUsage || !strings.Contains(r.err, `"other" does not match`) {
				t.Errorf("%s with another name: %+v", line, r)
			}
		}
	}
	if after := w.dump(); !maps.Equal(before, after) {
		t.Errorf("the data has changed from %q to %q", before, after)
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "asynq ")
		if _, reads := readers[name]; !reads && !cmd.HasSubCommands() && !covered[name] {
			t.Errorf("%q changes Redis: add a command line to changingCommands, or the command to readers", name)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&app{}))
}

// The name of a protected context confirms a change: typed, or as a flag. A dry run, and commands
// that do not change Redis, need none.
func TestProtectedContext(t *testing.T) {
	w := newWorld(t)
	w.guardedContexts()
	seedQueues(w)
	run := func(args ...string) result {
		return w.raw(t.Context(), append([]string{"--context", "prod"}, args...)...)
	}
	for _, line := range []string{"queue ls", "task deleteall -q mail -s pending --dry-run", "context show"} {
		for _, context := range []string{"prod", "frozen"} {
			if r := w.raw(t.Context(), append([]string{"--context", context}, strings.Fields(line)...)...); r.code != ExitDone {
				t.Errorf("%s in context %s: %+v", line, context, r)
			}
		}
	}
	w.golden("guard_read_only", w.raw(t.Context(), "--context", "frozen", "queue", "pause", "mail"))
	w.golden("guard_unconfirmed", run("task", "deleteall", "-q", "mail", "-s", "pending", "--yes"))
	w.inTerminal, w.in = true, " prod \n"
	w.golden("guard_typed", run("queue", "pause", "mail"))
	w.golden("guard_typed_all", run("task", "deleteall", "-q", "mail", "-s", "pending"))
	w.in = "y\n"
	w.golden("guard_typed_wrong", run("queue", "resume", "mail"))
	w.inTerminal = false
	w.golden("guard_flag", run("queue", "remove", "mail", "--force", "--context-confirm", "prod"))
	if queues, err := w.inspector.Queues(); err != nil || slices.Contains(queues, "mail") {
		t.Errorf("queues %q, error %v", queues, err)
	}
	// Another address does not disable the guards: it may be the same server.
	r := w.run("--context", "frozen", "queue", "pause", "default")
	if r.code != ExitUsage || !strings.Contains(r.err, "read-only") {
		t.Errorf("with --uri: %+v", r)
	}
}

// A context of a file may have guards, top-level settings only read_only.
func TestGuardsInFile(t *testing.T) {
	w := newWorld(t)
	for content, want := range map[string]string{
		"read_only: true\n": "the connection is read-only", "protected: true\n": "move it into a context",
		"contexts: {a: {protected: maybe}}\ncurrent_context: a\n": "neither true nor false",
	} {
		if err := os.WriteFile(filepath.Join(w.home, ".asynq.yaml"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := w.run("queue", "pause", "mail"); r.code != ExitUsage || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v, want %q", content, r, want)
		}
	}
}

func TestContextAdd(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.home, ".asynq.yaml")
	run := func(args ...string) result {
		r := w.raw(t.Context(), args...)
		r.err = strings.ReplaceAll(r.err, path, "<file>")
		return r
	}
	w.golden("context_add", run("context", "add", "prod", "-u", redisAddr, "-n", "3", "--protected", "--use"))
	w.golden("context_add_again", run("context", "add", "prod", "-u", "other:1"))
	w.golden("context_add_bad", run("context", "add", "x", "-u", "redis://a:b:c"))
	if r := run("context", "add", "my replica", "-u", redisAddr, "--namespace", w.namespace, "--read-only"); r.code != ExitDone {
		t.Error(r)
	}
	if r := run("context", "add", "down", "-u", "127.0.0.1:1", "-p", "hidden"); r.code != ExitDone || strings.Contains(r.err, "hidden") {
		t.Error(r)
	}
	w.golden("context_add_ls", run("context", "ls"))
	w.golden("context_test", run("context", "test", "prod", "my replica", "down", "-o", "template={{.name}} {{.ok}} {{.database}} {{.queues}} {{.error}}"))
	w.golden("context_test_unknown", run("context", "test", "none"))
	w.golden("context_test_current", run("context", "test", "-o", "template={{.name}} {{.ok}} {{.server}}"))
	if r := run("context", "add", "prod", "-u", "other:1", "--replace"); r.code != ExitDone {
		t.Error(r)
	}
	info, err := os.Stat(path)
	content, readErr := os.ReadFile(path)
	want := "contexts:\n  prod:\n    uri: other:1\n  my replica:\n"
	if err != nil || readErr != nil || info.Mode().Perm() != 0o600 || !strings.Contains(string(content), want) {
		t.Errorf("mode %v, content %q, want %q; errors %v, %v", info.Mode(), content, want, err, readErr)
	}
}
