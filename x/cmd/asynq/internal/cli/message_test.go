package cli

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
)

// goNames matches the exported functions and types of package asynq whose names are not ordinary
// words.
func goNames(t *testing.T) *regexp.Regexp {
	t.Helper()
	files, err := filepath.Glob("../../../../../*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of the package: %v", err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && regexp.MustCompile(`^[A-Z]\w*[a-z][A-Z]`).MatchString(id.Name) {
				names = append(names, id.Name)
			}
			return true
		})
	}
	slices.Sort(names)
	return regexp.MustCompile(`\b(` + strings.Join(slices.Compact(names), "|") + `|strconv\.\w+)\b|json: |time: invalid`)
}

// Messages of the command line do not mention Go functions and types.
func TestMessagesWithoutGoNames(t *testing.T) {
	w := newWorld(t)
	names := goNames(t)
	for _, found := range []string{"cancel them with CancelProcessing", "leave TaskID out", "strconv.ParseInt: parsing"} {
		if !names.MatchString(found) {
			t.Fatalf("%q is not recognized as a Go name", found)
		}
	}
	began, end := make(chan struct{}), make(chan struct{})
	w.serve("busy", func(context.Context, *asynq.Task) error {
		close(began)
		<-end
		return nil
	})
	t.Cleanup(func() { close(end) })
	w.enqueue("x", "", asynq.Queue("busy"), asynq.TaskID("active"))
	<-began
	w.enqueue("x", "", asynq.TaskID("pending"))
	w.enqueue("x", "", asynq.TaskID("archived"))
	if err := w.inspector.ArchiveTask("default", "archived"); err != nil {
		t.Fatal(err)
	}
	lines := []string{
		`{"type":"x","timeout":true}`, `{"type":"x","timeout":"x"}`, `{"type":"x","timeout":-1}`, `{"type":"x","unique":0}`, `{"type":"x","unique":1e300}`,
		`{"type":"x","retention":-1}`, `{"type":"x","max_retry":-1}`, `{"type":"x","max_retry":1.5}`, `{"type":"x","id":""}`, `{"type":"x","group":""}`,
		`{"type":"x","queue":""}`, `{"type":"x","queue":"}"}`, `{"type":"","queue":"x"}`, `{"type":"x","deadline":true}`, `{"x":1}`, `{"type":"x","process_in":[]}`,
	}
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"task delete -q busy active", "task run -q busy active", "task archive -q busy active", "task update-payload -l x pending", "task run pending",
		"task archive archived", "task delete none", "task cancel -q default pending",
		"queue remove busy", "queue remove busy --force --yes", "queue remove none", "queue pause none", "queue history none", "queue history busy -x 0",
		"task deleteall -q busy -s active --yes", "task runall -q none -s archived --yes", "task archiveall -q default -s archived --yes",
		"task ls --filter type:y --max-scan 1", "task ls -q busy -g x -s active", "task ls --filter age>x",
		"task enqueue -t x --id=", "task enqueue -t x --queue=", "task enqueue -t x --group=", "task enqueue -t x --unique -1s", "task enqueue -t x --timeout -1s",
		"task enqueue -t x --id pending", "task enqueue -t x --retry x", "task enqueue -t x --process-in x", "task enqueue -t x --process-at x", "task enqueue",
		"task enqueue --batch " + file, "task enqueue --dry-run --batch " + file, "import " + file, "cron run none", "cron history none",
		"queue ls --db x", "queue ls --tls=x", "queue ls --timeout x", "queue ls --uri redis://a:b:c", "exporter --redis-db x", "web --redis-db x", "doctor -q none",
		"--uri 127.0.0.1:1 queue ls",
	} {
		r := w.run(strings.Fields(args)...)
		if found := names.FindString(r.err + r.out); found != "" || r.code == ExitDone || r.err == "" {
			t.Errorf("%s: exit code %d, contains the Go name %q: %s%s", args, r.code, found, r.out, r.err)
		}
	}
	r := w.run("task", "enqueue", "--batch", file, "-o", "ndjson")
	if n := strings.Count(r.out, `"state":""`); n != len(lines) || !strings.Contains(r.out, `\"max_retry\" must not be negative`) {
		t.Errorf("%d of %d lines were rejected: %s", n, len(lines), r.out)
	}
}

// Extra and missing arguments are reported.
func TestArguments(t *testing.T) {
	w := newWorld(t)
	for args, want := range map[string]string{
		"queue ls a":       `unexpected argument "a": asynq queue ls takes no arguments`,
		"context use a b":  `unexpected argument "b": usage: asynq context use NAME`,
		"export a b c":     `unexpected argument "c": usage: asynq export QUEUE [FILE]`,
		"queue pause":      "missing argument: usage: asynq queue pause QUEUE…",
		"queue lss":        `unknown command "lss" for "asynq queue": did you mean "ls"?`,
		"task enqueue a b": `unexpected argument "a": asynq task enqueue takes no arguments`,
		"queue ls --db x":  `--db: "x" is not an integer`,
	} {
		r := w.raw(t.Context(), strings.Fields(args)...)
		if r.code != ExitUsage || r.out != "" || !strings.HasPrefix(r.err, "asynq: "+want+"\n") {
			t.Errorf("%s: got %+v; want %s", args, r, want)
		}
	}
}

// If Redis is unreachable, the message contains its address, the source of the address, and once
// how to change it.
func TestUnreachableHint(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.home, ".asynq.yaml")
	if err := os.WriteFile(file, []byte("contexts: {away: {uri: '127.0.0.1:1'}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const refused, others = "cannot connect to Redis at 127.0.0.1:1: connection refused\n", "To change it, use --uri, ASYNQ_URI or a context (asynq context ls).\n"
	for _, c := range []struct{ env, args, from string }{
		{"", "--uri 127.0.0.1:1 queue ls", "The address is from --uri. "},
		{"", "--uri 127.0.0.1:1 queue pause a b", "The address is from --uri. "},
		{"127.0.0.1:1", "queue ls", "The address is from ASYNQ_URI. "},
		{"", "--context away task enqueue -t x", `The address is from context "away". `},
		{"", "--cluster-addrs 127.0.0.1:1 stats", "The address is from --cluster-addrs. "},
	} {
		w.env = map[string]string{"ASYNQ_URI": c.env}
		r := w.raw(t.Context(), strings.Fields(c.args)...)
		if r.code != ExitFailed || r.out != "" || !strings.Contains(r.err, refused) || strings.Count(r.err, c.from+others) != 1 || strings.Contains(r.err, "dial tcp") {
			t.Errorf("%s: got %+v", c.args, r)
		}
	}
}

// The doctor prints the key if it has no repair.
func TestDoctorNamesKey(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.breakQueue("mail")
	if r := w.run("doctor"); !strings.Contains(r.out, `none: inspect key "`+w.namespace+`:{mail}:pending"`) {
		t.Errorf("got %+v", r)
	}
}
