package cli

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestUsageErrors(t *testing.T) {
	w := newWorld(t)
	for _, args := range []string{
		"nothing", "queue nothing", "queue ls too many", "--nothing", "queue ls --watch=1ms", "queue ls --db x", "queue ls --db -1",
		"queue ls --uri http://host", "queue ls --config /does/not/exist", "queue ls --namespace {}", "queue ls --namespace \xff", "help nothing", "completion nothing",
	} {
		r := w.raw(t.Context(), strings.Fields(args)...)
		if r.code != ExitUsage || r.out != "" || !strings.HasPrefix(r.err, "asynq: ") {
			t.Errorf("asynq %s: got %+v; want an error on standard error and exit code %d", args, r, ExitUsage)
		}
	}
}

// The value of --watch requires "=", which the error explains.
func TestWatchWithoutEquals(t *testing.T) {
	w := newWorld(t)
	if r := w.raw(t.Context(), "queue", "ls", "--watch", "3s"); r.code != ExitUsage || !strings.Contains(r.err, "use --watch=3s") {
		t.Errorf("got %+v; want exit code %d and the correct form", r, ExitUsage)
	}
	if r := w.raw(t.Context(), "queue", "ls", "3s"); r.code != ExitUsage || strings.Contains(r.err, "--watch") {
		t.Errorf("without --watch: got %+v", r)
	}
}

func TestUnreachable(t *testing.T) {
	w := newWorld(t)
	r := w.raw(t.Context(), "--uri", "127.0.0.1:1", "queue", "ls")
	if r.code != ExitFailed || r.out != "" || !strings.Contains(r.err, "connection refused") {
		t.Errorf("got %+v; want exit code %d", r, ExitFailed)
	}
}

// Unreachable sentinels are reported quickly: dial retries must not multiply with command retries.
func TestUnreachableSentinels(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r := w.raw(ctx, "--sentinel-addrs", "127.0.0.1:1", "--sentinel-master", "m", "queue", "ls")
	if r.code != ExitFailed || r.out != "" || !strings.Contains(r.err, "unreachable") {
		t.Errorf("got %+v; want exit code %d", r, ExitFailed)
	}
}

// Help goes to standard output, and lists the connection flags once and the exit codes.
func TestHelp(t *testing.T) {
	w := newWorld(t)
	if r := w.raw(t.Context(), "--help"); r.code != ExitDone || r.err != "" || !strings.Contains(r.out, "--sentinel-master") || !strings.Contains(r.out, "3 not found") {
		t.Errorf("got %+v", r)
	}
	w.golden("help_queue", w.raw(t.Context(), "queue"))
	w.golden("help_queue_ls", w.raw(t.Context(), "queue", "ls", "--help"))
}
