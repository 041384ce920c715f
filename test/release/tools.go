package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	modpath "golang.org/x/mod/module"
)

// tools are the programs of the checks that the go command installs: their packages and versions.
var tools = map[string]struct{ path, version string }{
	"apidiff":       {"golang.org/x/exp/cmd/apidiff", "v0.0.0-20261014143641-f0251eb4aa3e"},
	"compose":       {"github.com/compose-spec/compose-go/v2/cmd", "v2.16.2"},
	"golangci-lint": {"github.com/golangci/golangci-lint/v2/cmd/golangci-lint", "v2.15.0"},
	"goreleaser":    {"github.com/goreleaser/goreleaser/v2", "v2.14.0"},
	"kubeconform":   {"github.com/yannh/kubeconform/cmd/kubeconform", "v0.8.0"},
}

// installTool returns the path of a tool, and builds it on first use: once per Go release, because
// linters cannot read the export data of a newer one. It has the flags of CI, so that packages of
// the standard library are compiled once for both.
func installTool(ctx context.Context, name string, log io.Writer) (string, error) {
	t, known := tools[name]
	if !known {
		return "", fmt.Errorf("no tool %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(tools)), ", "))
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "asynq-ci", strings.Join([]string{name, t.version, runtime.Version()}, "-"))
	unversioned, _, _ := modpath.SplitPathVersion(t.path)
	program := filepath.Join(dir, path.Base(unversioned))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	fmt.Fprintf(log, "building %s@%s, which may take some minutes\n", t.path, t.version)
	args := []string{"go", "install"}
	if name != "golangci-lint" { // the others run too briefly for optimization to pay off
		args = append(args, "-gcflags=all=-N -l -dwarf=false", "-gcflags=std=", "-ldflags=-s -w")
	}
	_, err = output(ctx, os.TempDir(), []string{"GOWORK=off", "GOFLAGS=-buildvcs=false -trimpath", "GOBIN=" + dir}, append(args, t.path+"@"+t.version)...)
	return program, err
}
