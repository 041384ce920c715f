package cli

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

func TestCluster(t *testing.T) {
	w := newWorld(t)
	addr := proctest.StartCluster(t).Addr()
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
	w.namespace = "" // the namespace of the tasks
	for _, args := range [][]string{{"--redis-cluster-nodes", addr}, {"-u", "redis-cluster://" + addr}} {
		w.shows("one", args)
	}
}

// shows checks that the web UI with the given flags shows a queue on a page and in both APIs.
func (w *world) shows(queue string, args []string) {
	w.t.Helper()
	url, stop := w.serveWeb(append(args, "--listen", "127.0.0.1:0")...)
	for _, path := range []string{"/queues", "/api/queues", "/api/v2/queues"} {
		if code, body := ask(w.t, url+path, "", ""); code != http.StatusOK || !strings.Contains(body, queue) {
			w.t.Errorf("%v: %s: %d\n%s", args, path, code, body)
		}
	}
	for _, path := range []string{"/redis", "/api/redis_info", "/api/v2/redis"} {
		if code, body := ask(w.t, url+path, "", ""); code != http.StatusOK {
			w.t.Errorf("%v: %s: %d\n%s", args, path, code, body)
		}
	}
	if code, stderr := stop(); code != ExitDone {
		w.t.Errorf("%v: exit code %d, standard error %s", args, code, stderr)
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
	addr := proctest.FreeAddr(t)
	_, sentinelPort, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	proctest.Start(t, "redis-server", config, "--sentinel", "--bind", "127.0.0.1", "--port", sentinelPort, "--dir", dir)
	proctest.Listens(t, addr)
	for _, args := range [][]string{{"--sentinel-addrs", addr, "--sentinel-master", "main"}, {"-u", "redis-sentinel://" + addr + "?master=main"}} {
		r := w.raw(t.Context(), append(args, "--namespace", w.namespace, "queue", "ls", "-o", "template={{.queue}}")...)
		if r.out != "default\nmail\nreports\n" || r.code != ExitDone {
			t.Errorf("%v: got %+v", args, r)
		}
		w.shows("reports", args)
	}
}
