package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A deployment is the files of deploy/ and a program that they run.
type deployment struct {
	root, dir string // dir is temporary
	program   string
	out       io.Writer
}

// errMissing is the error of a check without its tool.
var errMissing = errors.New("not checked")

// need returns an error if a program is not installed.
func need(program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w: %s is not installed", errMissing, program)
	}
	return nil
}

// deploy validates the files of deploy/ and the configuration of goreleaser, each with the tool
// that reads it. It reports tools that are not installed.
func deploy(ctx context.Context, root string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "asynq-deploy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &deployment{root: root, dir: dir, out: out, program: filepath.Join(dir, "asynq")}
	if _, err := output(ctx, root, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=false", "-o", d.program, "./x/cmd/asynq"); err != nil {
		return err
	}
	for _, c := range []struct {
		name  string
		check func(context.Context) error
	}{
		{"command lines", d.checkCommands},
		{"service configuration", d.checkService},
		{"systemd units", d.checkUnits},
		{"compose file", d.checkCompose},
		{"Kubernetes manifests", d.checkManifests},
		{"Prometheus configuration", d.checkPrometheus},
		{"goreleaser configuration", d.checkGoreleaser},
		{"reproducible build", d.checkBuild},
		{"image", d.checkImage},
	} {
		switch err := c.check(ctx); {
		case errors.Is(err, errMissing):
			fmt.Fprintf(out, "%s: %v\n", c.name, err)
		case err != nil:
			return fmt.Errorf("%s: %w", c.name, err)
		default:
			fmt.Fprintf(out, "%s: ok\n", c.name)
		}
	}
	return nil
}

// tool runs a tool in the folder deploy.
func (d *deployment) tool(ctx context.Context, name string, args ...string) error {
	program, err := installTool(ctx, name, d.out)
	if err != nil {
		return err
	}
	_, err = output(ctx, filepath.Join(d.root, "deploy"), nil, append([]string{program}, args...)...)
	return err
}

// checkCommands passes each command line to the program with --help, which parses all flags.
func (d *deployment) checkCommands(ctx context.Context) error {
	lines, err := commandLines(d.root)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := output(ctx, d.dir, nil, append(append([]string{d.program}, line.args...), "--help")...); err != nil {
			return fmt.Errorf("%s: %w", line.file, err)
		}
	}
	return nil
}

// checkService checks the configurations of the queue service in the compose file and in the
// manifests.
func (d *deployment) checkService(ctx context.Context) error {
	inCompose, err := os.ReadFile(filepath.Join(d.root, "deploy", "service.yaml"))
	if err != nil {
		return err
	}
	configs := []string{string(inCompose)}
	objects, err := manifests(d.root)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.Kind == "ConfigMap" {
			configs = append(configs, o.Data["service.yaml"])
		}
	}
	for _, config := range configs {
		name := filepath.Join(d.dir, "service.yaml")
		if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
			return err
		}
		env := []string{"ASYNQ_URI=redis://redis:6379", "ASYNQ_TOKEN=" + strings.Repeat("0123456789abcdef", 3)}
		if _, err := output(ctx, d.dir, env, d.program, "service", "check", name); err != nil {
			return err
		}
	}
	return nil
}

// maxExposure is the highest acceptable exposure of a unit, of 100, as systemd computes it.
const maxExposure = "20"

// checkUnits verifies copies of the units, because their programs are not installed.
func (d *deployment) checkUnits(ctx context.Context) error {
	if err := need("systemd-analyze"); err != nil {
		return err
	}
	units, err := filepath.Glob(filepath.Join(d.root, "deploy", "systemd", "*.service"))
	if err != nil {
		return err
	}
	dir := filepath.Join(d.dir, "units")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, unit := range units {
		data, err := os.ReadFile(unit)
		if err != nil {
			return err
		}
		for _, program := range []string{"asynq", "worker"} {
			data = bytes.ReplaceAll(data, []byte("/usr/local/bin/"+program), []byte(d.program))
		}
		name := filepath.Join(dir, filepath.Base(unit))
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
		if _, err := output(ctx, dir, nil, "systemd-analyze", "verify", "--man=no", name); err != nil {
			return err
		}
		if _, err := output(ctx, dir, nil, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+maxExposure, name); err != nil {
			return err
		}
	}
	return nil
}

