package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
)

//go:embed bullmq/package.json bullmq/package-lock.json bullmq/bench.mjs
var bullMQFiles embed.FS

// bullMQShare divides the number of tasks for BullMQ, unless the reference gets a smaller share.
const bullMQShare = 5

// bullMQRounds is the maximum number of rounds of BullMQ, which has no target.
const bullMQRounds = 3

// installTimeout is the timeout of npm.
const installTimeout = 2 * time.Minute

// bullMQ is an installation of BullMQ in its own directory.
type bullMQ struct {
	dir           string
	version, node string
}

// prepareBullMQ installs BullMQ from the lock file without running its scripts. It returns an error
// if node or npm is missing.
func prepareBullMQ(ctx context.Context) (*bullMQ, error) {
	node, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "asynq-bench-bullmq-")
	if err != nil {
		return nil, err
	}
	b := &bullMQ{dir: dir, node: strings.TrimSpace(string(node))}
	if err := b.install(ctx); err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

func (b *bullMQ) install(ctx context.Context) error {
	for _, file := range []string{"package.json", "package-lock.json", "bench.mjs"} {
		text, err := bullMQFiles.ReadFile("bullmq/" + file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(b.dir, file), text, 0o600); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = b.dir
	proctest.DieWithParent(npm)
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, bytes.TrimSpace(out))
	}
	var pkg struct{ Version string }
	text, err := os.ReadFile(filepath.Join(b.dir, "node_modules", "bullmq", "package.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &pkg); err != nil {
		return err
	}
	b.version = pkg.Version
	return nil
}

// remove deletes the installation. It is a no-op without one.
func (b *bullMQ) remove() {
	if b != nil {
		_ = os.RemoveAll(b.dir) // a temporary directory
	}
}

// lane runs a workload that enqueues or processes no-op tasks.
func (b *bullMQ) lane(ctx context.Context, order *laneConfig) (*figures, error) {
	kind, rest, _ := strings.Cut(order.Workload, "/")
	what, number, _ := strings.Cut(rest, "=")
	if _, err := strconv.Atoi(number); err != nil {
		return nil, errors.New("BullMQ does not support the workload " + order.Workload)
	}
	ctx, cancel := context.WithTimeout(ctx, laneTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "bench.mjs", order.Addr, kind, what, number, strconv.Itoa(order.Tasks))
	cmd.Dir = b.dir
	return measured(cmd)
}
