package rate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// servers are the addresses of the redis-servers of all tests; empty where there is no redis-server.
var servers struct{ plain, cluster string }

func TestMain(m *testing.M) {
	code, err := withServers(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withServers(run func() int) (code int, err error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI_REQUIRE_REDIS") == "1" {
			return 1, errors.New("no redis-server on the PATH: install Redis 6.2 or newer")
		}
		fmt.Fprintln(os.Stderr, "no redis-server on the PATH: the tests run on an embedded Redis only")
		return run(), nil
	}
	dir, err := os.MkdirTemp("", "rate")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	plain, stop, err := startRedis(dir)
	if err != nil {
		return 1, err
	}
	defer stop()
	cluster, stopCluster, err := startRedis(dir, "--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(dir, "nodes.conf"))
	if err != nil {
		return 1, err
	}
	defer stopCluster()
	servers.plain, servers.cluster = plain, cluster
	if err := takeAllSlots(servers.cluster); err != nil {
		return 1, err
	}
	return run(), nil
}

// startRedis starts a redis-server on a free port.
func startRedis(dir string, args ...string) (addr string, stop func(), err error) {
	for range 5 { // another process may take the port that was free
		if addr, stop, err = tryRedis(dir, args); err == nil {
			return addr, stop, nil
		}
	}
	return "", nil, err
}

func tryRedis(dir string, args []string) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr = l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	if err := errors.Join(err, l.Close()); err != nil {
		return "", nil, err
	}
	if len(port) > 4 && port > "55535" { // its bus listens 10,000 higher
		port = fmt.Sprint(30000 + os.Getpid()%20000)
		addr = "127.0.0.1:" + port
	}
	cmd := exec.Command("redis-server", append([]string{
		"--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", dir,
	}, args...)...)
	dieWithParent(cmd)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it keeps nothing
		_ = cmd.Wait()
	}
	ready := make(chan error, 1)
	go func() {
		var log strings.Builder
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "eady to accept connections") {
				ready <- nil
				_, _ = io.Copy(io.Discard, output)
				return
			}
			log.WriteString(lines.Text() + "\n")
		}
		ready <- fmt.Errorf("redis-server does not start:\n%s", log.String())
	}()
	select {
	case err = <-ready:
	case <-time.After(20 * time.Second):
		err = errors.New("redis-server is not ready after 20 s")
	}
	if err != nil {
		stop()
		return "", nil, err
	}
	return addr, stop, nil
}

// takeAllSlots makes one node a whole cluster.
func takeAllSlots(addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := client.ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		return err
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil || strings.Contains(info, "cluster_state:ok") {
			return err
		}
		<-poll.C
	}
}

// place is a Redis under test.
type place struct {
	opt  asynq.RedisConnOpt
	mini *miniredis.Miniredis // nil if it is a real one
}

// each runs a test on an embedded Redis, a real one, and a cluster.
func each(t *testing.T, test func(t *testing.T, p place)) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		mini := miniredis.RunT(t)
		test(t, place{asynq.RedisClientOpt{Addr: mini.Addr()}, mini})
	})
	if servers.plain == "" {
		return
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, place{opt: asynq.RedisClientOpt{Addr: servers.plain}})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, place{opt: asynq.RedisClusterClientOpt{Addrs: []string{servers.cluster}}})
	})
}

// limiter makes one whose scope is the test's own.
func (p place) limiter(t *testing.T, limit Limit) *Limiter {
	t.Helper()
	l := NewLimiter(p.opt, t.Name(), limit)
	t.Cleanup(func() { closed(t, l.Close()) })
	return l
}

func (p place) semaphore(t *testing.T, tokens int) *Semaphore {
	t.Helper()
	s := NewSemaphore(p.opt, t.Name(), tokens)
	t.Cleanup(func() { closed(t, s.Close()) })
	return s
}

func closed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
