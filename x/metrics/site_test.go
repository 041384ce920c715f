package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// startRedis starts a redis-server for the test, and returns its address.
func startRedis(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		const why = "no redis-server on the PATH: install Redis 6.2 or newer"
		if os.Getenv("CI_REQUIRE_REDIS") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	start(t, "redis-server", "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir())
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	eventually(t, "Redis to answer", func() error { return client.Ping(context.Background()).Err() })
	return addr
}

// start starts a process that ends with the test.
func start(t testing.TB, name string, args ...string) {
	t.Helper()
	var output strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it keeps nothing
		_ = cmd.Wait()                          // tells that it was killed
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, output.String())
		}
	})
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually tries until there is no error, for 20 s at most: other processes give no signal.
func eventually(t testing.TB, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s: %v", what, err)
		}
	}
}

func quiet() asynq.Logger { return asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))) }

func newInspector(t testing.TB, opt asynq.RedisConnOpt) *asynq.Inspector {
	t.Helper()
	i := asynq.NewInspector(opt)
	t.Cleanup(func() { _ = i.Close() })
	return i
}

func newClient(t testing.TB, opt asynq.RedisConnOpt) *asynq.Client {
	t.Helper()
	c := asynq.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func enqueue(t testing.TB, c *asynq.Client, typename string, opts ...asynq.Option) {
	t.Helper()
	if _, err := c.Enqueue(asynq.NewTask(typename, nil), opts...); err != nil {
		t.Fatal(err)
	}
}

// gather returns the values of all gauges and counters, and the counts of histograms, by name and labels.
func gather(t testing.TB, collectors ...prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetGauge() != nil:
				values[name] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				values[name] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				values[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return values
}

// wantValues compares some of the values.
func wantValues(t testing.TB, got, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if is, ok := got[name]; !ok || is != v {
			t.Errorf("%s is %v (there: %v), want %v", name, is, ok, v)
		}
	}
	if t.Failed() {
		for name, v := range got {
			fmt.Println(name, v)
		}
	}
}

var errFailed = errors.New("failed")
