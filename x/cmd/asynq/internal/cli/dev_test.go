package cli

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestDevRejectsFlags(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args string
		code int
		err  string
	}{
		{"--uri redis://host", ExitUsage, "use --redis"},
		{"--context production", ExitUsage, "use --redis"},
		{"--listen :8080", ExitUsage, "asynq web"},
		{"--rate 0", ExitUsage, "greater than 0"},
		{"--rate NaN", ExitUsage, "greater than 0"},
		{"--rate 1e9", ExitUsage, "at most 500"},
		{"--namespace {}", ExitUsage, "braces"},
		{"--redis http://user:secret@host", ExitUsage, "scheme"},
		{"--redis redis://:secret@127.0.0.1:1", ExitFailed, "connection refused"},
		{"too many", ExitUsage, "unexpected argument"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // an accepted command would serve forever
		r := w.raw(ctx, append([]string{"dev"}, strings.Fields(c.args)...)...)
		cancel()
		if r.code != c.code || r.out != "" || !strings.Contains(r.err, c.err) || strings.Contains(r.err, "secret") {
			t.Errorf("dev %s: got %+v, want code %d and %q", c.args, r, c.code, c.err)
		}
	}
}

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"127.0.0.1:6379":           "127.0.0.1:6379",
		"redis://host/2":           "redis://host/2",
		"redis://ada:secret@host":  "redis://ada:xxxxx@host",
		"redis://:se%zzcret@host":  "…",
		"ada:secret@host:6379":     "…",
		"redis-socket:///run/sock": "redis-socket:///run/sock",
	} {
		if got := withoutPassword(in); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}
