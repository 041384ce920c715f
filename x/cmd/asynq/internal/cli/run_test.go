package cli

import (
	"strings"
	"testing"
)

func TestUsageErrors(t *testing.T) {
	w := newWorld(t)
	for _, args := range []string{
		"nothing", "queue nothing", "queue ls too many", "--nothing", "queue ls --watch=1ms", "queue ls --db x", "queue ls --db -1",
		"queue ls --uri http://host", "queue ls --config /does/not/exist", "queue ls --namespace {}", "queue ls --namespace \xff", "help nothing", "completion nothing",
	} {
		r := w.raw(t.Context(), strings.Fields(args)...)
		if r.code != ExitUsage || r.out != "" || !strings.HasPrefix(r.err, "asynq: ") {
			t.Errorf("asynq %s: got %+v; want a complaint on standard error and exit code %d", args, r, ExitUsage)
		}
	}
}

func TestUnreachable(t *testing.T) {
	w := newWorld(t)
	r := w.raw(t.Context(), "--uri", "127.0.0.1:1", "queue", "ls")
	if r.code != ExitFailed || r.out != "" || !strings.Contains(r.err, "connection refused") {
		t.Errorf("got %+v; want exit code %d", r, ExitFailed)
	}
}

// Help goes to standard output, tells the connection flags once, and says what exit codes mean.
func TestHelp(t *testing.T) {
	w := newWorld(t)
	if r := w.raw(t.Context(), "--help"); r.code != ExitDone || r.err != "" || !strings.Contains(r.out, "--sentinel-master") || !strings.Contains(r.out, "3 not found") {
		t.Errorf("got %+v", r)
	}
	w.golden("help_queue", w.raw(t.Context(), "queue"))
	w.golden("help_queue_ls", w.raw(t.Context(), "queue", "ls", "--help"))
}
