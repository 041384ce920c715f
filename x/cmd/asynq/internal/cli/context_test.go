package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const contextFile = `# kept
contexts:
  prod: # kept too
    uri: redis://user:secret@prod:2/3
    tls: true
  dev:
    uri: dev:1
    password: secret
`

func TestContext(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.home, ".asynq.yaml")
	if err := os.WriteFile(path, []byte(contextFile), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) result { return w.raw(t.Context(), args...) }
	w.golden("context_ls", run("context", "ls"))
	w.golden("context_use", run("context", "use", "prod"))
	r := run("context", "use", "none")
	if r.code != ExitNotFound {
		t.Errorf("an unknown context: got %+v; want exit code %d", r, ExitNotFound)
	}
	if r := run("queue", "ls", "--context", "none"); r.code != ExitNotFound || r.out != "" {
		t.Errorf("a command in an unknown context: got %+v; want exit code %d", r, ExitNotFound)
	}
	w.golden("context_ls_current", run("context", "ls", "-o", "json"))
	w.env["ASYNQ_PASSWORD"] = "secret"
	w.golden("context_show", run("context", "show", "--db", "9"))
	content, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(content), "# kept\n") || !strings.Contains(string(content), "# kept too") {
		t.Errorf("the file is %q, %v; want its comments kept", content, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v; want it as it was", info.Mode(), err)
	}
}

// A user of ACLs logs in by flags, by the environment and by a URI; a wrong password is a failure that does not show it.
func TestLogin(t *testing.T) {
	w := newWorld(t)
	user := "user-" + w.namespace
	err := w.redis.Do(t.Context(), "ACL", "SETUSER", user, "on", ">secret:/@", "~*", "&*", "+@all").Err()
	if err != nil {
		t.Fatal(err)
	}
	seedQueues(w)
	if r := w.run("-U", user, "-p", "secret:/@", "queue", "ls"); r.code != ExitDone {
		t.Errorf("by flags: got %+v", r)
	}
	r := w.raw(t.Context(), "-u", "redis://"+user+":secret%3A%2F%40@"+redisAddr, "--namespace", w.namespace, "queue", "ls", "-o", "template={{.queue}}")
	if r.out != "default\nmail\nreports\n" {
		t.Errorf("by URI: got %+v", r)
	}
	w.env["ASYNQ_PASSWORD"] = "wrong-secret"
	r = w.run("--username", user, "queue", "ls")
	if r.code != ExitFailed || strings.Contains(r.err, "secret") || !strings.Contains(r.err, "WRONGPASS") {
		t.Errorf("a wrong password: got %+v", r)
	}
}
