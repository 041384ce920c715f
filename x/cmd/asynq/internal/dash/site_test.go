package dash

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/asynq-go/asynq"
)

// each runs a test on a fake Redis and on a real one.
func each(t *testing.T, f func(t *testing.T, r asynq.RedisClientOpt)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		f(t, asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()})
	})
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI_REQUIRE_REDIS") == "1" {
			t.Error("redis-server is missing")
		}
		return
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f(t, asynq.RedisClientOpt{Addr: startRedis(t)})
	})
}

// startRedis starts a redis-server on a free loopback port, which ends with the test.
func startRedis(t *testing.T) string {
	t.Helper()
	for range 5 { // another process may take the port first
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("redis-server", "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir())
		dieWithTest(cmd)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready := make(chan bool, 1)
		go func() {
			lines := bufio.NewScanner(out)
			said := false
			for lines.Scan() {
				if !said && strings.Contains(lines.Text(), "Ready to accept connections") {
					said = true
					ready <- true
				}
			}
			if !said {
				ready <- false
			}
		}()
		if <-ready {
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			return addr
		}
		_ = cmd.Wait()
	}
	t.Fatal("redis-server does not start")
	return ""
}

// tools are a client and an inspector, closed with the test.
func tools(t *testing.T, r asynq.RedisConnOpt) (*asynq.Client, *asynq.Inspector) {
	t.Helper()
	client, insp := asynq.NewClient(r), asynq.NewInspector(r)
	t.Cleanup(func() {
		_ = client.Close()
		_ = insp.Close()
	})
	return client, insp
}

func enqueue(t *testing.T, c *asynq.Client, task *asynq.Task, opts ...asynq.Option) string {
	t.Helper()
	info, err := c.EnqueueContext(context.Background(), task, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// start starts a server that ends with the test.
func start(t *testing.T, r asynq.RedisConnOpt, h asynq.HandlerFunc, queues ...string) {
	t.Helper()
	cfg := asynq.Config{
		Concurrency: 4, Queues: map[string]int{}, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	}
	for _, q := range queues {
		cfg.Queues[q] = 1
	}
	s := asynq.NewServer(r, cfg)
	if err := s.Start(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
}
