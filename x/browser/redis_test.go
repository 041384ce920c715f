package browser_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// startRedis starts a redis-server, with more arguments, that keeps nothing and ends with the test.
func startRedis(t *testing.T, more ...string) asynq.RedisClientOpt {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		const why = "no redis-server on the PATH: install Redis 6.2 or newer"
		if os.Getenv("CI_REQUIRE_REDIS") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	addr := freeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir()}
	start(t, "redis-server", append(args, more...)...)
	listens(t, addr)
	return asynq.RedisClientOpt{Addr: addr}
}

// start starts a process that ends with the test.
func start(t *testing.T, name string, args ...string) {
	t.Helper()
	var output bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // tells that it was killed
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, output.String())
		}
	})
}

// listens waits until a process takes connections.
func listens(t *testing.T, addr string) {
	t.Helper()
	(&site{}).eventually(t, addr+" to take connections", func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
