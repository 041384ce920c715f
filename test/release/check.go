package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// migrate is a program that was written for github.com/hibiken/asynq.
//
//go:embed testdata/migrate.go.txt
var migrate string

// referencePath is the import path that migrating users replace.
const referencePath = "github.com/hibiken/asynq"

// demoTimeout bounds the use of the demo.
const demoTimeout = time.Minute

// check does what users do, in empty folders, with the modules of the working tree: get each
// module and build a program with it, install the command and run it, and change the import path
// of a program of the reference.
func check(ctx context.Context, root string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "asynq-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := newStage(ctx, root, dir, checkVersion)
	if err != nil {
		return err
	}
	if err := s.publish(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "a proxy has all modules at %s\n", s.version)
	return s.tryAll(ctx, out)
}

// tryAll installs from the proxy of the stage.
func (s *stage) tryAll(ctx context.Context, out io.Writer) error {
	for _, m := range s.modules {
		if !m.installed() {
			continue
		}
		if err := s.tryModule(ctx, m, out); err != nil {
			return err
		}
	}
	if err := s.tryQuickstart(ctx, out); err != nil {
		return err
	}
	return s.tryCommand(ctx, out)
}

// folder makes an empty folder with a new module, as a user starts a program.
func (s *stage) folder(ctx context.Context, name string) (dir string, err error) {
	dir = filepath.Join(s.dir, "user", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	_, err = output(ctx, dir, s.env, "go", "mod", "init", "example.com/"+name)
	return dir, err
}

// tryModule gets a module and builds a program that imports all packages of it that users can
// import.
func (s *stage) tryModule(ctx context.Context, m module, out io.Writer) error {
	listed, err := output(ctx, filepath.Join(s.tree(), m.dir), s.env, "go", "list", "-f", "{{if ne .Name \"main\"}}{{.ImportPath}}{{end}}", "./...")
	if err != nil {
		return err
	}
	var imports strings.Builder
	n := 0
	for path := range strings.FieldsSeq(listed) {
		if !strings.Contains(path+"/", "/internal/") {
			fmt.Fprintf(&imports, "import _ %q\n", path)
			n++
		}
	}
	if n == 0 {
		return nil // a command
	}
	dir, err := s.folder(ctx, strings.NewReplacer("/", "-", ".", "core").Replace(m.dir))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\n"+imports.String()+"\nfunc main() {}\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"go", "get", m.path + "@" + s.version}, {"go", "mod", "tidy"}, {"go", "build", "-o", os.DevNull, "."}} {
		if _, err := output(ctx, dir, s.env, args...); err != nil {
			return fmt.Errorf("a program that uses %s: %w", m.path, err)
		}
	}
	fmt.Fprintf(out, "go get %s@%s: a program with its %d packages builds\n", m.path, s.version, n)
	return nil
}

// tryQuickstart runs the example that the README begins with outside of the project.
func (s *stage) tryQuickstart(ctx context.Context, out io.Writer) error {
	dir, err := s.folder(ctx, "quickstart")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(s.tree(), "examples", "quickstart"))); err != nil {
		return err
	}
	for _, args := range [][]string{{"go", "get", modulePath + "@" + s.version}, {"go", "mod", "tidy"}, {"go", "run", "."}} {
		if _, err := output(ctx, dir, s.env, args...); err != nil {
			return fmt.Errorf("the quickstart: %w", err)
		}
	}
	fmt.Fprintln(out, "the quickstart runs in a module of its own")
	return nil
}

// tryCommand installs the command and runs it. The Redis of its demo serves a program whose import
// path has changed.
func (s *stage) tryCommand(ctx context.Context, out io.Writer) error {
	bin := filepath.Join(s.dir, "bin")
	path := modulePath + "/x/cmd/asynq@" + s.version
	if _, err := output(ctx, s.dir, append(s.env, "GOBIN="+bin), "go", "install", path); err != nil {
		return err
	}
	command := filepath.Join(bin, "asynq"+map[bool]string{true: ".exe"}[runtime.GOOS == "windows"])
	version, err := output(ctx, s.dir, nil, command, "version")
	if err != nil {
		return err
	}
	if !strings.Contains(version, s.version) || !strings.Contains(version, runtime.Version()) {
		return fmt.Errorf("asynq version does not print %s and %s: %q", s.version, runtime.Version(), version)
	}
	fmt.Fprintf(out, "go install %s: %s", path, version)
	return withDemo(ctx, command, func(ui, redis string) error {
		if err := get(ctx, ui); err != nil {
			return err
		}
		fmt.Fprintln(out, "asynq dev serves its web UI and a Redis")
		printed, err := s.tryMigration(ctx, redis)
		if err == nil {
			fmt.Fprintf(out, "a program of the reference with one changed import path: %s", printed)
		}
		return err
	})
}

// The addresses that asynq dev prints, and its last line.
var (
	demoUI    = regexp.MustCompile(`http://[0-9.:]+/`)
	demoRedis = regexp.MustCompile(`redis://([0-9.:]+)`)
)

const demoReady = "Press Ctrl-C"

// withDemo calls use with the addresses of a running demo, and then stops the demo.
func withDemo(ctx context.Context, command string, use func(ui, redis string) error) (err error) {
	ctx, interrupt := context.WithTimeout(ctx, demoTimeout)
	defer interrupt()
	cmd := exec.CommandContext(ctx, command, "dev", "--listen", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	printed, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	var text strings.Builder
	lines := bufio.NewScanner(printed)
	for !strings.Contains(text.String(), demoReady) && lines.Scan() {
		text.WriteString(lines.Text() + "\n")
	}
	ui, redis := demoUI.FindString(text.String()), demoRedis.FindStringSubmatch(text.String())
	if ui == "" || redis == nil {
		err = fmt.Errorf("asynq dev prints no addresses:\n%s", text.String())
	} else {
		err = use(ui, redis[1])
	}
	interrupt()
	_, _ = io.Copy(io.Discard, printed)
	if waited := cmd.Wait(); waited != nil && !errors.Is(waited, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("asynq dev: %w", waited))
	}
	return err
}

// get requests a page.
func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// tryMigration builds the program of the reference with our import path, and runs it.
func (s *stage) tryMigration(ctx context.Context, redis string) (string, error) {
	dir, err := s.folder(ctx, "migrated")
	if err != nil {
		return "", err
	}
	program := strings.ReplaceAll(migrate, referencePath, modulePath)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		return "", err
	}
	if _, err := output(ctx, dir, s.env, "go", "get", modulePath+"@"+s.version); err != nil {
		return "", err
	}
	return output(ctx, dir, append(s.env, "REDIS_ADDR="+redis), "go", "run", ".")
}
