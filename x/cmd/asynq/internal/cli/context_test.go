package cli

import (
	"encoding/json"
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

// An ACL user logs in with flags, the environment or a URI. The error for a wrong password does not
// reveal it.
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

// Warnings about an exposed password file and about an overridden context go only to standard
// error.
func TestConfigWarnings(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.home, ".asynq.yaml")
	write := func(content string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	const exposed = "warning: %s contains a password and is accessible to other users: restrict it with chmod 600\n"
	plain := "current_context: here\ncontexts:\n  here: {uri: \"" + redisAddr + "\"}\n"
	secret := plain + "  there: {uri: other, password: x}\n"
	inURI := plain + "  there: {uri: 'redis://:x@other'}\n"
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		warned  bool
	}{
		"private":           {secret, 0o600, false},
		"group":             {secret, 0o640, true},
		"others":            {secret, 0o604, true},
		"in a URI":          {inURI, 0o644, true},
		"top level":         {"sentinel_password: x\nuri: " + redisAddr + "\n", 0o644, true},
		"without passwords": {plain, 0o644, false},
		"password file":     {plain + "  there: {password_file: x}\n", 0o644, false},
	} {
		write(c.content, c.mode)
		want := ""
		if c.warned {
			want = "asynq: " + strings.ReplaceAll(exposed, "%s", path)
		}
		for _, args := range []string{"queue ls -o json", "context ls -o json", "context show -o json"} {
			r := w.raw(t.Context(), append(strings.Fields(args), "--namespace", w.namespace)...)
			if r.code != ExitDone || r.err != want || !json.Valid([]byte(r.out)) {
				t.Errorf("%s: %s: got %+v; want on standard error %q", name, args, r, want)
			}
		}
	}
	write(secret, 0o600)
	for _, c := range []struct {
		env, args, want string
	}{
		{"ASYNQ_URI", "", "asynq: warning: ASYNQ_URI overrides the server of context \"here\"\n"},
		{"ASYNQ_URI", "--context there", "asynq: warning: ASYNQ_URI overrides the server of context \"there\"\n"},
		{"ASYNQ_URI", "--uri " + redisAddr, ""},
		{"ASYNQ_PASSWORD_FILE", "--uri " + redisAddr, ""},
		{"", "", ""},
	} {
		w.env = map[string]string{c.env: redisAddr}
		if c.env == "ASYNQ_PASSWORD_FILE" {
			w.env[c.env] = os.DevNull
		}
		r := w.raw(t.Context(), append(strings.Fields(c.args), "--namespace", w.namespace, "queue", "ls", "-o", "json")...)
		if r.code != ExitDone || r.err != c.want || r.out != "[]\n" {
			t.Errorf("%s %s: got %+v; want on standard error %q", c.env, c.args, r, c.want)
		}
	}
	write("uri: other\n", 0o600) // no context: there is nothing to override
	w.env = map[string]string{"ASYNQ_URI": redisAddr}
	if r := w.raw(t.Context(), "--namespace", w.namespace, "queue", "ls", "-o", "json"); r.err != "" || r.code != ExitDone {
		t.Errorf("without a context: got %+v", r)
	}
}
