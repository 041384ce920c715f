package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/metrics"
)

// A real Prometheus scrapes an exporter and a worker, loads the alert rules, and has a result for
// each query of the dashboard: with native histograms, and with classic ones.
func TestPrometheusAnswersTheDashboard(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("prometheus is not on the PATH: install the package prometheus to run this test")
	}
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	m := metrics.NewWorker(metrics.WorkerOptions{})
	addr := exporter(t, opt, metrics.ServeOptions{}, m)
	work(t, opt, m)
	for name, args := range map[string][]string{
		"native":  {"--enable-feature=native-histograms"},
		"classic": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers(t, startPrometheus(t, addr, args...))
		})
	}
}

// work runs a server and a scheduler until the test ends, with recurring tasks.
func work(t *testing.T, opt asynq.RedisConnOpt, m *metrics.Worker) {
	t.Helper()
	client := newClient(t, opt)
	mux := asynq.NewServeMux()
	mux.Use(m.Middleware)
	mux.HandleFunc("ok", func(context.Context, *asynq.Task) error { return nil })
	mux.HandleFunc("fails", func(context.Context, *asynq.Task) error { return errFailed })
	srv := asynq.NewServer(opt, asynq.Config{Queues: map[string]int{"default": 1, "low": 1}, Logger: quiet(), Observer: m.Observer()})
	if err := srv.Start(mux); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	sched := asynq.NewScheduler(opt, &asynq.SchedulerOpts{Logger: quiet()})
	if _, err := sched.Register("@every 1h", asynq.NewTask("ok", nil)); err != nil {
		t.Fatal(err)
	}
	if err := sched.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sched.Shutdown)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				for _, queue := range []string{"default", "low"} {
					for _, typename := range []string{"ok", "fails"} {
						if _, err := client.EnqueueContext(ctx, asynq.NewTask(typename, nil, asynq.Queue(queue))); err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					}
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// startPrometheus starts a Prometheus that scrapes the address every second, and returns its
// own address.
func startPrometheus(t *testing.T, target string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("dashboard/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - job_name: asynq
    static_configs: [{targets: [%q]}]
`, rules, target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := proctest.FreeAddr(t)
	proctest.Start(t, "prometheus", append(args, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=warn")...)
	proctest.Until(t, "Prometheus to be ready", func() error {
		resp, err := http.Get("http://" + addr + "/-/ready")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	return addr
}

// answers runs all queries of the dashboard, and checks the rules.
func answers(t *testing.T, addr string) {
	t.Helper()
	asked := 0
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			asked++
			expr := strings.NewReplacer("$__rate_interval", "3s", "$queue", "(default|low)").Replace(target.Expr)
			proctest.Until(t, "an answer to "+expr+" of "+p.Title, func() error { return query(addr, expr) })
		}
	}
	t.Logf("%d queries were answered", asked)
	var found struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	proctest.Until(t, "all rules to be evaluated", func() error {
		if err := ask(addr, "/api/v1/rules", nil, &found); err != nil {
			return err
		}
		rules := 0
		for _, g := range found.Data.Groups {
			for _, r := range g.Rules {
				if rules++; r.Health != "ok" {
					return fmt.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
				}
			}
		}
		if rules < 10 {
			return fmt.Errorf("there are %d rules", rules)
		}
		return nil
	})
}

// query requires at least one number.
func query(addr, expr string) error {
	var reply struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Value []any
			}
		}
	}
	if err := ask(addr, "/api/v1/query", url.Values{"query": {expr}}, &reply); err != nil {
		return err
	}
	if reply.Status != "success" || len(reply.Data.Result) == 0 {
		return fmt.Errorf("%s %s, %d results", reply.Status, reply.Error, len(reply.Data.Result))
	}
	for _, r := range reply.Data.Result {
		if len(r.Value) == 2 && r.Value[1] != "NaN" {
			return nil
		}
	}
	return errors.New("no result is a number")
}

func ask(addr, path string, values url.Values, reply any) error {
	resp, err := http.Get("http://" + addr + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(reply)
}
