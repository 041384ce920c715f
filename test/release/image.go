//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// imageTimeout bounds the run of a server in the image.
const imageTimeout = time.Minute

// imageUser is the user of the image.
const imageUser = 65532

// checkImage builds the image, and runs the web UI in it: in its files, as its user. The build uses
// the installed release of Go and the module cache instead of an image from a registry.
func (d *deployment) checkImage(ctx context.Context) error {
	if os.Getuid() != 0 {
		return fmt.Errorf("%w: root is required", errMissing)
	}
	for _, program := range []string{"buildah", "busybox"} {
		if err := need(program); err != nil {
			return err
		}
	}
	i, err := d.newImage(ctx)
	if err != nil {
		return err
	}
	if err := i.goImage(ctx); err != nil {
		return err
	}
	args := []string{"build", "--pull-never", "--format", "docker", "--build-arg", "VERSION=" + checkVersion, "--tag", "localhost/asynq",
		"--volume", i.goroot + ":/usr/local/go:ro", "--volume", i.modules + ":/go/pkg/mod:ro", "--volume", i.cache + ":/root/.cache/go-build",
		"--file", filepath.Join(d.root, "deploy", "Containerfile"), d.root}
	if _, err := i.buildah(ctx, args...); err != nil {
		return err
	}
	config, err := i.buildah(ctx, "inspect", "--type", "image", "--format", "{{.Docker.Config.User}} {{.Docker.Config.Healthcheck.Test}}", "localhost/asynq")
	if err != nil {
		return err
	}
	if want := "65532:65532 [CMD /asynq probe]"; strings.TrimSpace(config) != want {
		return fmt.Errorf("user and health check are %q, want %q", config, want)
	}
	container, err := i.buildah(ctx, "from", "--pull-never", "localhost/asynq")
	if err != nil {
		return err
	}
	files, err := i.buildah(ctx, "mount", strings.TrimSpace(container))
	if err != nil {
		return err
	}
	return serveIn(ctx, strings.TrimSpace(files))
}

// An image is a store of images, and what their builds use of this machine.
type image struct {
	dir                    string
	env                    []string
	goroot, modules, cache string
}

func (d *deployment) newImage(ctx context.Context) (*image, error) {
	i := &image{dir: filepath.Join(d.dir, "images")}
	if err := os.Mkdir(i.dir, 0o755); err != nil {
		return nil, err
	}
	storage := filepath.Join(i.dir, "storage.conf")
	text := fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", filepath.Join(i.dir, "graph"), filepath.Join(i.dir, "run"))
	if err := os.WriteFile(storage, []byte(text), 0o644); err != nil {
		return nil, err
	}
	i.env = []string{"CONTAINERS_STORAGE_CONF=" + storage, "BUILDAH_ISOLATION=chroot"}
	found, err := output(ctx, d.root, nil, "go", "env", "GOROOT", "GOMODCACHE", "GOCACHE")
	if err != nil {
		return nil, err
	}
	dirs := strings.Fields(found)
	if len(dirs) != 3 {
		return nil, fmt.Errorf("go env printed %q", found)
	}
	i.goroot, i.modules, i.cache = dirs[0], dirs[1], dirs[2]
	return i, nil
}

func (i *image) buildah(ctx context.Context, args ...string) (string, error) {
	return output(ctx, i.dir, i.env, append([]string{"buildah"}, args...)...)
}

// goImage makes an image with the name of the one that the build begins with. It has a shell and
// certificates; the build mounts Go.
func (i *image) goImage(ctx context.Context) error {
	shell, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	certificates := filepath.Join(i.dir, "ca-certificates.crt")
	if err := copyFile("/etc/ssl/certs/ca-certificates.crt", certificates); err != nil {
		return err
	}
	tmp := filepath.Join(i.dir, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	container, err := i.buildah(ctx, "from", "scratch")
	if err != nil {
		return err
	}
	container = strings.TrimSpace(container)
	for _, args := range [][]string{
		{"copy", container, shell, "/bin/sh"},
		{"copy", container, certificates, "/etc/ssl/certs/"},
		{"copy", container, tmp, "/tmp"},
		{"config", "--env", "PATH=/usr/local/go/bin:/bin", "--env", "GOPATH=/go", "--env", "GOPROXY=off", "--env", "GOFLAGS=-modcacherw", "--env", "HOME=/root", container},
		{"commit", "--rm", container, "docker.io/library/golang:1.26"},
	} {
		if _, err := i.buildah(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// webUI is the address that asynq web prints.
var webUI = regexp.MustCompile(`http://[0-9.:]+/`)

// serveIn runs asynq web and asynq probe in the files of an image, as its user.
func serveIn(ctx context.Context, files string) (err error) {
	redis, err := miniredis.Run()
	if err != nil {
		return err
	}
	defer redis.Close()
	ctx, stop := context.WithTimeout(ctx, imageTimeout)
	defer stop()
	inImage := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "/asynq", args...)
		cmd.Dir, cmd.Env = "/", []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: files, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
		return cmd
	}
	web := inImage("web", "--listen", "127.0.0.1:0", "--uri", redis.Addr())
	web.Cancel = func() error { return web.Process.Signal(syscall.SIGTERM) }
	web.WaitDelay = 10 * time.Second
	printed, err := web.StderrPipe()
	if err != nil {
		return err
	}
	if err := web.Start(); err != nil {
		return err
	}
	at, text := "", ""
	for lines := bufio.NewScanner(printed); at == "" && lines.Scan(); {
		text += lines.Text() + "\n"
		at = webUI.FindString(lines.Text())
	}
	if at == "" {
		err = fmt.Errorf("asynq web prints no address:\n%s", text)
	} else {
		err = errors.Join(get(ctx, at), get(ctx, at+"healthz"))
		if probed, failed := inImage("probe", at+"healthz").CombinedOutput(); failed != nil {
			err = errors.Join(err, fmt.Errorf("asynq probe: %w\n%s", failed, probed))
		}
	}
	stop()
	if ended := web.Wait(); ended != nil && !errors.Is(ended, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("asynq web: %w", ended))
	}
	return err
}
