package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/asynq-go/asynq/internal/proctest"
)

// The web UI and the exporter send alerts about a queue that no server processes.
func TestAlerts(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	bodies := make(chan string, 1000)
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	}))
	t.Cleanup(sink.Close)
	file := filepath.Join(w.home, "alerts.yaml")
	if err := os.WriteFile(file, []byte("slack: ["+sink.URL+"/secret]\nafter: 0s\nsource: test\nseverity: notice\ninterval: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, stop := w.serveWeb("--uri", redisAddr, "--listen", "127.0.0.1:0", "--alert-file", file, "--enable-metrics-exporter", "--alert-severity", "warning")
	if body := <-bodies; !strings.Contains(body, `"text":"test: [`) || strings.Contains(body, "[notice]") {
		t.Errorf("the alert is %s", body)
	}
	proctest.Eventually(t, "the counter of alerts", func() bool {
		_, body := ask(t, url+"/metrics", "", "")
		return strings.Contains(body, `asynq_alerts_sent_total{sink="slack 127.0.0.1:`) && strings.Contains(body, "asynq_alerts_failed_total{")
	})
	if code, stderr := stop(); code != ExitDone || strings.Contains(stderr, "secret") {
		t.Errorf("exit code %d, standard error %s", code, stderr)
	}
}

func TestAlertFlags(t *testing.T) {
	w := newWorld(t)
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(w.home, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for args, want := range map[string]string{
		"--alert-slack hooks.example.com/secret":                                     "--alert-slack: the value is not a URL",
		"--alert-webhook ftp://example.com/secret":                                   "--alert-webhook: the value is not a URL",
		"--alert-webhook http://a --alert-severity bad":                              "notice, warning or trouble",
		"--alert-webhook http://a --alert-quiet 0":                                   "greater than 0",
		"--alert-webhook http://a --alert-webhook-secret-file /does/not/exist":       "no such file",
		"--alert-webhook http://a --alert-webhook-secret-file " + write("empty", ""): "is empty",
		"--alert-mail-to a@example.com --alert-mail-command=":                        "--alert-mail-command is empty",
		"--alert-file /does/not/exist":                                               "no such file",
		"--alert-file " + write("list", "- secret"):                                  "not a YAML mapping",
		"--alert-file " + write("unknown", "secret: a\nslak: http://a"):              "unknown key",
		"--alert-file " + write("invalid", "after: secret"):                          `invalid value of "after"`,
		"--alert-file " + write("none", "source: a"):                                 "alerts need",
	} {
		for _, command := range []string{"web", "exporter"} {
			r := w.raw(t.Context(), append([]string{command}, strings.Fields(args)...)...)
			if r.code != ExitUsage || !strings.Contains(r.err, want) || strings.Contains(strings.ReplaceAll(r.err, "secret-file", ""), "secret") && !strings.Contains(r.err, `"secret"`) {
				t.Errorf("%s %s: %+v, want %q", command, args, r, want)
			}
		}
	}
}
