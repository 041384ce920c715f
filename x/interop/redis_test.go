package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startRedis starts a redis-server for the test, and returns its address. It ends with the test.
func startRedis(t *testing.T) (addr string) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		const why = "no redis-server on the PATH: install Redis 6.2 or newer to see both libraries at work on it"
		if os.Getenv("CI_REQUIRE_REDIS") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	dir := t.TempDir()
	var failed []error
	for range 5 { // another process may take the port that was free
		addr, err := tryRedis(t, dir)
		if err == nil {
			return addr
		}
		failed = append(failed, err)
	}
	t.Fatal(errors.Join(failed...))
	return ""
}

func tryRedis(t *testing.T, dir string) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr = l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	if err := errors.Join(err, l.Close()); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.Command("redis-server", "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", dir)
	dieWithParent(cmd)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting redis-server: %w", err)
	}
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it keeps nothing, and may be gone
		_ = cmd.Wait()                          // tells that it was killed
	}
	ready := make(chan error, 1)
	go func() {
		var log strings.Builder
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "eady to accept connections") {
				ready <- nil
				_, _ = io.Copy(io.Discard, output) // until it ends
				return
			}
			log.WriteString(lines.Text() + "\n")
		}
		ready <- fmt.Errorf("redis-server does not start:\n%s", log.String())
	}()
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = fmt.Errorf("redis-server is not ready: %w", ctx.Err())
	}
	if err != nil {
		stop()
		return "", err
	}
	t.Cleanup(stop)
	return addr, nil
}
