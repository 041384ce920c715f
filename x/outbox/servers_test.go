package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
)

// sqlServer is a database server. All tests of this binary share one of each kind, which starts
// when the first test needs it, unless they kill it.
type sqlServer struct {
	name    string   // for messages
	require string   // environment variable that makes tests fail instead of skipping them
	files   []string // where its programs may be installed, besides the PATH; patterns
	driver  string
	dsn     func(port, database string) string
	setUp   func(s *sqlServer) (serve []string, err error) // returns the command that serves

	once   sync.Once
	err    error
	dir    string
	port   string
	serve  []string
	cmd    *exec.Cmd
	exited chan struct{}
	admin  *sql.DB
	made   atomic.Int64 // databases
}

// startWithin limits how long a server takes to start.
const startWithin = 2 * time.Minute

var postgresServer, mariadbServer = newPostgres(), newMariaDB()

// newPostgres returns a Postgres that keeps what it has committed if its processes are killed.
func newPostgres() *sqlServer {
	return &sqlServer{
		name: "postgres", require: "CI_REQUIRE_POSTGRES", files: []string{"/usr/lib/postgresql/*/bin"}, driver: "pgx",
		dsn: func(port, database string) string {
			return "postgres://postgres@127.0.0.1:" + port + "/" + database + "?sslmode=disable"
		},
		setUp: func(s *sqlServer) ([]string, error) {
			data := filepath.Join(s.dir, "data")
			return []string{
				"postgres", "-D", data, "-p", s.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
				"-c", "fsync=off", "-c", "max_connections=200",
			}, s.run("initdb", "--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync")
		},
	}
}

// newMariaDB returns a MariaDB that keeps what it has committed if its process is killed.
func newMariaDB() *sqlServer {
	return &sqlServer{
		name: "mariadbd", require: "CI_REQUIRE_MARIADB", files: []string{"/usr/sbin"}, driver: "mysql",
		dsn: func(port, database string) string { return "root@tcp(127.0.0.1:" + port + ")/" + database },
		setUp: func(s *sqlServer) ([]string, error) {
			data := filepath.Join(s.dir, "data")
			return []string{
				"mariadbd", "--no-defaults", "--datadir=" + data, "--port=" + s.port, "--bind-address=127.0.0.1",
				"--socket=" + filepath.Join(s.dir, "socket"), "--pid-file=" + filepath.Join(s.dir, "pid"), "--max-connections=300",
				"--innodb-flush-log-at-trx-commit=2", "--skip-name-resolve",
			}, s.run("mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
		},
	}
}

// find returns the path of a program of the server.
func (s *sqlServer) find(program string) (string, error) {
	path, err := exec.LookPath(program)
	for _, pattern := range s.files {
		found, _ := filepath.Glob(filepath.Join(pattern, program))
		if err != nil && len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return path, err
}

// need skips the test if the server is not installed.
func (s *sqlServer) need(t testing.TB) {
	t.Helper()
	if _, err := s.find(s.name); err != nil {
		if os.Getenv(s.require) == "1" {
			t.Fatalf("%s is not installed, and %s=1 is set", s.name, s.require)
		}
		t.Skipf("%s is not installed", s.name)
	}
}

// command returns a command of the server, as an unprivileged user.
func (s *sqlServer) command(program string, args ...string) (*exec.Cmd, error) {
	path, err := s.find(program)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	proctest.DieWithParent(cmd)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.dir)
	return cmd, runAsUser(cmd, s.dir)
}

func (s *sqlServer) run(program string, args ...string) error {
	cmd, err := s.command(program, args...)
	if err != nil {
		return err
	}
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, output)
	}
	return nil
}

// start starts the server and waits until it accepts connections.
func (s *sqlServer) start() (err error) {
	if s.dir, err = os.MkdirTemp("", "outbox-"+s.name+"-"); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, s.port, _ = net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		return err
	}
	if s.serve, err = s.setUp(s); err != nil {
		return err
	}
	if s.admin, err = sql.Open(s.driver, s.dsn(s.port, map[string]string{"pgx": "postgres"}[s.driver])); err != nil {
		return err
	}
	return s.launch()
}

// launch starts the process and waits until it accepts connections.
func (s *sqlServer) launch() (err error) {
	if s.cmd, err = s.command(s.serve[0], s.serve[1:]...); err != nil {
		return err
	}
	var output lockedBuffer
	s.cmd.Stdout, s.cmd.Stderr = &output, &output
	if err := s.cmd.Start(); err != nil {
		return err
	}
	exited, cmd := make(chan struct{}), s.cmd
	s.exited = exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // stop and crash kill it
	}()
	late := time.NewTimer(startWithin)
	defer late.Stop()
	for {
		err := s.admin.PingContext(context.Background())
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended:\n%s", s.name, output.String())
		case <-late.C:
			return fmt.Errorf("%s accepts no connections: %w\n%s", s.name, err, output.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// crash kills the process of the server and starts it again on the same data. Postgres may need
// several starts: it refuses to start while processes of the killed one exist.
func (s *sqlServer) crash(t testing.TB) {
	t.Helper()
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.exited
	proctest.Until(t, s.name+" to start again", s.launch)
}

// stop ends the server and removes its files.
func (s *sqlServer) stop() error {
	var err error
	if s.admin != nil {
		err = s.admin.Close()
	}
	if s.exited != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // both end at once; it may have ended
		late := time.AfterFunc(10*time.Second, func() { _ = s.cmd.Process.Kill() })
		<-s.exited
		late.Stop()
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// database creates an empty database and returns its data source name.
func (s *sqlServer) database(t testing.TB) string {
	t.Helper()
	s.need(t)
	s.once.Do(func() { s.err = s.start() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	name := fmt.Sprintf("outbox_%d", s.made.Add(1))
	if _, err := s.admin.ExecContext(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return s.dsn(s.port, name)
}

// lockedBuffer is a buffer that a process writes while tests read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
