package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// block matches a code block of a document.
var block = regexp.MustCompile("(?s)\n```([a-z]+)\n(.*?)```\n")

// documented returns the code blocks of a language in docs/SERVICE_CLIENTS.md, in order.
func documented(t *testing.T, language string, want int) []string {
	t.Helper()
	return blocksOf(t, "SERVICE_CLIENTS.md", language, want)
}

// document returns the text of a file in docs.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocksOf returns the code blocks of a language in a document, in order.
func blocksOf(t *testing.T, name, language string, want int) []string {
	t.Helper()
	var blocks []string
	for _, m := range block.FindAllStringSubmatch(document(t, name), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	if len(blocks) != want {
		t.Fatalf("%s has %d blocks of %s: want %d", name, len(blocks), language, want)
	}
	return blocks
}

// script writes a file for an interpreter and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func docsEnv(s *env) []string { return []string{"URL=" + s.url(), "TOKEN=" + token} }

// The first blocks of SERVICE.md run a service: the configuration, and the commands that check, run
// and use it.
func TestDocumentedStart(t *testing.T) {
	t.Parallel()
	need(t, "curl", "CI_REQUIRE_CURL")
	text := document(t, "SERVICE.md")
	config := blocksOf(t, "SERVICE.md", "yaml", 1)[0]
	if lines := strings.Count(config, "\n"); lines > 6 || strings.Index(text, "```") != strings.Index(text, "```yaml") {
		t.Errorf("SERVICE.md must begin with a configuration of at most 6 lines: it has %d", lines)
	}
	s := &env{redis: proctest.StartRedis(t).Addr(), addr: proctest.FreeAddr(t), config: filepath.Join(t.TempDir(), "service.yaml")}
	s.write(t, replaced(t, config, "localhost:6379", s.redis)+"listen: "+s.addr+"\n")
	sh := blocksOf(t, "SERVICE.md", "sh", 2)
	run := replaced(t, sh[0], "asynq service --config", "exec asynq service --config")
	path := "PATH=" + filepath.Dir(program(t)) + string(filepath.ListSeparator) + os.Getenv("PATH")
	s.await(t, start(t, []string{path}, need(t, "sh", ""), script(t, "set -eu\ncd '"+filepath.Dir(s.config)+"'\n"+run)))
	use := start(t, nil, need(t, "sh", ""), script(t, "set -eu\n"+replaced(t, sh[1], "http://localhost:8600", s.url())))
	use.wait(t)
	if got := use.output(t); !strings.Contains(got, `"state":"completed"`) || !strings.Contains(got, `"result":{"sent": true}`) {
		t.Errorf("the commands printed %s: want a completed task with its result", got)
	}
}

// The example configuration supports the client documentation, with other addresses only.
func TestExampleServesDocumentedClients(t *testing.T) {
	t.Parallel()
	need(t, "curl", "CI_REQUIRE_CURL")
	example := document(t, "service.example.yaml")
	s := &env{redis: proctest.StartRedis(t).Addr(), addr: proctest.FreeAddr(t), config: filepath.Join(t.TempDir(), "service.yaml")}
	s.write(t, example)
	start(t, nil, program(t), "service", "check", s.config).wait(t)
	s.write(t, replaced(t, replaced(t, example, "localhost:6379", s.redis), "127.0.0.1:8600", s.addr))
	s.serve(t)
	env := []string{"URL=" + s.url(), "TOKEN=replace-this-secret-of-operations"}
	p := start(t, env, need(t, "sh", ""), script(t, "set -eu\n"+strings.Join(documented(t, "sh", 4), "")))
	p.wait(t)
	for _, language := range []string{"php", "python"} { // check the queues that they name
		text := strings.Join(documented(t, language, map[string]int{"php": 4, "python": 2}[language]), "")
		for _, m := range regexp.MustCompile(`['"](email:[a-z]+|report)['"]`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(example, "\n  "+m[1]+": {") {
				t.Errorf("the documentation of %s uses queue %q, which the example lacks", language, m[1])
			}
		}
	}
}

// replaced replaces a text, which must occur.
func replaced(t *testing.T, text, from, to string) string {
	t.Helper()
	if !strings.Contains(text, from) {
		t.Fatalf("no %q in\n%s", from, text)
	}
	return strings.ReplaceAll(text, from, to)
}

func TestDocumentedCurl(t *testing.T) {
	t.Parallel()
	need(t, "curl", "CI_REQUIRE_CURL")
	s := newEnv(t, lease)
	text := "set -eu\n" + strings.Join(documented(t, "sh", 4), "")
	p := start(t, docsEnv(s), need(t, "sh", ""), script(t, text))
	p.wait(t)
	i := s.inspector(t)
	task, err := i.GetTaskInfo("email:hello", "hello-42")
	if err != nil {
		t.Fatal(err)
	}
	if task.State != asynq.TaskStateCompleted || string(task.Result) != `{"sent": true}` {
		t.Errorf("hello-42 is %v with result %q, want completed with the documented result", task.State, task.Result)
	}
	info, err := i.GetQueueInfo("email:hello")
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != 1 || info.Completed != 1 || info.FailedTotal != 1 || info.Paused {
		t.Errorf("the queue is %+v, want one completed task, one failed attempt, not paused", info)
	}
}

func TestDocumentedPHP(t *testing.T) {
	t.Parallel()
	php := needPHP(t)
	s := newEnv(t, lease)
	autoload, err := filepath.Abs(filepath.Join("..", "php", "autoload.php"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(code string) *process {
		return start(t, docsEnv(s), php, script(t, "<?php\nrequire '"+autoload+"';\n"+code))
	}
	blocks := documented(t, "php", 4)
	run(blocks[0]).wait(t)
	worker := run(blocks[1])
	waiter := run(blocks[2])
	waiter.wait(t)
	if got := waiter.output(t); got != "completed {\"sent\":true}\n" {
		t.Errorf("waiter printed %q", got)
	}
	worker.term(t)
	flow := run(blocks[3])
	flow.wait(t)
	if got := flow.output(t); got != "running 3\n" {
		t.Errorf("the workflow printed %q", got)
	}
	if info, err := s.inspector(t).GetQueueInfo("report"); err != nil || info.Scheduled != 1 {
		t.Errorf("the report is not scheduled: %+v, %v", info, err)
	}
}

func TestDocumentedPython(t *testing.T) {
	t.Parallel()
	python := need(t, "python3", "CI_REQUIRE_PYTHON")
	s := newEnv(t, lease)
	module, err := filepath.Abs(filepath.Join("..", "python"))
	if err != nil {
		t.Fatal(err)
	}
	env := append(docsEnv(s), "PYTHONPATH="+module, "PYTHONDONTWRITEBYTECODE=1")
	p := start(t, env, python, script(t, "import os, threading\n"+strings.Join(documented(t, "python", 2), "")))
	p.wait(t)
	if got := p.output(t); !strings.HasSuffix(got, "{'sent': True}\n3\n") {
		t.Errorf("printed %q", got)
	}
}
