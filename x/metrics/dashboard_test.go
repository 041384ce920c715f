package metrics_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/metrics"
)

// dashboard is the part of dashboard/asynq.json that the tests need.
type dashboard struct {
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
	Panels []panel
}

type panel struct {
	ID      int
	Title   string
	Type    string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ RefID, Expr string }
}

func readDashboard(t *testing.T) *dashboard {
	t.Helper()
	raw, err := os.ReadFile("dashboard/asynq.json")
	if err != nil {
		t.Fatal(err)
	}
	d := &dashboard{}
	if err := json.Unmarshal(raw, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// alerts is the part of dashboard/alerts.yml that the tests need.
type alerts struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

func readAlerts(t *testing.T) *alerts {
	t.Helper()
	raw, err := os.ReadFile("dashboard/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	a := &alerts{}
	if err := yaml.Unmarshal(raw, a); err != nil {
		t.Fatal(err)
	}
	return a
}

var (
	described  = regexp.MustCompile(`fqName: "([^"]+)"`)
	named      = regexp.MustCompile(`\basynq_[a-z_]+`)
	documented = regexp.MustCompile("(?m)^\\| `(asynq_[a-z_]+)`")
	classic    = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// exported returns the names of all metrics.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	inspector := newInspector(t, asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()})
	for _, c := range []prometheus.Collector{
		metrics.NewCollector(inspector, metrics.CollectorOptions{}), metrics.NewWorker(metrics.WorkerOptions{}),
		metrics.NewOutbox(nil, metrics.OutboxOptions{}),
	} {
		ch := make(chan *prometheus.Desc, 100)
		c.Describe(ch)
		close(ch)
		for d := range ch {
			names[described.FindStringSubmatch(d.String())[1]] = true
		}
	}
	return names
}

// The dashboard and the rules only use exported metrics.
func TestDashboardUsesExportedMetrics(t *testing.T) {
	t.Parallel()
	names := exported(t)
	check := func(where, expr string) {
		found := named.FindAllString(expr, -1)
		if len(found) == 0 {
			t.Errorf("%s has no query: %s", where, expr)
		}
		for _, name := range found {
			if !names[name] && !names[classic.ReplaceAllString(name, "")] {
				t.Errorf("%s uses %s, which is not exported", where, name)
			}
		}
	}
	d := readDashboard(t)
	ids, queries := make(map[int]bool), 0
	for i, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have ID %d", p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || i > 0 && p.GridPos.Y < d.Panels[i-1].GridPos.Y {
			t.Errorf("%q is at %+v", p.Title, p.GridPos)
		}
		for _, target := range p.Targets {
			queries++
			check("panel "+p.Title, target.Expr)
		}
	}
	if queries < 30 || len(d.Templating.List) != 2 {
		t.Errorf("there are %d queries and %d variables", queries, len(d.Templating.List))
	}
	rules := 0
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			rules++
			check("alert "+r.Alert, r.Expr)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("alert %s lacks a severity or a summary", r.Alert)
			}
		}
	}
	if rules < 10 {
		t.Errorf("there are %d rules", rules)
	}
}

// docs/METRICS.md has a row for each metric, and for no others.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	names := exported(t)
	for _, m := range documented.FindAllStringSubmatch(string(raw), -1) {
		if !names[m[1]] {
			t.Errorf("%s has a row, but is not exported", m[1])
		}
		delete(names, m[1])
	}
	for name := range names {
		t.Errorf("%s has no row", name)
	}
}

// promtool accepts the rules. Without promtool, TestDashboardUsesExportedMetrics still reads them.
func TestAlertsWithPromtool(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not on the PATH: install the package prometheus")
	}
	out, err := exec.Command(promtool, "check", "rules", "dashboard/alerts.yml").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "SUCCESS") {
		t.Errorf("%v\n%s", err, out)
	}
}
