package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
)

// block is a piece of code in docs/SERVICE_CLIENTS.md.
var block = regexp.MustCompile("(?s)\n```([a-z]+)\n(.*?)```\n")

// documented are the blocks of a language, in their order.
func documented(t *testing.T, language string, want int) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "SERVICE_CLIENTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	if len(blocks) != want {
		t.Fatalf("the document has %d blocks of %s: want %d", len(blocks), language, want)
	}
	return blocks
}

// script writes a file for an interpreter.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func docsEnv(s *site) []string { return []string{"URL=" + s.url(), "TOKEN=" + token} }

func TestDocumentedCurl(t *testing.T) {
	t.Parallel()
	need(t, "curl", "CI_REQUIRE_CURL")
	s := newSite(t, lease)
	text := "set -eu\n" + strings.Join(documented(t, "sh", 4), "")
	p := start(t, docsEnv(s), need(t, "sh", ""), script(t, text))
	p.wait(t)
	i := s.inspector(t)
	task, err := i.GetTaskInfo("email:hello", "hello-42")
	if err != nil {
		t.Fatal(err)
	}
	if task.State != asynq.TaskStateCompleted || string(task.Result) != `{"sent": true}` {
		t.Errorf("hello-42 is %v with the result %q: want it completed with that of the document", task.State, task.Result)
	}
	info, err := i.GetQueueInfo("email:hello")
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != 0 || info.Completed != 1 || info.FailedTotal != 1 || info.Paused {
		t.Errorf("the queue is left with %+v: want one completed task, one failed attempt, and it not paused", info)
	}
}

func TestDocumentedPHP(t *testing.T) {
	t.Parallel()
	php := needPHP(t)
	s := newSite(t, lease)
	autoload, err := filepath.Abs(filepath.Join("..", "php", "autoload.php"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(code string) *process {
		return start(t, docsEnv(s), php, script(t, "<?php\nrequire '"+autoload+"';\n"+code))
	}
	blocks := documented(t, "php", 3)
	run(blocks[0]).wait(t)
	worker := run(blocks[1])
	waiter := run(blocks[2])
	waiter.wait(t)
	if got := waiter.output(t); got != "completed {\"sent\":true}\n" {
		t.Errorf("who waited saw %q", got)
	}
	worker.term(t)
	if info, err := s.inspector(t).GetQueueInfo("report"); err != nil || info.Scheduled != 1 {
		t.Errorf("the report is not scheduled: %+v, %v", info, err)
	}
}

func TestDocumentedPython(t *testing.T) {
	t.Parallel()
	python := need(t, "python3", "CI_REQUIRE_PYTHON")
	s := newSite(t, lease)
	module, err := filepath.Abs(filepath.Join("..", "python"))
	if err != nil {
		t.Fatal(err)
	}
	env := append(docsEnv(s), "PYTHONPATH="+module, "PYTHONDONTWRITEBYTECODE=1")
	p := start(t, env, python, script(t, "import os, threading\n"+documented(t, "python", 1)[0]))
	p.wait(t)
	if got := p.output(t); !strings.HasSuffix(got, "{'sent': True}\n") {
		t.Errorf("it printed %q", got)
	}
}
