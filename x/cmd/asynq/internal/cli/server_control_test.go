package cli

import (
	"strings"
	"testing"

	"github.com/asynq-go/asynq/internal/proctest"
)

// Each command of asynq server asks, changes the server, and says what it did.
func TestServerCommands(t *testing.T) {
	w := newWorld(t)
	server, end := w.startActiveTask("mail", "busy")
	defer end()
	id := server.ID
	w.inTerminal = false
	if r := w.run("__complete", "server", "pause-queue", ""); !strings.Contains(r.out, id) {
		t.Errorf("completion of servers: %+v", r)
	}
	if r := w.run("__complete", "server", "pause-queue", id, ""); !strings.Contains(r.out, "mail") {
		t.Errorf("completion of queues: %+v", r)
	}
	for _, tt := range []struct{ args, done string }{
		{"set-concurrency " + id + " 5", "runs up to 5 tasks at once"},
		{"pause-queue " + id + " mail", `has paused queue "mail"`},
		{"resume-queue " + id + " mail", `has resumed queue "mail"`},
		{"quiet " + id, "is quiet"},
		{"stop " + id, "is shutting down"},
	} {
		args := append([]string{"server"}, strings.Fields(tt.args)...)
		if r := w.run(args...); r.code != ExitUsage || !strings.Contains(r.err, "confirm with --yes") {
			t.Errorf("%s without --yes: %+v", tt.args, r)
		}
		if r := w.run(append(args, "--dry-run")...); r.code != ExitDone || !strings.Contains(r.err, "would ") {
			t.Errorf("%s with --dry-run: %+v", tt.args, r)
		}
		if r := w.run(append(args, "--yes")...); r.code != ExitDone || !strings.Contains(r.err, tt.done) {
			t.Errorf("%s: %+v", tt.args, r)
		}
		servers, err := w.inspector.Servers()
		if err != nil || len(servers) != 1 {
			t.Fatalf("servers %v, error %v", servers, err)
		}
		s := servers[0]
		if paused := strings.HasPrefix(tt.args, "pause"); s.Concurrency != 5 || (len(s.PausedQueues) == 1) != paused {
			t.Errorf("after %s: %+v", tt.args, s)
		}
		if r := w.run("server", "ls"); strings.Contains(r.out, "mail:paused") != (len(s.PausedQueues) == 1) {
			t.Errorf("after %s: %s", tt.args, r.out)
		}
		if stopped := strings.HasPrefix(tt.args, "quiet") || strings.HasPrefix(tt.args, "stop"); (s.Status == "stopped") != stopped {
			t.Errorf("after %s it is %s", tt.args, s.Status)
		}
	}
	end()
	proctest.Eventually(t, "the server to end", func() bool {
		servers, err := w.inspector.Servers()
		return err == nil && len(servers) == 0
	})
	for args, code := range map[string]int{
		"quiet " + id + " --yes": ExitNotFound, "pause-queue x mail --yes": ExitNotFound, "set-concurrency x 5 --yes": ExitNotFound,
		"set-concurrency x many": ExitUsage, "set-concurrency x": ExitUsage, "quiet": ExitUsage, "resume-queue x": ExitUsage,
	} {
		if r := w.run(append([]string{"server"}, strings.Fields(args)...)...); r.code != code {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
