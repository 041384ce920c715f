package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	modpath "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// A stage is a folder with a copy of the project (tree), whose modules all have one version, and
// with these modules as a proxy serves them (proxy). The go command runs with a module cache of its
// own (mod), because the version does not always have the same content.
type stage struct {
	dir     string
	version string
	modules []module
	env     []string // for the go command
}

func (s *stage) tree() string  { return filepath.Join(s.dir, "tree") }
func (s *stage) proxy() string { return filepath.Join(s.dir, "proxy") }

// stageIn prepares a stage for scripts: the file env has the environment of the go command.
func stageIn(ctx context.Context, root, dir string) error {
	s, err := newStage(ctx, root, dir, checkVersion)
	if err != nil {
		return err
	}
	if err := s.publish(ctx); err != nil {
		return err
	}
	var env strings.Builder
	for _, v := range s.env {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&env, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	return os.WriteFile(filepath.Join(s.dir, "env"), []byte(env.String()), 0o644)
}

// newStage copies the files of the working tree that Git does not ignore, and writes the version
// into all modules.
func newStage(ctx context.Context, root, dir, version string) (*stage, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir, version: version}
	if err := copyTree(ctx, root, s.tree()); err != nil {
		return nil, err
	}
	if s.modules, err = readModules(s.tree()); err != nil {
		return nil, err
	}
	if err := setWorkVersion(s.tree(), version); err != nil {
		return nil, err
	}
	for _, m := range s.modules {
		if err := errors.Join(noReplace(m), setVersion(filepath.Join(s.tree(), m.dir), version)); err != nil {
			return nil, err
		}
	}
	cached, err := output(ctx, root, nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, proxy, _ := strings.Cut(strings.TrimSpace(cached), "\n")
	// -trimpath makes builds independent of the folder, so that the build cache serves them.
	s.env = []string{
		"GOWORK=off", "GOFLAGS=-trimpath -modcacherw -buildvcs=false", "GOMODCACHE=" + filepath.Join(dir, "mod"),
		"GOPROXY=" + strings.Join([]string{fileURL(s.proxy()), fileURL(filepath.Join(cache, "cache", "download")), proxy}, ","),
		"GONOSUMDB=" + modulePath, "GONOPROXY=", "GOPRIVATE=",
	}
	return s, nil
}

func fileURL(path string) string { return "file://" + filepath.ToSlash(path) }

// publish tidies the modules that users install and adds them to the proxy, each after those that
// it requires: its go.sum file has their hashes.
func (s *stage) publish(ctx context.Context) error {
	for _, m := range s.modules {
		if !m.installed() {
			continue
		}
		if err := s.run(ctx, m.dir, "go", "mod", "tidy"); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if err := s.pack(m); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

// pack adds a module to the proxy.
func (s *stage) pack(m module) error {
	dir := filepath.Join(s.tree(), m.dir)
	escaped, err := modpath.EscapePath(m.path)
	if err != nil {
		return err
	}
	versions := filepath.Join(s.proxy(), filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return err
	}
	// The go command adds the license of the repository to modules in its folders.
	if m.dir != "." {
		if err := copyFile(filepath.Join(s.tree(), "LICENSE"), filepath.Join(dir, "LICENSE")); err != nil {
			return err
		}
	}
	var packed bytes.Buffer
	if err := zip.CreateFromDir(&packed, modpath.Version{Path: m.path, Version: s.version}, dir); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": s.version, "Time": time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"list": []byte(s.version + "\n"), s.version + ".info": info, s.version + ".mod": mod, s.version + ".zip": packed.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command in a folder of the tree.
func (s *stage) run(ctx context.Context, dir string, args ...string) error {
	_, err := output(ctx, filepath.Join(s.tree(), dir), s.env, args...)
	return err
}

// output runs a command and returns what it printed. Its error has what it printed to standard
// error.
func output(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String(), nil
}

// copyTree copies the files that Git does not ignore.
func copyTree(ctx context.Context, from, to string) error {
	listed, err := output(ctx, from, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		err := copyFile(filepath.Join(from, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // deleted, but not committed yet
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: modules cannot contain it", from)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}
