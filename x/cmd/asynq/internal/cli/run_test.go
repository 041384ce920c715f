package cli

import (
	"strings"
	"testing"
)

func TestUsageErrors(t *testing.T) {
	w := newWorld(t)
	for _, args := range []string{
		"nothing", "queue nothing", "queue ls too many", "--nothing", "queue ls --watch=1ms", "queue ls --db x", "queue ls --db -1",
		"queue ls --context nowhere", "queue ls --uri http://host", "queue ls --config /does/not/exist", "queue ls --namespace {}",
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
