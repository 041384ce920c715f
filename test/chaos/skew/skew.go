// Package skew builds a program with a skewed clock: its time.Now is ahead of the clock of the
// machine.
package skew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// env holds the skew in seconds for a program built by Build.
const env = "ASYNQ_CHAOS_SKEW"

// Env returns the environment variable that sets the skew of a program built by Build, truncated to
// seconds.
func Env(skew time.Duration) string { return fmt.Sprintf("%s=%d", env, skew/time.Second) }

// The patch of the standard library: time.Now adds a number of seconds that is read at the start.
// The monotonic clock is unchanged, as on a host with a wrong clock.
const (
	anchor = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	change = anchor + "\tsec += chaosSkew\n"
	source = `package time

import "syscall"

var chaosSkew = readSkew()

func readSkew() (n int64) {
	text, _ := syscall.Getenv("` + env + `")
	sign := int64(1)
	for _, c := range []byte(text) {
		if c == '-' {
			sign = -1
		} else {
			n = n*10 + int64(c-'0')
		}
	}
	return sign * n
}
`
)

// Build builds a package of the module into dir and returns the path of the program. It needs the
// sources of the module, and a Go release whose time.Now looks like that of Go 1.26.
func Build(ctx context.Context, dir, pkg string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("skew: looking for the standard library: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("skew: %w", err)
	}
	patched := strings.Replace(string(text), anchor, change, 1)
	if patched == string(text) {
		return "", fmt.Errorf("skew: %s is not as expected: time.Now cannot be changed", original)
	}
	now, extra := filepath.Join(dir, "time.go"), filepath.Join(dir, "skew.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		original: now, filepath.Join(filepath.Dir(original), "zz_chaos_skew.go"): extra,
	}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	const mode = 0o600
	err = errors.Join(
		os.WriteFile(now, []byte(patched), mode), os.WriteFile(extra, []byte(source), mode), os.WriteFile(list, overlay, mode))
	if err != nil {
		return "", fmt.Errorf("skew: %w", err)
	}
	program := filepath.Join(dir, "skewed")
	out, err := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", program, pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("skew: building %s: %w\n%s", pkg, err, out)
	}
	return program, nil
}
