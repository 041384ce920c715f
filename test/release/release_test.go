package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write writes the files of a folder, whose names and contents alternate.
func write(t *testing.T, dir string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// project is a repository with a core, a module that requires it, and one for development.
func project(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	write(t, root,
		"go.work", "go 1.26.0\n\nuse (\n\t.\n\t./test\n\t./x/web\n)\n\nreplace github.com/asynq-go/asynq v0.0.0 => .\n",
		"go.mod", "module github.com/asynq-go/asynq\n\ngo 1.26.0\n",
		"asynq.go", "package asynq\n\nconst Answer = 42\n",
		"LICENSE", "MIT\n",
		"CHANGELOG.md", changelog,
		".gitignore", "/ignored\n",
		"ignored", "",
		"x/web/go.mod", "module github.com/asynq-go/asynq/x/web\n\ngo 1.26.0\n\nrequire github.com/asynq-go/asynq v0.0.0\n",
		"x/web/web.go", "package web\n\nimport \"github.com/asynq-go/asynq\"\n\nconst Answer = asynq.Answer\n",
		"test/go.mod", "module github.com/asynq-go/asynq/test\n\ngo 1.26.0\n\nreplace github.com/asynq-go/asynq => ..\n\nrequire github.com/asynq-go/asynq v0.0.0\n",
		"test/test.go", "package test\n\nimport _ \"github.com/asynq-go/asynq\"\n",
	)
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch", branch},
		{"config", "user.name", "A"},
		{"config", "user.email", "a@example.com"},
		{"add", "."},
		{"commit", "--quiet", "--message", "begin"},
	} {
		git(t, root, args...)
	}
	return root
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	printed, err := output(t.Context(), dir, nil, append([]string{"git"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return printed
}

const changelog = `# Changelog

## [Unreleased]

- All.

[Unreleased]: https://github.com/asynq-go/asynq/commits/main
`

// The tags of a release hold modules that require each other, with their hashes.
func TestTagsCanBeInstalled(t *testing.T) {
	t.Parallel()
	root, version := project(t), "v0.9.0"
	if err := releasable(t.Context(), root, version); err != nil {
		t.Fatal(err)
	}
	s, err := newStage(t.Context(), root, t.TempDir(), version)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.tree(), "ignored")); err == nil {
		t.Error("the stage has files that Git ignores")
	}
	if err := s.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	tags, err := s.commit(t.Context(), root, version)
	if want := []string{"v0.9.0", "x/web/v0.9.0"}; err != nil || !slices.Equal(tags, want) {
		t.Fatalf("tags %v, %v, want %v", tags, err, want)
	}
	for name, want := range map[string]string{
		"x/web/go.mod": "require github.com/asynq-go/asynq v0.9.0\n",
		"x/web/go.sum": "github.com/asynq-go/asynq v0.9.0 h1:",
		"test/go.mod":  "require github.com/asynq-go/asynq v0.9.0\n",
		"go.work":      "replace github.com/asynq-go/asynq v0.9.0 => .\n",
	} {
		if got := read(t, filepath.Join(root, name)); !strings.Contains(got, want) {
			t.Errorf("%s is\n%s", name, got)
		}
	}
	direct, err := s.fromTags(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	user := t.TempDir()
	write(t, user,
		"go.mod", "module example.com/user\n\ngo 1.26.0\n",
		"main.go", "package main\n\nimport \"github.com/asynq-go/asynq/x/web\"\n\nfunc main() { println(web.Answer) }\n")
	for _, args := range [][]string{{"go", "get", "github.com/asynq-go/asynq/x/web@" + version}, {"go", "build", "-o", os.DevNull, "."}} {
		if _, err := output(t.Context(), user, direct.env, args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := releasable(t.Context(), root, version); err == nil || !strings.Contains(err.Error(), "not newer") {
		t.Errorf("the same version again: %v", err)
	}
}

func TestReleasable(t *testing.T) {
	t.Parallel()
	root := project(t)
	for version, want := range map[string]string{"0.9.0": "not a version", "v0.9": "not a version", "v2.0.0": "module paths"} {
		if err := releasable(t.Context(), root, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", version, err)
		}
	}
	git(t, root, "switch", "--quiet", "--create", "other")
	if err := releasable(t.Context(), root, "v0.9.0"); err == nil || !strings.Contains(err.Error(), "from the branch main") {
		t.Errorf("on another branch: %v", err)
	}
	write(t, root, "asynq.go", "package asynq\n")
	if err := releasable(t.Context(), root, "v0.9.0"); err == nil || !strings.Contains(err.Error(), "has changes") {
		t.Errorf("with changes: %v", err)
	}
}

func TestReplaceIsRefused(t *testing.T) {
	t.Parallel()
	root := project(t)
	write(t, root, "x/web/go.mod", read(t, filepath.Join(root, "x", "web", "go.mod"))+"\nreplace github.com/asynq-go/asynq => ../..\n")
	if _, err := newStage(t.Context(), root, t.TempDir(), checkVersion); err == nil || !strings.Contains(err.Error(), "x/web/go.mod has a replace") {
		t.Errorf("error %v", err)
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	root := project(t)
	mod := filepath.Join(root, "x", "web", "go.mod")
	tidyMod := read(t, mod)
	write(t, root, "x/web/go.mod", strings.Replace(tidyMod, "v0.0.0", "v0.0.0 // indirect", 1))
	var out strings.Builder
	if err := tidy(t.Context(), root, true, &out); err == nil || !strings.Contains(out.String(), "x/web/go.mod differs") {
		t.Errorf("error %v, printed %q", err, out.String())
	}
	if err := tidy(t.Context(), root, false, &out); err != nil {
		t.Fatal(err)
	}
	if got := read(t, mod); got != tidyMod {
		t.Errorf("go.mod is\n%s", got)
	}
	if err := tidy(t.Context(), root, true, &out); err != nil {
		t.Error(err)
	}
}

func TestDateChangelog(t *testing.T) {
	t.Parallel()
	dir, day := t.TempDir(), time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	write(t, dir, "CHANGELOG.md", changelog)
	if err := dateChangelog(dir, "v0.9.0", day); err != nil {
		t.Fatal(err)
	}
	const want = `# Changelog

## [Unreleased]

## [0.9.0] - 2026-12-24

- All.

[Unreleased]: https://github.com/asynq-go/asynq/compare/v0.9.0...main
[0.9.0]: https://github.com/asynq-go/asynq/releases/tag/v0.9.0
`
	if got := read(t, filepath.Join(dir, "CHANGELOG.md")); got != want {
		t.Errorf("the changelog is\n%s", got)
	}
	if err := dateChangelog(dir, "v0.9.1", day); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("without changes: %v", err)
	}
}

func TestRunRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"", "what", "check more", "stage", "tag", "tidy -what"} {
		if err := run(t.Context(), strings.Fields(args), os.Stderr); err == nil || !strings.Contains(err.Error(), "usage: release") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
