package e2e

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// timeout is how long tests wait.
const timeout = 60 * time.Second

// need skips a test if a program is missing, unless the environment variable requires it.
func need(t *testing.T, program, required string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return path
	case os.Getenv(required) == "1":
		t.Fatalf("no %s on the PATH, and %s=1", program, required)
	default:
		t.Skipf("no %s on the PATH", program)
	}
	return ""
}

// needPHP is like need for PHP with curl.
func needPHP(t *testing.T) string {
	t.Helper()
	const required = "CI_REQUIRE_PHP"
	php := need(t, "php", required)
	if err := exec.Command(php, "-r", `exit(extension_loaded("curl") ? 0 : 1);`).Run(); err != nil {
		if os.Getenv(required) == "1" {
			t.Fatalf("%s has no curl (%v), and %s=1: install php-curl", php, err, required)
		}
		t.Skipf("%s has no curl: %v", php, err)
	}
	return php
}

// process is a child process of the test.
type process struct {
	cmd  *exec.Cmd
	out  string // output file
	done chan struct{}
	err  error // valid after done
}

// start starts a program, which is killed when the test ends. If the test fails, its output is
// logged.
func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), out: filepath.Join(t.TempDir(), "out"), done: make(chan struct{})}
	out, err := os.OpenFile(p.out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out // a file: Wait does not block on inherited pipes
	proctest.DieWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // may have ended
		<-p.done
		_ = out.Close()
		if text, _ := os.ReadFile(p.out); t.Failed() && len(text) > 0 {
			t.Logf("output of %s (pid %d):\n%s", filepath.Base(name), p.cmd.Process.Pid, tail(text))
		}
	})
	return p
}

// output returns the output of the process so far.
func (p *process) output(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tail returns the end of a long text.
func tail(text []byte) []byte { return text[max(0, len(text)-16_000):] }

// wait waits until the process exits, and fails the test if it exits with an error.
func (p *process) wait(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
		if p.err != nil {
			t.Fatalf("%s: %v", strings.Join(p.cmd.Args, " "), p.err)
		}
	case <-time.After(timeout):
		t.Fatalf("%s does not end", strings.Join(p.cmd.Args, " "))
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // may have ended
	<-p.done
}

// term sends SIGTERM and waits until the process exits.
func (p *process) term(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // may have ended
	p.wait(t)
}

// env is a Redis server and a service.
type env struct {
	redis   string
	addr    string
	lease   time.Duration
	config  string // path of the configuration
	service *process
}

func (s *env) url() string { return "http://" + s.addr }

// newEnv starts Redis and the service.
func newEnv(t *testing.T, lease time.Duration) *env {
	t.Helper()
	s := &env{redis: proctest.StartRedis(t).Addr(), addr: proctest.FreeAddr(t), lease: lease}
	s.serve(t)
	return s
}

// serve starts or restarts the service.
func (s *env) serve(t *testing.T) {
	t.Helper()
	if s.config == "" {
		s.writeConfig(t, "", "")
	}
	s.await(t, start(t, nil, program(t), "service", "--config", s.config))
}

// await waits until a process that runs the service is ready.
func (s *env) await(t *testing.T, p *process) {
	t.Helper()
	s.service = p
	proctest.Eventually(t, "the service is ready", func() bool {
		select {
		case <-s.service.done:
			t.Fatalf("the service exited: %v", s.service.err)
		default:
		}
		response, err := http.Get(s.url() + "/readyz")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// inspector returns an Inspector.
func (s *env) inspector(t *testing.T) *asynq.Inspector {
	t.Helper()
	i := asynq.NewInspector(asynq.RedisClientOpt{Addr: s.redis})
	t.Cleanup(func() { _ = i.Close() })
	return i
}

// php starts a PHP script in testdata, with URL and token of the service, and arguments.
func (s *env) php(t *testing.T, script string, args ...string) *process {
	t.Helper()
	return start(t, clientEnv(s.url()), needPHP(t), append([]string{filepath.Join("testdata", script)}, args...)...)
}

func clientEnv(url string) []string { return []string{"ASYNQ_URL=" + url, "ASYNQ_TOKEN=" + token} }

// logbook is a file that workers append lines to.
type logbook struct {
	t    *testing.T
	path string
}

func newLogbook(t *testing.T) *logbook {
	t.Helper()
	return &logbook{t, filepath.Join(t.TempDir(), "log")}
}

// lines returns the complete lines.
func (l *logbook) lines() []string {
	text, err := os.ReadFile(l.path)
	if err != nil && !os.IsNotExist(err) {
		l.t.Error(err)
	}
	end := bytes.LastIndexByte(text, '\n')
	if end < 0 {
		return nil
	}
	return strings.Split(string(text[:end]), "\n")
}
