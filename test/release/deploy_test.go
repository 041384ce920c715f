package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// servers are the default port of each program in deploy/, and the paths of its health checks.
var servers = map[string]struct {
	port        int
	ready, live string // live is empty if the check only connects
	grace       int    // least seconds that a shutdown needs
}{
	"asynq-service":  {8600, "/readyz", "/healthz", 41},
	"asynq-web":      {8080, "/healthz", "/healthz", 6},
	"asynq-exporter": {9876, "/healthz", "", 6},
	"asynq-worker":   {8080, "/readyz", "/healthz", 9},
}

func testRoot(t *testing.T) string {
	t.Helper()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestManifestsMatchThePrograms(t *testing.T) {
	t.Parallel()
	objects, err := manifests(testRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	deployments := 0
	for _, o := range objects {
		want, known := servers[o.Metadata.Name]
		if !known {
			t.Errorf("unknown object %s %s", o.Kind, o.Metadata.Name)
			continue
		}
		if o.Kind == "Service" && (len(o.Spec.Ports) != 1 || o.Spec.Ports[0].Port != want.port || o.Spec.Ports[0].TargetPort != "http") {
			t.Errorf("service %s: ports %+v, want %d", o.Metadata.Name, o.Spec.Ports, want.port)
		}
		if o.Kind != "Deployment" {
			continue
		}
		deployments++
		pod := o.Spec.Template.Spec
		if pod.Grace < want.grace {
			t.Errorf("%s: terminationGracePeriodSeconds %d, want at least %d", o.Metadata.Name, pod.Grace, want.grace)
		}
		c := pod.Containers[0]
		if len(c.Ports) != 1 || c.Ports[0].ContainerPort != want.port || c.Ports[0].Name != "http" {
			t.Errorf("%s: ports %+v, want %d", o.Metadata.Name, c.Ports, want.port)
		}
		if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet == nil || *c.ReadinessProbe.HTTPGet != (httpGet{want.ready, "http"}) {
			t.Errorf("%s: the readiness probe is not %s", o.Metadata.Name, want.ready)
		}
		if c.LivenessProbe == nil || (want.live == "") != (c.LivenessProbe.HTTPGet == nil) ||
			want.live != "" && *c.LivenessProbe.HTTPGet != (httpGet{want.live, "http"}) {
			t.Errorf("%s: the liveness probe is not %q", o.Metadata.Name, want.live)
		}
	}
	if deployments != len(servers) {
		t.Errorf("%d deployments, want %d", deployments, len(servers))
	}
}

func TestComposeMatchesThePrograms(t *testing.T) {
	t.Parallel()
	root := testRoot(t)
	c, err := readComposition(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"service", "web", "exporter"} {
		want := servers["asynq-"+name]
		if check := "CMD /asynq probe http://127.0.0.1:" + strconv.Itoa(want.port) + want.ready; strings.Join(c.Services[name].Healthcheck.Test, " ") != check {
			t.Errorf("%s: health check %q, want %q", name, c.Services[name].Healthcheck.Test, check)
		}
	}
	for name, want := range map[string]string{"service": "127.0.0.1:8600:8600", "web": "127.0.0.1:8080:8080"} {
		if got := c.Services[name].Ports; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: ports %q, want %s", name, got, want)
		}
	}
	if !strings.Contains(read(t, filepath.Join(root, "deploy", "prometheus.yml")), "exporter:9876") {
		t.Error("Prometheus does not scrape the exporter")
	}
}

// Every file runs the program in the ways that checkCommands expects.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	lines, err := commandLines(testRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, line := range lines {
		count[line.args[0]]++
	}
	if count["service"] != 3 || count["web"] != 3 || count["exporter"] != 3 || count["probe"] != 3 {
		t.Errorf("command lines %v of %v, want three of each", count, lines)
	}
}

// The bill of materials of the test's own program lists its modules.
func TestSBOM(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	document := filepath.Join(t.TempDir(), "sbom.json")
	if err := sbom("v0.9.0", program, document); err != nil {
		t.Fatal(err)
	}
	text := read(t, document)
	for _, want := range []string{`"bomFormat": "CycloneDX"`, `"purl": "pkg:golang/stdlib@`, `"name": "golang.org/x/mod"`, modulePath + `/test@v0.9.0"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "(devel)") {
		t.Errorf("a module without a version in\n%s", text)
	}
}
