package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// until calls is until it says true, or the test ends.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for !is() {
		if err := wait(t.Context(), pollEvery); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCluster(t *testing.T) {
	w := newWorld(t)
	addr, stop, err := startRedis(t.TempDir(), "--save", "", "--cluster-enabled", "yes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	node := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = node.Close() })
	if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		info, err := node.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	})
	c := asynq.NewClient(asynq.RedisClusterClientOpt{Addrs: []string{addr}})
	t.Cleanup(func() { _ = c.Close() })
	for _, queue := range []string{"one", "two"} {
		if _, err := c.Enqueue(asynq.NewTask("x", nil), asynq.Queue(queue)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"--cluster", "--cluster_addrs", addr}, {"--cluster", "-u", addr}, {"-u", "redis-cluster://" + addr}} {
		r := w.raw(t.Context(), append(args, "queue", "ls", "-o", "template={{.queue}} {{.pending}}")...)
		if r.out != "one 1\ntwo 1\n" || r.code != ExitDone {
			t.Errorf("%v: got %+v", args, r)
		}
	}
	if r := w.raw(t.Context(), "-u", "redis-cluster://"+addr, "stats", "-o", "template={{.redis.cluster}} {{.tasks.pending}}"); r.out != "true 2\n" {
		t.Errorf("stats: got %+v", r)
	}
}

func TestSentinel(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	dir := t.TempDir()
	host, port, err := net.SplitHostPort(redisAddr)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, "sentinel monitor main %s %s 1\n", host, port), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, stop, err := startRedis(dir, config, "--sentinel")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, args := range [][]string{{"--sentinel-addrs", addr, "--sentinel-master", "main"}, {"-u", "redis-sentinel://" + addr + "?master=main"}} {
		r := w.raw(t.Context(), append(args, "--namespace", w.namespace, "queue", "ls", "-o", "template={{.queue}}")...)
		if r.out != "default\nmail\nreports\n" || r.code != ExitDone {
			t.Errorf("%v: got %+v", args, r)
		}
	}
}
