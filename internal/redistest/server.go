package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// readyWithin is how long a redis-server may take until it accepts connections.
const readyWithin = 20 * time.Second

// Server is a redis-server process. It dies with the test process.
type Server struct {
	addr string
	args []string

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil while stopped
	over chan struct{} // closed when the process's output has ended
	log  []string      // last lines of the output
}

// StartServer starts a redis-server that the test has for itself, to fill, freeze or kill it. It keeps nothing on disk unless args
// say so, and is stopped when the test ends. Where there is no redis-server on the PATH the test is skipped.
//
// args are added to the command line and override what stands there.
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		skip(t, "no redis-server on the PATH")
	}
	s, err := startServer(t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// skip leaves out a test that needs a real server where there is none: a machine with nothing but Go. With CI_REQUIRE_REDIS=1 that
// is a failure.
func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI_REQUIRE_REDIS") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// startServer starts a server on a free port. Another process may take the port first: then it tries another one.
func startServer(dir string, args ...string) (s *Server, err error) {
	for range 5 {
		var port string
		if port, err = freePort(); err != nil {
			return nil, err
		}
		s = &Server{addr: net.JoinHostPort("127.0.0.1", port)}
		s.args = append([]string{"--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", dir}, args...)
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("redistest: looking for a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", err
	}
	return port, l.Close()
}

// start starts the process and waits until it says that it accepts connections.
func (s *Server) start() error {
	cmd := exec.Command("redis-server", s.args...)
	dieWithParent(cmd)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("redistest: starting redis-server: %w", err)
	}
	ready, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		s.follow(output, ready)
	}()
	s.mu.Lock()
	s.cmd, s.over = cmd, over
	s.mu.Unlock()
	late := time.NewTimer(readyWithin)
	defer late.Stop()
	select {
	case <-ready:
		return nil
	case <-over:
	case <-late.C:
	}
	s.end(syscall.SIGKILL)
	return fmt.Errorf("redistest: redis-server does not start:\n%s", s.Log())
}

// follow reads the server's output to its end, and closes ready once the server accepts connections.
func (s *Server) follow(output io.Reader, ready chan<- struct{}) {
	told := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		s.mu.Lock()
		s.log = append(s.log, lines.Text())
		if len(s.log) > 100 {
			s.log = s.log[len(s.log)-50:]
		}
		s.mu.Unlock()
		if !told && strings.Contains(lines.Text(), "eady to accept connections") {
			told = true
			close(ready)
		}
	}
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return s.addr }

// Client returns a client of the server, closed when the test ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() { _ = client.Close() }) // the test is over
	return client
}

// Log is the last lines of what the server printed.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

// Kill ends the server at once with SIGKILL, as a crash of its host would, and waits until it is gone.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server in good order and waits until it is gone. Without a running server it does nothing.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Restart starts the server again on the same port and directory, after Kill, Stop, or while it runs.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) end(signal os.Signal) {
	s.mu.Lock()
	cmd, over := s.cmd, s.over
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(signal) // it may have ended by itself
	late := time.AfterFunc(readyWithin, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	<-over
	_ = cmd.Wait() // its exit code tells only by what it was ended
}

func itoa(n int) string { return strconv.Itoa(n) }
