package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq/internal/proctest"
)

// export runs the exporter until stop is called. stop returns its exit code and standard error.
func (w *world) export(args ...string) (url string, stop func() (int, string)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	listening, code := make(chan struct{}), make(chan int, 1)
	stderr := newSignalWriter("/metrics\n", 1, sync.OnceFunc(func() { close(listening) }))
	args = append([]string{"exporter", "--namespace", w.namespace, "--listen", "127.0.0.1:0"}, args...)
	go func() {
		code <- Run(ctx, args, Streams{In: strings.NewReader(""), Out: io.Discard, Err: stderr, Env: func(name string) (string, bool) {
			v, ok := w.env[name]
			return v, ok
		}})
	}()
	stop = func() (int, string) {
		cancel()
		return <-code, stderr.String()
	}
	select {
	case <-listening:
	case c := <-code:
		cancel()
		w.t.Fatalf("the exporter exited with %d: %s", c, stderr)
	}
	return regexp.MustCompile(`https?://\S+`).FindString(stderr.String()), stop
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
		if !strings.Contains(body, `asynq_queue_memory_usage_approx_bytes{queue="mail"}`) {
			t.Errorf("%v: no memory in\n%s", args, body)
		}
		if code, body := fetch(t, strings.Replace(url, "/metrics", "/healthz", 1)); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%v: %d %s", args, code, body)
		}
		if code, stderr := stop(); code != ExitDone || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, standard error %s", args, code, stderr)
		}
	}
	url, stop := w.export("--uri", redisAddr, "--memory-samples", "0")
	if _, body := fetch(t, url); strings.Contains(body, "asynq_queue_memory_usage_approx_bytes") {
		t.Errorf("--memory-samples 0 samples memory:\n%s", body)
	}
	_, _ = stop()
	url, stop = w.export("--uri", redisAddr, "--task-types", "10", "--flows", "10", "--health", "--threshold", "wait_notice=2m")
	_, body := fetch(t, url)
	for _, want := range []string{`asynq_scrape_success{part="statistics"} 1`, `asynq_flows{status="blocked"} 0`, `asynq_health_causes{kind="no-server",muted="false",severity="trouble"} 1`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	_, _ = stop()
}

// The exporter logs once that Redis is unavailable, and once that it is available again.
func TestExporterLogsOutage(t *testing.T) {
	w := newWorld(t)
	mini := miniredis.RunT(t)
	addr := mini.Addr()
	url, stop := w.export("--uri", addr)
	get := func(success string) {
		t.Helper()
		// go-redis returns its last error for up to a second after the server restarts.
		for ticker := time.NewTicker(pollEvery); ; <-ticker.C {
			if _, body := fetch(t, url); strings.Contains(body, `asynq_scrape_success{part="queues"} `+success+"\n") {
				break
			}
			if t.Context().Err() != nil {
				t.Fatal("the scrape does not change")
			}
		}
		fetch(t, url)
	}
	get("1")
	mini.Close()
	get("0")
	proctest.Until(t, "the port to be free", mini.Restart) // another process may have taken it
	get("1")
	code, stderr := stop()
	lines := strings.SplitAfter(stderr, "\n")
	if code != ExitDone || len(lines) != 4 || !strings.Contains(lines[1], `level=ERROR msg="Redis is unavailable" error=`) ||
		!strings.Contains(lines[1], addr) || !strings.Contains(lines[2], `level=INFO msg="Redis is available again" unavailable_for=`) {
		t.Errorf("exit code %d, log\n%s", code, stderr)
	}
}

func TestExporterRejectsFlags(t *testing.T) {
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
		"--port 1 --listen :1":              {ExitUsage, "mutually exclusive"},
		"--redis-addr a --uri b":            {ExitUsage, "use only one"},
		"--redis-db x":                      {ExitUsage, "--redis-db: \"x\" is not an integer"},
		"--scrape-timeout 0s":               {ExitUsage, "greater than 0"},
		"--flows -1":                        {ExitUsage, "--flows must be from 0 to 100000"},
		"--flows 100001":                    {ExitUsage, "--flows must be from 0 to 100000"},
		"--task-types -1":                   {ExitUsage, "must not be negative"},
		"--threshold wait_notice":           {ExitUsage, "does not have the form NAME=VALUE"},
		"--threshold wait_notice=soon":      {ExitUsage, `wait_notice: "soon" is not a duration`},
		"--threshold hog_share=2":           {ExitUsage, "hog_share must not be above 1"},
		"--threshold x=2":                   {ExitUsage, `unknown setting "x"`},
		"too many":                          {ExitUsage, "unexpected argument"},
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
