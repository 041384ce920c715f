package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// export runs the exporter until stop is called, which returns its exit code and what it said.
func (w *world) export(args ...string) (url string, stop func() (int, string)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	listening, code := make(chan struct{}), make(chan int, 1)
	said := newSignalWriter("/metrics\n", 1, func() { close(listening) })
	args = append([]string{"exporter", "--namespace", w.namespace, "--listen", "127.0.0.1:0"}, args...)
	go func() {
		code <- Run(ctx, args, Streams{In: strings.NewReader(""), Out: io.Discard, Err: said, Env: func(name string) (string, bool) {
			v, ok := w.env[name]
			return v, ok
		}})
	}()
	stop = func() (int, string) {
		cancel()
		return <-code, said.String()
	}
	select {
	case <-listening:
	case c := <-code:
		cancel()
		w.t.Fatalf("the exporter ended with %d: %s", c, said)
	}
	return regexp.MustCompile(`https?://\S+`).FindString(said.String()), stop
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestExporter(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	for _, args := range [][]string{{"--uri", redisAddr}, {"--redis-addr", redisAddr, "--redis-db", "0"}} {
		url, stop := w.export(args...)
		code, body := fetch(t, url)
		for _, want := range []string{`asynq_queue_size{queue="mail"}`, `asynq_scrape_success{part="queues"} 1`, "go_goroutines"} {
			if code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%v: %d, and no %s in\n%s", args, code, want, body)
			}
		}
		if strings.Contains(body, "asynq_queue_memory_usage_approx_bytes") {
			t.Errorf("%v: the memory was sampled unasked", args)
		}
		if code, body := fetch(t, strings.Replace(url, "/metrics", "/healthz", 1)); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%v: %d %s", args, code, body)
		}
		if code, said := stop(); code != ExitDone || strings.Count(said, "\n") != 1 {
			t.Errorf("%v: exit code %d, and it said %s", args, code, said)
		}
	}
	url, stop := w.export("--uri", redisAddr, "--memory-samples", "5")
	if _, body := fetch(t, url); !strings.Contains(body, `asynq_queue_memory_usage_approx_bytes{queue="mail"}`) {
		t.Errorf("no memory in\n%s", body)
	}
	_, _ = stop()
}

func TestExporterRefuses(t *testing.T) {
	w := newWorld(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for args, want := range map[string]struct {
		code int
		err  string
	}{
		"--port 1 --listen :1":              {ExitUsage, "leave one out"},
		"--redis-addr a --uri b":            {ExitUsage, "leave one out"},
		"--redis-db x":                      {ExitUsage, "invalid"},
		"--scrape-timeout 0s":               {ExitUsage, "more than 0"},
		"too many":                          {ExitUsage, "unknown command"},
		"--listen-client-ca none":           {ExitFailed, "need TLS"},
		"--listen-cert none":                {ExitFailed, "no such file"},
		"--listen " + taken.Addr().String(): {ExitFailed, "in use"},
	} {
		r := w.raw(t.Context(), append([]string{"exporter"}, strings.Fields(args)...)...)
		if r.code != want.code || r.out != "" || !strings.Contains(r.err, want.err) {
			t.Errorf("exporter %s: got %+v, want code %d and %q", args, r, want.code, want.err)
		}
	}
}
