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
	// readyWithin limits how long a redis-server takes to start or to stop.
	readyWithin = time.Minute
	// startTries is the number of ports to try. Another process may take a port before the server
	// binds it, and a Cluster node also needs the port that is 10,000 higher.
	startTries = 10
	// mostLog is the number of output lines to keep.
	mostLog = 100
)

// HasRedis reports whether redis-server is on the PATH. If not, it returns an error if
// CI_REQUIRE_REDIS=1 is set.
func HasRedis() (bool, error) {
	_, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI_REQUIRE_REDIS") == "1" {
		return false, fmt.Errorf("%w: install Redis 6.2 or newer, CI_REQUIRE_REDIS=1 is set", err)
	}
	return err == nil, nil
}

// NeedRedis skips the test if redis-server is not on the PATH. If CI_REQUIRE_REDIS=1 is set, the
// test fails instead.
func NeedRedis(t testing.TB) {
	t.Helper()
	switch found, err := HasRedis(); {
	case err != nil:
		t.Fatal(err)
	case !found:
		t.Skip("redis-server is not on the PATH: install Redis 6.2 or newer")
	}
}

// Redis is a redis-server process on a loopback port, with its own directory. On Linux it dies with
// this process.
type Redis struct {
	addr string
	dir  string
	args []string

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil while stopped
	over chan struct{} // closed when the output of the process and its children ends
	log  []string      // the last lines of the output
}

// StartRedis starts a redis-server and stops it when the test ends. See NewRedis, and NeedRedis for
// a machine without redis-server.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	NeedRedis(t)
	r, err := NewRedis(args...)
	if err != nil {
		t.Fatal(err)
	}
	r.closeAfter(t)
	return r
}

// closeAfter stops the server when the test ends. If the test fails, its output is logged.
func (r *Redis) closeAfter(t testing.TB) {
	t.Cleanup(func() {
		if r.Close(); t.Failed() {
			t.Logf("redis-server at %s printed:\n%s", r.addr, r.Log())
		}
	})
}

// NewRedis starts a redis-server on a free port, and returns when it accepts connections.
// Persistence is off. The args are appended to the command line and override the defaults. The
// caller must close it.
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
		_, port, _ := net.SplitHostPort(r.addr) // always a valid address
		r.args = append([]string{"--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", dir}, args...)
		if err = r.start(); err == nil {
			return r, nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

// start starts the process and waits until it accepts connections.
func (r *Redis) start() error {
	cmd := exec.Command("redis-server", r.args...)
	DieWithParent(cmd)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
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
	return fmt.Errorf("redis-server did not start:\n%s", r.Log())
}

// follow reads the server's output to its end, and closes ready when the server accepts
// connections.
func (r *Redis) follow(output io.Reader, ready chan<- struct{}) {
	isReady := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		r.mu.Lock()
		r.log = append(r.log, lines.Text())
		r.log = r.log[max(0, len(r.log)-mostLog):]
		r.mu.Unlock()
		if !isReady && strings.Contains(lines.Text(), "eady to accept connections") {
			isReady = true
			close(ready)
		}
	}
}

// Addr returns the server's host:port.
func (r *Redis) Addr() string { return r.addr }

// Log returns the last lines of the server's output.
func (r *Redis) Log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.log, "\n")
}

// Kill ends the server with SIGKILL, like a crash of its host, and waits for it.
func (r *Redis) Kill() { r.end(syscall.SIGKILL) }

// Stop shuts the server down and waits for it. It does nothing if the server is not running.
func (r *Redis) Stop() { r.end(syscall.SIGTERM) }

// Restart starts the server again on the same port and directory. It stops a running server first.
func (r *Redis) Restart(t testing.TB) {
	t.Helper()
	r.Stop()
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
}

// Close ends the server and removes its directory.
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
	_ = cmd.Process.Signal(signal) // it may have ended already
	late := time.AfterFunc(readyWithin, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	<-over
	_ = cmd.Wait() // the error only reports the signal
}
