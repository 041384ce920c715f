package proctest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// readyWithin is how long a redis-server may take until it accepts connections, or has ended.
	readyWithin = 20 * time.Second
	// startTries is how many ports are tried. Another process may take one between the look and the start, and a Cluster's node also
	// needs the one that is 10,000 higher.
	startTries = 10
	// mostLog is how many lines of its output are kept.
	mostLog = 100
)

// HasRedis reports whether there is a redis-server on the PATH. Where there is none but CI_REQUIRE_REDIS=1 it returns an error.
func HasRedis() (bool, error) {
	_, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI_REQUIRE_REDIS") == "1" {
		return false, fmt.Errorf("%w: install Redis 6.2 or newer, as CI_REQUIRE_REDIS=1 asks for it", err)
	}
	return err == nil, nil
}

// NeedRedis skips a test where there is no redis-server on the PATH: a machine with nothing but Go. With CI_REQUIRE_REDIS=1 the test
// fails.
func NeedRedis(t testing.TB) {
	t.Helper()
	switch found, err := HasRedis(); {
	case err != nil:
		t.Fatal(err)
	case !found:
		t.Skip("no redis-server on the PATH: install Redis 6.2 or newer")
	}
}

// Redis is a redis-server process on a loopback port, with a directory of its own. On Linux it dies with this process.
type Redis struct {
	addr string
	dir  string
	args []string

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil while stopped
	over chan struct{} // closed when the output of the process and its children has ended
	log  []string      // the last lines of the output
}

// StartRedis starts a redis-server for a test, which ends with it. See NewRedis, and NeedRedis for where there is none.
func StartRedis(t testing.TB, args ...string) *Redis { t.Helper(); return forTest(t, NewRedis, args) }

// forTest starts a server that ends with the test. What it printed is in the test's log if that fails.
func forTest(t testing.TB, start func(...string) (*Redis, error), args []string) *Redis {
	t.Helper()
	NeedRedis(t)
	r, err := start(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.Close(); t.Failed() {
			t.Logf("redis-server at %s printed:\n%s", r.addr, r.Log())
		}
	})
	return r
}

// NewRedis starts a redis-server on a free port, and returns when it accepts connections. It keeps nothing on disk unless args say so:
// they are added to the command line and override what stands there. The caller closes it.
func NewRedis(args ...string) (r *Redis, err error) {
	dir, err := os.MkdirTemp("", "redis-server-")
	if err != nil {
		return nil, err
	}
	for range startTries {
		r = &Redis{dir: dir}
		if r.addr, err = freeAddr(); err != nil {
			break
		}
		_, port, _ := net.SplitHostPort(r.addr) // it is an address
		r.args = append([]string{"--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", dir}, args...)
		if err = r.start(); err == nil {
			return r, nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

// start starts the process and waits until it says that it accepts connections.
func (r *Redis) start() error {
	cmd := exec.Command("redis-server", r.args...)
	DieWithParent(cmd)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting redis-server: %w", err)
	}
	ready, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		r.follow(output, ready)
	}()
	r.mu.Lock()
	r.cmd, r.over = cmd, over
	r.mu.Unlock()
	late := time.NewTimer(readyWithin)
	defer late.Stop()
	select {
	case <-ready:
		return nil
	case <-over:
	case <-late.C:
	}
	r.Kill()
	return fmt.Errorf("redis-server does not start:\n%s", r.Log())
}

// follow reads the server's output to its end, and closes ready once the server accepts connections.
func (r *Redis) follow(output io.Reader, ready chan<- struct{}) {
	told := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		r.mu.Lock()
		r.log = append(r.log, lines.Text())
		r.log = r.log[max(0, len(r.log)-mostLog):]
		r.mu.Unlock()
		if !told && strings.Contains(lines.Text(), "eady to accept connections") {
			told = true
			close(ready)
		}
	}
}

// Addr is the server's host:port.
func (r *Redis) Addr() string { return r.addr }

// Log is the last lines of what the server printed.
func (r *Redis) Log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.log, "\n")
}

// Kill ends the server at once with SIGKILL, as a crash of its host would, and waits until it is gone.
func (r *Redis) Kill() { r.end(syscall.SIGKILL) }

// Stop ends the server in good order and waits until it is gone. Without a running server it does nothing.
func (r *Redis) Stop() { r.end(syscall.SIGTERM) }

// Restart starts the server again on the same port and directory, after Kill, Stop, or while it runs.
func (r *Redis) Restart(t testing.TB) {
	t.Helper()
	r.Stop()
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
}

// Close ends the server at once, and removes its directory.
func (r *Redis) Close() {
	r.Kill()
	_ = os.RemoveAll(r.dir) // a temporary directory
}

func (r *Redis) end(signal os.Signal) {
	r.mu.Lock()
	cmd, over := r.cmd, r.over
	r.cmd = nil
	r.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(signal) // it may have ended by itself
	late := time.AfterFunc(readyWithin, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	<-over
	_ = cmd.Wait() // its exit code tells only by what it was ended
}