// checkCompose sets the variables that the user must set: the tool does not read the environment.
func (d *deployment) checkCompose(ctx context.Context) error {
	data, err := os.ReadFile(filepath.Join(d.root, "deploy", "compose.yaml"))
	if err != nil {
		return err
	}
	name := filepath.Join(d.dir, "compose.yaml")
	if err := os.WriteFile(name, required.ReplaceAll(data, []byte("secret")), 0o644); err != nil {
		return err
	}
	return d.tool(ctx, "compose", name)
}

// required matches a required variable of a compose file.
var required = regexp.MustCompile(`\$\{[A-Z_]+:\?[^}]*\}`)

// checkManifests uses strict schemas of the kinds in testdata/kubernetes, made from the OpenAPI
// document of Kubernetes 1.37.2 (api/openapi-spec/swagger.json).
func (d *deployment) checkManifests(ctx context.Context) error {
	schemas := filepath.Join(d.root, "test", "release", "testdata", "kubernetes", "{{ .ResourceKind }}{{ .KindSuffix }}.json")
	return d.tool(ctx, "kubeconform", "-strict", "-schema-location", schemas, "kubernetes")
}

// checkPrometheus places the alert rules where the compose file does.
func (d *deployment) checkPrometheus(ctx context.Context) error {
	if err := need("promtool"); err != nil {
		return err
	}
	for from, to := range map[string]string{"deploy/prometheus.yml": "prometheus.yml", "x/metrics/dashboard/alerts.yml": "alerts.yml"} {
		if err := copyFile(filepath.Join(d.root, from), filepath.Join(d.dir, to)); err != nil {
			return err
		}
	}
	_, err := output(ctx, d.dir, nil, "promtool", "check", "config", "prometheus.yml")
	return err
}

func (d *deployment) checkGoreleaser(ctx context.Context) error {
	return d.tool(ctx, "goreleaser", "check", filepath.Join(d.root, ".goreleaser.yaml"))
}

// builds is what a check reads from the configuration of goreleaser.
type builds struct {
	Builds []struct {
		Dir     string
		Env     []string
		Targets []string
		Flags   []string
		Ldflags []string
	}
	SBOMs []struct {
		Cmd  string
		Args []string
	} `yaml:"sboms"`
}

// checkBuild builds a target of the configuration of goreleaser in two folders, as goreleaser does,
// and compares the programs and their bills of materials. The programs must be static.
func (d *deployment) checkBuild(ctx context.Context) error {
	data, err := os.ReadFile(filepath.Join(d.root, ".goreleaser.yaml"))
	if err != nil {
		return err
	}
	var config builds
	if err := yaml.Unmarshal(data, &config); err != nil {
		return err
	}
	b, hook := config.Builds[0], config.SBOMs[0]
	if !slices.Contains(b.Targets, "linux_amd64") {
		return errors.New("no target linux_amd64")
	}
	const program, document = "asynq_linux_amd64/asynq", "asynq.cdx.json" // in the folder dist
	fill := strings.NewReplacer("{{ .Version }}", strings.TrimPrefix(checkVersion, "v"), "{{ .FullCommit }}", "0123456789abcdef",
		"$artifact", program, "$document", document)
	env := append(slices.Clone(b.Env), "GOOS=linux", "GOARCH=amd64")
	var hashes [2]string
	for i := range hashes {
		dir := filepath.Join(d.dir, fmt.Sprintf("folder%d", i), strings.Repeat("x", i))
		if err := copyTree(ctx, d.root, dir); err != nil {
			return err
		}
		dist := filepath.Join(dir, "dist")
		args := append(append([]string{"go", "build"}, b.Flags...), "-ldflags", fill.Replace(strings.Join(b.Ldflags, " ")), "-o", filepath.Join(dist, program), ".")
		if _, err := output(ctx, filepath.Join(dir, b.Dir), env, args...); err != nil {
			return err
		}
		if err := isStatic(filepath.Join(dist, program)); err != nil {
			return err
		}
		args = []string{hook.Cmd}
		for _, arg := range hook.Args {
			args = append(args, fill.Replace(arg))
		}
		if _, err := output(ctx, dist, nil, args...); err != nil {
			return fmt.Errorf("bill of materials: %w", err)
		}
		if hashes[i], err = hash(filepath.Join(dist, program), filepath.Join(dist, document)); err != nil {
			return err
		}
	}
	if hashes[0] != hashes[1] {
		return fmt.Errorf("builds in two folders differ: sha256 %s and %s", hashes[0], hashes[1])
	}
	return nil
}

// hash returns the SHA-256 of files.
func hash(names ...string) (string, error) {
	h := sha256.New()
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// isStatic returns an error if a program for Linux needs a dynamic linker.
func isStatic(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%s is not static", program)
	}
	return nil
}
