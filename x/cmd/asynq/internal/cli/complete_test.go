package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCompletion(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	if err := os.WriteFile(filepath.Join(w.home, ".asynq.yaml"), []byte(contextFile), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"queue inspect ":        "default mail reports",
		"queue inspect mail ":   "default reports",
		"queue pause m":         "mail",
		"group ls --queue ":     "default mail reports",
		"group ls -o yaml -q d": "default",
		"queue ls --output ":    "table wide json ndjson yaml csv template=",
		"queue ls --context ":   "dev prod",
		"queue rem":             "remove\tRemove queues and all their data",
		"context use ":          "dev prod",
	}
	for line, want := range tests {
		r := w.run(append([]string{"__complete"}, strings.Split(line, " ")...)...)
		got, _, _ := strings.Cut(r.out, ":")
		if strings.HasSuffix(line, "--output ") {
			got = strings.Split(r.out, "\n:")[0]
		}
		if got = strings.Join(strings.FieldsFunc(got, func(c rune) bool { return c == '\n' }), " "); got != want {
			t.Errorf("asynq %s<TAB>: got %q, want %q", line, got, want)
		}
	}
}

// Completion does not block on an unreachable Redis.
func TestCompletionWithoutRedis(t *testing.T) {
	w := newWorld(t)
	begin := time.Now()
	r := w.raw(t.Context(), "--uri", "127.0.0.1:1", "__complete", "queue", "inspect", "")
	if !strings.HasPrefix(r.out, ":4") || r.code != ExitDone || time.Since(begin) > 30*time.Second {
		t.Errorf("got %+v after %v; want no names, soon", r, time.Since(begin))
	}
}

func TestCompletionScripts(t *testing.T) {
	w := newWorld(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := w.raw(t.Context(), "completion", shell); r.code != ExitDone || !strings.Contains(r.out, "__complete") {
			t.Errorf("completion %s: exit code %d, %d bytes", shell, r.code, len(r.out))
		}
	}
}

func TestMan(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.home, "man1")
	if r := w.raw(t.Context(), "man", "--dir", dir); r.code != ExitDone || r.out != "" {
		t.Fatalf("got %+v", r)
	}
	if r := w.raw(t.Context(), "man"); r.code != ExitUsage {
		t.Errorf("without a directory: got %+v; want exit code %d", r, ExitUsage)
	}
	page, err := os.ReadFile(filepath.Join(dir, "asynq-queue-ls.1"))
	if err != nil || !strings.Contains(string(page), "List queues") {
		t.Errorf("page %q, %v", page, err)
	}
}
